// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/slab_cursor.h: a warp's slabs in the order in which it will want them, over
/// parts, rounds and tasks, and where each lies in the pages. Loaders stand on it.
#pragma once

#include <cstdint>

#include "cuda/decode/task_walk.h"
#include "folio/cache/page_walk.h"

namespace folio::cuda {

/// K and V of a call: what every loader asks of them.
FOLIO_DEVICE uint32_t common_pages(const AttentionArgs& args) {
  const int64_t pages =
      args.key.num_pages < args.value.num_pages ? args.key.num_pages : args.value.num_pages;
  return static_cast<uint32_t>(pages);
}

template <class Config, class Thread>
class SlabCursor {
 public:
  FOLIO_DEVICE SlabCursor(Thread& t, const AttendCall& a)
      : task_(t.read(a.list.block_tasks + t.block()) - 1),
        task_end_(t.read(a.list.block_tasks + t.block() + 1)) {
    find_part(t, a);
  }

  [[nodiscard]] FOLIO_DEVICE bool is_done() const { return task_ >= task_end_; }

 protected:
  static constexpr int32_t slab_keys = Config::slab_keys;

  /// Whether a slab lies in one page; then nothing is divided but where a part begins.
  [[nodiscard]] FOLIO_DEVICE static bool is_aligned(const AttendCall& a) {
    return a.args.key.page_size % slab_keys == 0;
  }

  FOLIO_DEVICE void advance(Thread& t, const AttendCall& a) {
    ++number_;
    if (number_ < number_end_) {
      if (Config::is_general && number_ == walk_.slabs().sinks) {
        find_key(t, a);  // over the gap behind the sink tokens
        return;
      }
      key_ += slab_keys;
      slot_ += slab_keys;
      if (slot_ == static_cast<uint32_t>(a.args.key.page_size)) {
        slot_ = 0;
        ++page_;
      }
      read_entry(t, a);
    } else {
      ++round_;
      find_part(t, a);
    }
  }

  /// Bits of the slab's keys that the rows see and that lie in a page; both halves of a warp find
  /// the same.
  [[nodiscard]] FOLIO_DEVICE uint32_t find_alive(Thread& t, const AttendCall& a) {
    const int32_t mine = key_ + (t.lane() & 15);
    bool is_alive = walk_.shows(mine) && entry_ < common_pages(a.args);
    if (a.args.key.page_size == unbounded_page_size)
      is_alive = is_alive && static_cast<int64_t>(entry_) + mine < common_pages(a.args);
    return t.ballot(is_alive) & 0xffffu;
  }

  int32_t key_ = 0;     // the slab's first
  int32_t head_ = 0;    // KV head
  uint32_t entry_ = 0;  // of the page of this lane's key, lane & 15
  uint32_t slot_ = 0;   // of key_, where slabs are aligned

 private:
  /// The next part that is not empty, from round_ of the task on.
  FOLIO_DEVICE void find_part(Thread& t, const AttendCall& a) {
    while (true) {
      if (round_ >= walk_.rounds(a.stores_spans)) {
        ++task_;
        if (is_done()) return;
        const DeviceTask task = t.read(a.list.tasks + task_);
        walk_ = TaskWalk<Config>(a, sequence_of(a.plan->batch, task.sequence), task);
        row_ = a.plan->batch.table.entries + a.plan->batch.table.row_start(task.sequence);
        head_ = task.head;
        round_ = 0;
        continue;
      }
      const WalkPart part = walk_.part(round_, t.warp(), a.stores_spans);
      if (part.begin < part.end) {
        number_ = part.begin;
        number_end_ = part.end;
        find_key(t, a);
        return;
      }
      ++round_;
    }
  }
  FOLIO_DEVICE void find_key(Thread& t, const AttendCall& a) {
    key_ = walk_.slabs().at(number_) * slab_keys;
    const auto page_size = static_cast<uint32_t>(a.args.key.page_size);
    page_ = static_cast<uint32_t>(key_) / page_size;
    slot_ = static_cast<uint32_t>(key_) - page_ * page_size;
    read_entry(t, a);
  }
  /// One slab ahead of its use. Only entries of pages with a key that some row sees are read.
  FOLIO_DEVICE void read_entry(Thread& t, const AttendCall& a) {
    if (is_aligned(a)) {
      entry_ = t.read(row_ + page_);
      return;
    }
    const int32_t mine = key_ + (t.lane() & 15);
    entry_ = ~0u;
    if (walk_.shows(mine))
      entry_ =
          t.read(row_ + static_cast<uint32_t>(mine) / static_cast<uint32_t>(a.args.key.page_size));
  }

  int32_t task_;
  int32_t task_end_;
  int32_t round_ = 0;
  TaskWalk<Config> walk_;
  const uint32_t* row_ = nullptr;  // of the page table
  int32_t number_ = 0;
  int32_t number_end_ = 0;
  uint32_t page_ = 0;
};

}  // namespace folio::cuda
