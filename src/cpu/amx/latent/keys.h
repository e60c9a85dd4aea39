// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/keys.h: where the rows of a pass are multiplied: in their pages, or in a
/// stage that they are copied to.
///
/// Rows come through KVBuffer's instance whose staging is the page itself; only groups of 16 keys
/// that are not all there, or not at one stride, are copied, with zeros for what is missing; of
/// another type all are converted. ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/latent/layout.h"
#include "cpu/convert/staged_row.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/task_view.h"
#include "folio/attention/kv_buffer.h"
#include "folio/attention/kv_buffer/in_place_loader.h"
#include "folio/attention/operand/view_operand.h"
#include "folio/core/element.h"

namespace folio::inline v1::amx {

/// How rows that cannot stay where they are come into a stage: with zeros for what is not there.
template <class I>
struct BringRow {
  StagedRow<I, bf16> row{DType::bf16};

  template <class Shape>
  void run(const KVSource<Shape>& source, int key, int, int count,
           typename Shape::smem_type* to) const {
    if (I::mutant == Mutant::value_tail_not_zeroed && source.row(key) == nullptr) return;
    row.bring(source, key, count, to);
  }
};

/// KVBuffer's parameters: each tile of a pass has a stage.
template <class I, class Sizes>
struct LatentStages {
  static constexpr IndexList<3> mma_shape{16, 16, 32};
  static constexpr int BN = tile_keys, BK = 32, depth = Sizes::depth, bk_smem = depth,
                       reg_chunk_depth = BK;
  static constexpr int num_smem_stages = Sizes::pass_tiles;
  static constexpr bool transpose = true;
  template <class Shape>
  using Loader = InPlaceLoader<Shape, BringRow<I>>;
};

template <class I, class Sizes>
class LatentKeys {
 public:
  LatentKeys(const skeleton::TaskView& view, std::byte* stages)
      : head_(view.task.head),
        buffer_({I::mutant == Mutant::dense_page_stride ? with_dense_pages(view.args.key)
                                                        : view.args.key,
                 view.batch.table, view.batch.context_lengths, 0},
                view.task.sequence, view.task.head, {reinterpret_cast<bf16*>(stages), {}},
                view.sequence.context) {
    buffer_.loader().prefetch_to = PrefetchTo::nowhere;  // LatentFetch has done that
    buffer_.loader().convert.row = StagedRow<I, bf16>(view.args.key.dtype);
    buffer_.loader().holds_operand = view.args.key.dtype == DType::bf16;
  }

  /// Of the task's head `head`.
  void load(KeyTile* const* tiles, int count, int head) {
    for (int t = 0; t < count; ++t) {
      buffer_.kv_cache_iter.set_tile(*tiles[t], head_ + head);
      buffer_.begin_load(t);
      buffer_.finish_load();
      for (int g = 0; g < 4; ++g) groups_[t * 4 + g] = buffer_.loader().group(t, g);
    }
  }

  /// Of 16 keys each, four to a tile of the pass.
  [[nodiscard]] const TileRows* groups() const { return groups_; }

 private:
  const int head_;
  KVBuffer<ViewMHAOperand<DType::bf16>, LatentStages<I, Sizes>> buffer_;
  TileRows groups_[Sizes::pass_groups];
};

}  // namespace folio::inline v1::amx
