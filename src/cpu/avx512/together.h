// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/together.h: the order in which few rows of all heads of a tile are computed
/// together.
///
/// In token-major pages all heads of a token lie in one run of memory. 16 keys of all heads are
/// taken before the next 16, which is nearly the order of that memory: rows of one head alone are
/// read at half to two thirds of its speed (docs/records/avx512_zen5.md). ISA-safe: always-inline
/// templates on the engine's functions.
#pragma once

#include "cpu/avx512/layout.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::avx512 {

/// The rows of a tile, four groups each. Together: those of the task's first head.
struct FewTile {
  const KeyTile& tile;
  const TileRows* keys = nullptr;
  const TileRows* values = nullptr;
};

/// Some groups of a tile's rows of one head.
struct HeadRows {
  int head;    // of the task
  int place;   // among the heads whose scores are held at once
  int first;   // group
  int groups;  // their number
  const TileRows* rows;
};

struct Together {
  static constexpr int value_groups_max = 2;

  int heads;
  int heads_at_once;
  int groups;        // up to the last seen key
  int value_groups;  // whose values are added before those of the next head

  /// begin(head, place), score(HeadRows), weigh(head, place), add(HeadRows).
  template <class Begin, class Score, class Weigh, class Add>
  FOLIO_ALWAYS_INLINE void attend(const FewTile& at, const PagedKVView& key,
                                  const PagedKVView& value, const Begin& begin, const Score& score,
                                  const Weigh& weigh, const Add& add) const {
    for (int first = 0; first < heads; first += heads_at_once) {
      const int end = first + heads_at_once < heads ? first + heads_at_once : heads;
      for (int h = first; h < end; ++h) begin(h, h - first);
      each_group(at.keys, key, first, end, 1, score);
      for (int h = first; h < end; ++h) weigh(h, h - first);
      each_group(at.values, value, first, end, value_groups, add);
    }
  }

 private:
  template <class Use>
  FOLIO_ALWAYS_INLINE void each_group(const TileRows* tile, const PagedKVView& view, int head,
                                      int end, int at_a_time, const Use& use) const {
    for (int g = 0, count = 0; g < groups; g += count) {
      count = groups - g < at_a_time ? groups - g : at_a_time;
      for (int h = head; h < end; ++h) {
        TileRows rows[value_groups_max];
        for (int i = 0; i < count; ++i)
          rows[i] = {PageCursor::head_after(view, tile[g + i].data, h), tile[g + i].stride_bytes};
        use(HeadRows{h, h - head, g, count, rows});
      }
    }
  }
};

}  // namespace folio::inline v1::avx512
