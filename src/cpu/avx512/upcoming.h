// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/upcoming.h: which lines the products of one head request, for the heads and tiles
/// that come after it.
///
/// Of head-major pages the next head's K, then its V. In token-major pages the rows of a head lie
/// far apart, so a head requests its share of the whole rows of the next tile, all heads together,
/// in the order of memory. ISA-safe: templates on a tag type and always-inline functions.
#pragma once

#include "cpu/avx512/layout.h"
#include "cpu/avx512/requests.h"
#include "cpu/profile.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::avx512 {

class Upcoming {
 public:
  FOLIO_ALWAYS_INLINE Upcoming(const skeleton::TaskView& view, bool is_few)
      : view_(view),
        profile_(machine_profile().in_place),
        is_few_(is_few),
        is_by_tile_(
            is_few && profile_.whole_tiles && view.task.heads > 1 &&
            PageCursor::heads_are_adjacent(view.args.key) &&
            (view.problem.value_in_key || PageCursor::heads_are_adjacent(view.args.value))) {}

  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_fetching() const {
    return profile_.policy != PrefetchPolicy::none;
  }

  /// Head h of the task begins. keys, values: the rows of the head that comes after it, or null;
  /// they are read until that head ends. next: the tile after this one, or null.
  FOLIO_ALWAYS_INLINE void begin(const LineList* keys, const LineList* values, const KeyTile* next,
                                 int h) {
    is_waiting_[0] = is_waiting_[1] = true;
    values_now_ = values_soon_;
    keys_soon_ = keys;
    values_soon_ = values;
    if (!is_by_tile_) return;
    set_share(view_.args.key, next, h, shares_[0]);
    if (!view_.problem.value_in_key) set_share(view_.args.value, next, h, shares_[1]);
  }

  /// Scores of the next block of rows, in so many steps.
  [[nodiscard]] FOLIO_ALWAYS_INLINE Pace beside_scores(bool is_only_block, int64_t steps) {
    Pace pace;
    const bool has_keys = is_waiting_[0];
    if (has_keys) pace.first = take(0, steps);
    const bool values_too = is_few_ ? !profile_.beside_values : is_only_block;
    if (is_waiting_[1] && (values_too || !has_keys)) pace.second = take(1, steps);
    if (is_few_ && is_by_tile_ && profile_.again) pace.second = requests(values_now_, steps);
    return pace;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE Pace beside_values(int64_t steps) {
    Pace pace;
    if (!is_few_ || !is_waiting_[1]) return pace;
    pace.first = take(1, steps);
    if (is_by_tile_ && profile_.again) pace.second = requests(keys_soon_, steps);
    return pace;
  }

 private:
  FOLIO_ALWAYS_INLINE Requests take(int plane, int64_t steps) {
    is_waiting_[plane] = false;
    if (is_by_tile_) return {shares_[plane], steps};
    return requests(plane == 0 ? keys_soon_ : values_soon_, steps);
  }
  FOLIO_ALWAYS_INLINE static Requests requests(const LineList* list, int64_t steps) {
    return list != nullptr ? Requests(*list, steps) : Requests();
  }
  /// The part of a tile's tokens that head h asks for, all heads of the task.
  FOLIO_ALWAYS_INLINE void set_share(const PagedKVView& view, const KeyTile* tile, int h,
                                     LineList& list) const {
    list.clear();
    if (tile == nullptr) return;
    const int heads = view_.task.heads;
    const int begin = tile_keys * h / heads, end = tile_keys * (h + 1) / heads;
    const int64_t row_bytes =
        PageCursor::heads_bytes(view, heads - 1) + folio::row_bytes(view.dtype, view.head_size);
    for (int r = 0; r < tile->runs; ++r) {
      const TileRun& run = tile->run[r];
      const int from = run.first > begin ? run.first : begin;
      const int to = run.first + run.rows < end ? run.first + run.rows : end;
      const TileRows rows = PageCursor::rows(view, run, view_.task.head);
      list.add({rows.data + (from - run.first) * rows.stride_bytes, rows.stride_bytes,
                static_cast<int32_t>((row_bytes + 63) / 64), to - from});
    }
  }

  const skeleton::TaskView& view_;
  const InPlaceProfile profile_;
  const bool is_few_;
  const bool is_by_tile_;
  LineList shares_[2];       // K's and V's of the next tile
  bool is_waiting_[2] = {};  // for a product beside which to be asked for
  // K's and V's of the next head, V's of this one
  const LineList* keys_soon_ = nullptr;
  const LineList* values_soon_ = nullptr;
  const LineList* values_now_ = nullptr;
};

}  // namespace folio::inline v1::avx512
