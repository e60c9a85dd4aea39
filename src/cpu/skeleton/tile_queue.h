// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/tile_queue.h: the tiles of a task that some row sees, found ahead of their use.
///
/// ISA-safe as far as the engine is: everything is a template on it.
#pragma once

#include <cstdint>

#include "cpu/skeleton/task_memory.h"
#include "cpu/skeleton/task_view.h"
#include "kernel/units.h"

namespace folio::inline v1::skeleton {

template <class Engine>
class TileQueue {
 public:
  static constexpr int most = TaskMemory<Engine>::tiles_max;

  /// `memory`: `most` tiles.
  TileQueue(const TaskView& view, KeyTile* memory) : view_(view), next_key_(view.task.key_begin) {
    if (Engine::mutant() == Mutant::keys_in_front_counted_again) next_key_ = 0;
    for (int i = 0; i < most; ++i) tiles_[i] = memory + i;
  }

  /// In the order of keys; the first `known` are tiles to run.
  [[nodiscard]] KeyTile* const* tiles() const { return tiles_; }
  [[nodiscard]] int known() const { return known_; }

  /// Finds tiles until as many are known as the engine may use. Returns how many come next at once:
  /// of those that begin before key `end`.
  int next(int at_once, int64_t end) {
    while (known_ < at_once + Engine::ahead_max && find(*tiles_[known_])) ++known_;
    int count = 0;
    while (count < at_once && count < known_ && tiles_[count]->first < end) ++count;
    return count;
  }

  void drop(int count) {
    KeyTile* done[most];
    for (int i = 0; i < count; ++i) done[i] = tiles_[i];
    for (int i = count; i < most; ++i) tiles_[i - count] = tiles_[i];
    for (int i = 0; i < count; ++i) tiles_[most - count + i] = done[i];
    known_ -= count;
  }

 private:
  /// The next tile of which some row sees a key that lies in a page; false: there is none.
  bool find(KeyTile& tile) {
    const PageCursor cursor(view_.args.key, view_.batch.table, view_.task.sequence);
    for (; next_key_ < view_.task.key_end; next_key_ += tile_keys) {
      tile.seen = view_.seen_by_any(next_key_);
      if (tile.seen == 0) continue;
      const uint64_t wanted = tile.seen;
      tile.first = next_key_;
      if (Engine::mutant() == Mutant::table_read_past_end) tile.seen = ~uint64_t{0};
      if (view_.problem.selection) {
        PageCursor::find_listed(view_.args.key, view_.selected(Engine::mutant()), tile);
      } else {
        cursor.find(tile);
      }
      if (Engine::mutant() == Mutant::table_read_past_end) tile.seen &= wanted;
      if (Engine::mutant() == Mutant::unassigned_entry_counted) tile.seen = wanted;
      if (tile.seen == 0) continue;
      next_key_ += tile_keys;
      return true;
    }
    return false;
  }

  const TaskView& view_;
  KeyTile* tiles_[most];
  int known_ = 0;
  int64_t next_key_;
};

}  // namespace folio::inline v1::skeleton
