// SPDX-License-Identifier: Apache-2.0
/// folio/attention/kv_buffer/tma_loader.h: the loader that copies boxes by a tensor map (sm_90 on).
///
/// A box is as many rows as lie in one page wherever 32 keys begin: gcd(32, page_size). Its map is
/// that of a ragged tile, whose copies are clipped at run time: rows past the end, and boxes of
/// unassigned pages, come as zeros from the hardware. Rows between seen ones that nobody sees are
/// made zero behind the copy, by `wait`.
#pragma once

#include <cstdint>

#include "folio/attention/kv_buffer/cp_async_loader.h"
#include "folio/core/host_device.h"
#include "folio/tma/barrier.h"
#include "folio/tma/ragged_tile.h"
#include "folio/tma/tile.h"

namespace folio::inline v1::kv_buffer {

/// Staging, and what copies need besides: the SmemParentType of a buffer with a TmaLoader.
/// `barriers`: one for each stage, made by init_barriers.
template <class Machine, class T, class L>
struct TmaStaging : SharedView<Machine, T, L> {
  const typename Machine::TileMap* map = nullptr;  ///< of TmaLoader::tile_of, encoded
  SharedMemBarrier barriers = {};
  int32_t box_rows = 0;  ///< TmaLoader::box_rows of the page size

  FOLIO_DEVICE_FUNCTION TmaStaging() {}
  FOLIO_DEVICE_FUNCTION TmaStaging(SharedPointer<Machine, T> smem,
                                   const typename Machine::TileMap& tile_map,
                                   SharedMemBarrier first_barrier, int32_t rows)
      : SharedView<Machine, T, L>{smem, {}},
        map(&tile_map),
        barriers(first_barrier),
        box_rows(rows) {}
};

/// A load step is 32 rows of a block; lane i copies the i-th box of it. Beyond the contract:
///
///     if (t.thread() == 0) Loader::init_barriers(t, barriers);   once; then t.sync_block()
///     buffer.load_from_dram<s>();
///     buffer.loader().wait(s); t.sync_block();                   then stage s can be read
///
/// Called by whole warps, each stage waited for as often as it is loaded, by all threads. Staging
/// begins at a multiple of 1024. Tiles begin at a multiple of box_rows within their page.
template <class Shape, class Machine>
class TmaLoader : public detail::LaneStaging<Shape, Machine> {
 public:
  using Base = detail::LaneStaging<Shape, Machine>;
  using smem_type = typename Shape::smem_type;
  template <class L>
  using Parent = TmaStaging<Machine, smem_type, L>;
  static constexpr int num_steps = Shape::total_tiles;
  static constexpr uint32_t step_bytes =
      static_cast<uint32_t>(Shape::warp_tile_rows) * Shape::bk_smem * uint32_t{sizeof(smem_type)};
  static_assert(Shape::bk_smem * static_cast<int>(sizeof(smem_type)) == 128 &&
                    Shape::swizzle == tma::XorSwizzle{3, 0, 3},
                "TmaLoader: blocks of 128 bytes a row, swizzled as tensor maps do: {3, 0, 3}");
  static_assert(Shape::num_smem_stages <= 32, "TmaLoader: a bit for each stage");

  /// Rows of a box for pages of so many slots.
  FOLIO_HOST_DEVICE static constexpr int32_t box_rows(int64_t page_size) {
    int32_t rows = Shape::warp_tile_rows;
    while (page_size % rows != 0) rows /= 2;
    return rows;
  }
  /// The description to be encoded; its check() says which planes have none.
  FOLIO_HOST_DEVICE static constexpr RaggedTMA3DTile tile_of(const tma::PlaneGeometry& plane) {
    const int32_t rest = plane.head_size - Shape::head_dim_offset;
    return tma::ragged_tile(
        plane, {.swizzle = tma::Swizzle::b128,
                .rows = plane.is_paged ? box_rows(plane.page_size) : Shape::warp_tile_rows,
                .columns = Shape::bk_smem,
                .first_column = Shape::head_dim_offset,
                .depth = rest < Shape::depth ? rest : Shape::depth});
  }
  /// By one thread, before the buffers are used.
  FOLIO_DEVICE_FUNCTION static void init_barriers(Machine& t, SharedMemBarrier barriers) {
    for (int stage = 0; stage < Shape::num_smem_stages; ++stage)
      barriers.at(stage).init(t, num_steps);
    SharedMemBarrier::fence_init(t);
  }

  template <class L>
  FOLIO_DEVICE_FUNCTION explicit TmaLoader(const Parent<L>& staging)
      : Base(staging.data),
        map_(staging.map),
        barriers_(staging.barriers),
        box_rows_(staging.box_rows) {}

  template <class Source>
  FOLIO_DEVICE_FUNCTION void begin(int stage, const Source& source) {
    FOLIO_UNROLL
    for (int s = 0; s < Shape::num_smem_stages; ++s)
      if (s == stage) seen_[s] = source.tile.seen;
  }

  template <class Source>
  FOLIO_DEVICE_FUNCTION void load(int stage, const Source& source, int step) {
    Machine& t = this->machine();
    const LoadUnit part = Shape::load_unit(step);
    const SharedMemBarrier barrier = barriers_.at(stage);
    if (t.lane() == 0) barrier.expect_bytes(t, step_bytes);
    const int first = t.lane() * box_rows_;
    if (first >= Shape::warp_tile_rows) return;
    const int key = part.row_group * Shape::warp_tile_rows + first;
    const int column = part.block * Shape::bk_smem;
    const int32_t there = rows_there(source.tile, key, box_rows_);
    // An unassigned page's row is the one behind the last: nothing of it is in bounds.
    const int64_t row = there > 0 ? source.rows.row_idx(source.tile, key) : 0;
    const auto at = RaggedTMA3DTile::clipped(
        row, there, static_cast<int32_t>(source.rows.kv_head_idx()), source.first_column + column);
    // Not swizzled: the copy does that, by the bits of the address.
    const auto offset = static_cast<uint32_t>(Shape::block_offset(key, column));
    const uint32_t to = this->memory.address + static_cast<uint32_t>(stage) * Base::stage_bytes +
                        offset * uint32_t{sizeof(smem_type)};
    t.template copy_tile<5>(*map_, at, to, barrier.address);
  }

  /// Returns when the stage's load has landed. Then all threads of the block meet.
  FOLIO_DEVICE_FUNCTION void wait(int stage) {
    Machine& t = this->machine();
    barriers_.at(stage).wait(t, parities_ >> stage & 1u);
    parities_ ^= 1u << stage;
    uint64_t seen = ~uint64_t{0};
    FOLIO_UNROLL
    for (int s = 0; s < Shape::num_smem_stages; ++s) seen = s == stage ? seen_[s] : seen;
    if (seen != ~uint64_t{0}) zero_unseen(t, stage, seen);
  }

 private:
  /// Rows of a box up to the last one that is there.
  FOLIO_DEVICE_FUNCTION static int32_t rows_there(const LaneTile& tile, int key, int32_t rows) {
    int32_t there = 0;
    for (int32_t i = 0; i < rows; ++i)
      if (tile.has(key + i)) there = i + 1;
    return there;
  }
  /// Makes rows zero that a box brought along.
  FOLIO_DEVICE_FUNCTION void zero_unseen(Machine& t, int stage, uint64_t seen) const {
    constexpr int units_per_row = Shape::smem_cols / Base::unit;
    for (int i = t.thread(); i < Shape::BN * units_per_row; i += t.threads()) {
      const int key = i / units_per_row;
      if ((seen >> (key & 63) & 1) != 0) continue;
      t.store_shared(this->address_of(stage, key, i % units_per_row * Base::unit),
                     detail::SharedUnit<smem_type>{});
    }
    t.fence_async();  // before a later copy overwrites them
  }

  const typename Machine::TileMap* map_;
  SharedMemBarrier barriers_;
  int32_t box_rows_;
  uint32_t parities_ = 0;  ///< bit s: of the phase of stage s that is waited for next
  uint64_t seen_[Shape::num_smem_stages] = {};
};

}  // namespace folio::inline v1::kv_buffer

namespace folio::inline v1 {  // flat names, for one release
using kv_buffer::TmaLoader;
using kv_buffer::TmaStaging;
}  // namespace folio::inline v1
