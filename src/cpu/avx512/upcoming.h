// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/upcoming.h: which lines the products of one head request, for the heads and tiles
/// that come after it.
///
/// Of head-major pages the next head's K, then its V. In token-major pages the rows of a head lie
/// far apart, so whole rows of the next tile are requested in the order of memory, all heads
/// together, or a share beside each head computed alone. Where K and V of a token lie side by side
/// they are one row: half the keys are requested beside scores, half beside values. Scales, which
/// are gathered before any row is read, go first. ISA-safe: templates on a tag type, always-inline
/// functions.
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
        is_by_tile_(is_few && profile_.whole_tiles && view.task.heads > 1 &&
                    PageCursor::heads_are_adjacent(view.args.key) &&
                    (view.problem.value_in_key || PageCursor::heads_are_adjacent(view.args.value))),
        pair_(pair_of(view, is_by_tile_ ? view.task.heads : 1)) {}

  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_fetching() const {
    return profile_.policy != PrefetchPolicy::none;
  }

  /// Whether whole rows of tiles, all heads, are requested in the order of memory.
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool is_by_tile() const { return is_by_tile_; }

  /// All heads of a tile begin at once; `in_one_go`: the scores of all, then the values of all.
  /// next: the tile after it, or null.
  FOLIO_ALWAYS_INLINE void begin_tile(const KeyTile& tile, const KeyTile* next, bool in_one_go) {
    own_[0].clear();
    own_[1].clear();
    if (!is_fetching()) return;
    if (next != nullptr) {
      add_tile_scales(view_.args.key, *next, own_[0]);
      if (!view_.problem.value_in_key) add_tile_scales(view_.args.value, *next, own_[1]);
    }
    if (in_one_go && pair_.bytes == 0) return add_halves(tile, next);
    const int ahead = pair_.bytes > 0 ? tile_keys : keys_ahead;
    add_rows(tile, {ahead, tile_keys}, view_.task.head);
    if (next != nullptr) add_rows(*next, {0, ahead}, view_.task.head);
  }
  /// Scores, or values, of all its heads, in so many steps.
  [[nodiscard]] FOLIO_ALWAYS_INLINE Pace beside_tile(int plane, int64_t steps) const {
    return {requests(&own_[plane], steps), {}};
  }

  /// Head h of the task begins. keys, values: the rows of the head that comes after it, or null;
  /// they are read until that head ends. after: the tile of that head; next: the tile after this
  /// one; or null.
  FOLIO_ALWAYS_INLINE void begin(const LineList* keys, const LineList* values, const KeyTile* after,
                                 const KeyTile* next, int h) {
    is_waiting_[0] = is_waiting_[1] = true;
    values_now_ = values_soon_;
    keys_soon_ = keys;
    values_soon_ = values;
    own_[0].clear();
    own_[1].clear();
    add_scales(view_.args.key, after, next, h, own_[0]);
    if (!view_.problem.value_in_key) add_scales(view_.args.value, after, next, h, own_[1]);
    const int heads = view_.task.heads;
    if (is_by_tile_) {
      if (next != nullptr)
        add_rows(*next, {tile_keys * h / heads, tile_keys * (h + 1) / heads}, view_.task.head);
    } else if (is_few_ && pair_.bytes > 0) {
      if (after != nullptr)
        add_rows(*after, {0, tile_keys}, view_.task.head + (h + 1 == heads ? 0 : h + 1));
    } else {
      add_behind(own_[0], keys);
      add_behind(own_[1], values);
    }
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
  /// A whole tile ahead, rows would be on their way to the second-level cache again, or beyond.
  static constexpr int keys_ahead = tile_keys / 2;
  struct KeyRange {
    int begin, end;
  };

  FOLIO_ALWAYS_INLINE Requests take(int plane, int64_t steps) {
    is_waiting_[plane] = false;
    if (is_by_tile_ || own_[plane].total() > 0) return requests(&own_[plane], steps);
    return requests(plane == 0 ? keys_soon_ : values_soon_, steps);
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE Requests requests(const LineList* list, int64_t steps) const {
    return list != nullptr ? Requests(*list, steps, profile_.fetches_near) : Requests();
  }
  /// What follows scales.
  FOLIO_ALWAYS_INLINE static void add_behind(LineList& list, const LineList* more) {
    if (list.total() == 0 || more == nullptr) return;
    for (const Lines& lines : *more) list.add(lines);
  }
  /// Of a whole tile.
  FOLIO_ALWAYS_INLINE void add_tile_scales(const PagedKVView& view, const KeyTile& tile,
                                           LineList& list) const {
    if (view.scales.data == nullptr) return;
    const int heads = view_.task.heads;
    const int parts = PageCursor::scales_are_adjacent(view) ? 1 : heads;
    for (int h = 0; h < parts; ++h)
      add_scales_of(view, tile, {0, tile_keys}, h, heads / parts, list);
  }

  /// Calls add(run, from, rows) for each run of slots among those keys, cut to them.
  template <class Add>
  FOLIO_ALWAYS_INLINE static void for_each_run(const KeyTile& tile, KeyRange keys, Add add) {
    const int seen = 64 - __builtin_clzll(tile.seen | 1);  // behind them runs go on
    if (keys.end > seen) keys.end = seen;
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const int from = run.first > keys.begin ? run.first : keys.begin;
      const int to = run.first + run.rows < keys.end ? run.first + run.rows : keys.end;
      if (from < to) add(run, from - run.first, to - from);
    }
  }
  /// The rows of heads that are requested together, from `head` on: K's and V's, or half of the
  /// keys and the other half.
  FOLIO_ALWAYS_INLINE void add_rows(const KeyTile& tile, KeyRange keys, int head) {
    if (pair_.bytes > 0) {
      const int middle = (keys.begin + keys.end) / 2;
      add_rows_of(*pair_.first, pair_.bytes, tile, {keys.begin, middle}, head, own_[0]);
      add_rows_of(*pair_.first, pair_.bytes, tile, {middle, keys.end}, head, own_[1]);
      return;
    }
    add_plane(view_.args.key, tile, keys, own_[0]);
    if (!view_.problem.value_in_key) add_plane(view_.args.value, tile, keys, own_[1]);
  }
  /// Half a tile ahead: of K, then V, then K of the next tile. All of the next one where some of it
  /// may have to be staged.
  FOLIO_ALWAYS_INLINE void add_halves(const KeyTile& tile, const KeyTile* next) {
    const PagedKVView &key = view_.args.key, &value = view_.args.value;
    const bool has_values = !view_.problem.value_in_key;
    add_plane(key, tile, {keys_ahead, tile_keys}, own_[0]);
    if (has_values) add_plane(value, tile, {0, keys_ahead}, own_[0]);
    if (has_values) add_plane(value, tile, {keys_ahead, tile_keys}, own_[1]);
    if (next == nullptr) return;
    const bool is_whole = next->seen == ~uint64_t{0};
    add_plane(key, *next, {0, is_whole ? keys_ahead : tile_keys}, own_[1]);
    if (has_values && !is_whole) add_plane(value, *next, {0, tile_keys}, own_[1]);
  }
  /// The rows of all heads.
  FOLIO_ALWAYS_INLINE void add_plane(const PagedKVView& view, const KeyTile& tile, KeyRange keys,
                                     LineList& list) const {
    const int64_t bytes = PageCursor::heads_bytes(view, view_.task.heads - 1) +
                          folio::row_bytes(view.dtype, view.head_size);
    add_rows_of(view, bytes, tile, keys, view_.task.head, list);
  }
  FOLIO_ALWAYS_INLINE static void add_rows_of(const PagedKVView& view, int64_t bytes,
                                              const KeyTile& tile, KeyRange keys, int head,
                                              LineList& list) {
    for_each_run(tile, keys, [&](const TileRun& run, int from, int count) {
      const TileRows rows = PageCursor::rows(view, run, head);
      list.add(lines_of(rows.data + from * rows.stride_bytes, rows.stride_bytes, bytes, count));
    });
  }

  /// K and V of a token as one row of so many bytes, which begins in plane `first`.
  struct Pair {
    const PagedKVView* first = nullptr;
    int64_t bytes = 0;  // 0: they lie apart
  };
  /// Of so many heads; bytes between the rows are few.
  FOLIO_ALWAYS_INLINE static Pair pair_of(const skeleton::TaskView& view, int heads) {
    const PagedKVView &key = view.args.key, &value = view.args.value;
    if (view.problem.value_in_key) return {};
    const int64_t distance = PageCursor::bytes_beside(key, value);
    if (distance == 0) return {};
    const PagedKVView &first = distance > 0 ? key : value, &second = distance > 0 ? value : key;
    const int64_t last_bytes = folio::row_bytes(second.dtype, second.head_size),
                  used = heads * (folio::row_bytes(first.dtype, first.head_size) + last_bytes),
                  bytes = (distance > 0 ? distance : -distance) +
                          PageCursor::heads_bytes(key, heads - 1) + last_bytes;
    return {&first, bytes <= used + used / 4 ? bytes : 0};
  }

  /// The scales of the head after h, or, where those of a token lie side by side, of the tokens of
  /// the next tile that head h asks for.
  FOLIO_ALWAYS_INLINE void add_scales(const PagedKVView& view, const KeyTile* after,
                                      const KeyTile* next, int h, LineList& list) const {
    if (view.scales.data == nullptr) return;
    const int heads = view_.task.heads;
    const bool is_shared = PageCursor::scales_are_adjacent(view) && heads > 1;
    if (is_shared && next != nullptr)
      add_scales_of(view, *next, {tile_keys * h / heads, tile_keys * (h + 1) / heads}, 0, heads,
                    list);
    if (!is_shared && after != nullptr)
      add_scales_of(view, *after, {0, tile_keys}, h + 1 == heads ? 0 : h + 1, 1, list);
  }
  /// Of `heads` heads of the task from `first` on.
  FOLIO_ALWAYS_INLINE void add_scales_of(const PagedKVView& view, const KeyTile& tile,
                                         KeyRange keys, int first, int heads,
                                         LineList& list) const {
    first += view_.task.head;
    for_each_run(tile, keys, [&](const TileRun& run, int from, int count) {
      const TileRows rows = PageCursor::scale_rows(view, run, first);
      const std::byte* const last = PageCursor::scale_rows(view, run, first + heads - 1).data;
      list.add(lines_of(rows.data + from * rows.stride_bytes, rows.stride_bytes,
                        last - rows.data + 1, count));
    });
  }
  /// Rows of so many bytes; as one where they leave no line out, or are the same.
  FOLIO_ALWAYS_INLINE static Lines lines_of(const std::byte* data, int64_t stride, int64_t bytes,
                                            int32_t rows) {
    const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) % 64);
    const bool is_dense = stride >= 0 && stride - bytes < 64;
    const int64_t lines = (offset + (is_dense ? stride * (rows - 1) : 0) + bytes + 63) / 64;
    return {data - offset, stride, static_cast<int32_t>(lines), is_dense ? 1 : rows};
  }

  const skeleton::TaskView& view_;
  const InPlaceProfile profile_;
  const bool is_few_;
  const bool is_by_tile_;
  const Pair pair_;
  LineList own_[2];          // what is asked for beside K and V: scales, and rows of the next tile
  bool is_waiting_[2] = {};  // for a product beside which to be asked for
  // K's and V's of the next head, V's of this one
  const LineList* keys_soon_ = nullptr;
  const LineList* values_soon_ = nullptr;
  const LineList* values_now_ = nullptr;
};

}  // namespace folio::inline v1::avx512
