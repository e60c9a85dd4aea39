// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/stage.h: the loader of KVBuffer's staging instance for AMX: one plane of a tile, from pages to B tiles.
///
/// A tile's rows are found as 64 addresses, rows that nobody sees being one row of zeros, and staged in the order of memory. Only run
/// lengths and strides come from the page cursor, so pages of any size, order and alignment do. Meanwhile a pacer fetches what comes next. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/amx/stage_keys.h"
#include "cpu/amx/stage_scales.h"
#include "cpu/amx/stage_values.h"

namespace folio {
inline namespace v1 {
namespace amx {

/// Bytes of a staged tile of K or V.
FOLIO_ALWAYS_INLINE constexpr int64_t staged_bytes(int depth) { return int64_t{tile_keys} * depth * 2; }

/// A head of 256 elements of zeros.
template <class I>
struct DeadRow {
  alignas(64) static constexpr std::byte zeros[512] = {};
};

/// The rows of a tile.
struct alignas(64) RowAddresses {
  const std::byte* at[tile_keys];
};

template <class I>
class PlaneStage {
 public:
  /// `depth`: columns of the staged tile, a multiple of 32, >= head_size: what the row has not is zero.
  FOLIO_ALWAYS_INLINE PlaneStage(const PagedKVView& view, int head_size, int depth, StageTile<I> stage_tile)
      : view_(&view), head_size_(head_size), chunks_(depth / 32), stage_tile_(stage_tile) {}

  /// The stagers of stored types; null: none.
  static StageTile<I> key_stage(DType dtype) { return select<KeyStage>(dtype); }
  static StageTile<I> value_stage(DType dtype) { return select<ValueStage>(dtype); }

  void find_rows(const KeyTile& tile, int head, RowAddresses& rows) const {
    if (tile.seen != ~uint64_t{0} || tile.runs == 0)
      for (const std::byte*& row : rows.at) row = DeadRow<I>::zeros;
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const TileRows from = PageCursor::rows(*view_, run, head);
      const uint64_t seen = tile.seen >> run.first;
      const std::byte** const to = rows.at + run.first;
      if (tile.seen == ~uint64_t{0}) {
        for (int i = 0; i < run.rows; ++i) to[i] = from.data + i * from.stride_bytes;
      } else {
        for (int i = 0; i < run.rows; ++i)
          if ((seen >> i & 1) != 0) to[i] = from.data + i * from.stride_bytes;
      }
    }
  }

  FOLIO_ALWAYS_INLINE void stage(const RowAddresses& rows, std::byte* to, Pacer<I>& pacer, int lines) const {
    stage_tile_(rows.at, head_size_, chunks_, to, pacer, lines);
  }

  [[nodiscard]] FOLIO_ALWAYS_INLINE bool has_scales() const { return view_->scales.data != nullptr; }
  void gather_scales(const KeyTile& tile, int head, float* to) const { ScaleStage<I>::gather(*view_, tile, head, to); }

 private:
  template <template <class, DType> class Stage>
  static StageTile<I> select(DType dtype) {
    switch (dtype) {
      case DType::bf16: return Stage<I, DType::bf16>::tile;
      case DType::i8: return Stage<I, DType::i8>::tile;
      case DType::f8_e4m3: return Stage<I, DType::f8_e4m3>::tile;
      case DType::f8_e5m2: return Stage<I, DType::f8_e5m2>::tile;
      default: return nullptr;
    }
  }

  const PagedKVView* view_;
  int head_size_;
  int chunks_;
  StageTile<I> stage_tile_;
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
