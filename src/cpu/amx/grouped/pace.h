// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/pace.h: what few rows fetch while they work on a tile: the rows and scales
/// that come next, spread over the five steps about as time is.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/amx/grouped/fetch_scales.h"
#include "cpu/amx/grouped/pacer.h"
#include "cpu/profile.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::amx {

/// `Products`: of the depths that the steps work on.
template <class I, class Sizes, class Products>
class GroupedPace {
 public:
  GroupedPace(const skeleton::TaskView& view, int row_tiles)
      : view_(view),
        planes_{{view.args.key, view.problem.key.head_size},
                {view.problem.value_in_key ? view.args.key : view.args.value,
                 view.problem.v_head_size}},
        profile_(machine_profile()) {
    const int lines = tile_keys * (lines_of(planes_[0].view.dtype, planes_[0].head_size) +
                                   lines_of(planes_[1].view.dtype, planes_[1].head_size));
    const PacePercent& percent = bit_width(planes_[0].view.dtype) == 8
                                     ? profile_.amx_grouped.pace_8_bit
                                     : profile_.amx_grouped.pace_16_bit;
    // each row tile has products of its own
    const int all = 100 + (row_tiles - 1) * (percent.scores + percent.values);
    const auto share = [lines, all](int part, int ticks) {
      return (lines * part + all * ticks / 2) / (all * ticks);
    };
    key = share(percent.stage_keys, 16 * staged_lines(planes_[0]));
    scores = share(percent.scores, 4 * Products::k_steps);
    value = share(percent.stage_values, 16 * staged_lines(planes_[1]));
    values = share(percent.values, Sizes::v_depth / 8);
  }

  /// Before the steps of head `head` of a tile. Of token-major rows, which hold all heads of a
  /// token, each head's turn fetches a part of the next tile's; otherwise the rows of the head that
  /// comes next.
  void begin(const KeyTile& tile, const KeyTile* next, int head) {
    if (profile_.staged != PrefetchPolicy::paced) return;
    const int heads = view_.task.heads, first = view_.task.head;
    for (int i = 0; i < (view_.problem.value_in_key ? 1 : 2); ++i) {
      const PagedKVView& plane = planes_[i].view;
      Share share{0, tile_keys, first + head + 1, first + head + 2};
      const KeyTile* from = &tile;
      if (PageCursor::heads_are_adjacent(plane)) {
        share = {tile_keys * head / heads, tile_keys * (head + 1) / heads, first, first + heads};
        from = next;
      } else if (head + 1 == heads) {
        share = {0, tile_keys, first, first + 1};
        from = next;
      }
      const auto row = static_cast<int>(row_bytes(plane.dtype, planes_[i].head_size));
      pacer.plane[i].begin(plane, row, from, share);
      if (from != nullptr) ScaleFetch<I>::fetch(plane, *from, share);
    }
  }
  /// After the last step: what is left.
  void finish() { pacer.finish(profile_.amx_grouped.lines_at_end); }

  int key, scores, value, values;  // lines of each tick of a step
  Pacer<I> pacer;

 private:
  struct Plane {
    const PagedKVView& view;
    int head_size;
  };

  static int lines_of(DType dtype, int head_size) {
    return static_cast<int>((row_bytes(dtype, head_size) + 63) / 64);
  }
  /// Lines of a row as it is staged, four of which make a tick: as it lies, or converted.
  static int staged_lines(const Plane& plane) {
    const DType stored = plane.view.dtype;
    return lines_of(bit_width(stored) == 8 ? stored : DType::bf16, plane.head_size);
  }

  const skeleton::TaskView& view_;
  const Plane planes_[2];
  const MachineProfile& profile_;
};

}  // namespace folio::inline v1::amx
