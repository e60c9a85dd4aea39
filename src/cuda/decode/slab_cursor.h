// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/slab_cursor.h: a warp's slabs in the order in which it will want them, over
/// parts, rounds and tasks, and where each lies in the pages. Loaders stand on it.
#pragma once

#include <cstdint>

#include "cuda/decode/task_walk.h"
#include "folio/cache/page_walk.h"

namespace folio::cuda {

/// Page ids that K and V of a call have: entries below lie in a page. -1 never does.
FOLIO_DEVICE uint32_t common_pages(const AttentionArgs& args) {
  const int64_t pages =
      args.key.num_pages < args.value.num_pages ? args.key.num_pages : args.value.num_pages;
  return static_cast<uint32_t>(pages < UINT32_MAX ? pages : UINT32_MAX);
}

template <class Config, class Thread>
class SlabCursor {
 public:
  FOLIO_DEVICE SlabCursor(Thread& t, const AttendCall& a)
      : task_(t.read(a.list.block_tasks + t.block()) - 1) {
    walk_.set(t, t.warp() + 1, t.lane() == 0, TaskWalk<Config>());  // of no task
    t.sync_warp();
    find_part(t, a);
  }

  [[nodiscard]] FOLIO_DEVICE bool is_done() const { return slabs_left_ == 0; }

 protected:
  static constexpr int32_t slab_keys = Config::slab_keys;

  /// Whether a slab lies in one page; then nothing is divided but where a part begins.
  [[nodiscard]] FOLIO_DEVICE static bool is_aligned(const AttendCall& a) {
    return a.args.key.page_size % slab_keys == 0;
  }

  FOLIO_DEVICE void advance(Thread& t, const AttendCall& a) {
    if (--slabs_left_ > 0) {
      if (Config::is_general && is_before_gap(walk(t))) {
        go_to(t, a, walk(t).slabs().keys_begin * slab_keys);
        return;
      }
      key_ += slab_keys;
      slot_ += slab_keys;
      const auto page_size = static_cast<uint32_t>(a.args.key.page_size);
      if (is_aligned(a)) {
        if (slot_ == page_size) {
          slot_ = 0;
          ++entry_at_;
        }
      } else {
        const uint32_t pages = slot_ / page_size;
        slot_ -= pages * page_size;
        entry_at_ += pages;
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
    bool is_alive = walk(t).shows(mine) && entry_ < common_pages(a.args);
    if (a.args.key.page_size == unbounded_page_size)
      is_alive = is_alive && static_cast<int64_t>(entry_) + mine < common_pages(a.args);
    return t.ballot(is_alive) & 0xffffu;
  }

  int32_t key_ = 0;     // the slab's first
  int32_t head_ = 0;    // KV head
  uint32_t entry_ = 0;  // of the page of this lane's key, lane & 15
  uint32_t slot_ = 0;   // of key_

 private:
  /// The next part that is not empty, from round_ of the task on.
  FOLIO_DEVICE void find_part(Thread& t, const AttendCall& a) {
    while (true) {
      if (round_ < walk(t).rounds(a.stores_spans)) {
        const WalkPart part = walk(t).part(round_, t.warp(), a.stores_spans);
        if (part.begin < part.end) {
          slabs_left_ = part.end - part.begin;
          go_to(t, a, walk(t).slabs().at(part.begin) * slab_keys);
          return;
        }
        ++round_;
        continue;
      }
      ++task_;
      if (task_ >= t.read(a.list.block_tasks + t.block() + 1)) return;
      find_task(t, a);
    }
  }
  FOLIO_DEVICE void find_task(Thread& t, const AttendCall& a) {
    const DeviceTask task = t.read(a.list.tasks + task_);
    const TaskWalk<Config> made(t, a, sequence_of(a.plan->batch, task.sequence), task);
    if constexpr (!Config::has_registers) t.sync_warp();
    walk_.set(t, t.warp() + 1, t.lane() == 0, made);
    if constexpr (!Config::has_registers) t.sync_warp();
    head_ = task.head;
    round_ = 0;
  }
  [[nodiscard]] FOLIO_DEVICE TaskWalk<Config> walk(Thread& t) const {
    return walk_.get(t, t.warp() + 1);
  }
  /// Whether the slab is the last of sink tokens, and the next one is not live.
  [[nodiscard]] FOLIO_DEVICE bool is_before_gap(const TaskWalk<Config>& walk) const {
    return key_ + slab_keys >= walk.sinks_end && key_ + 2 * slab_keys <= walk.keys_begin;
  }
  FOLIO_DEVICE void go_to(Thread& t, const AttendCall& a, int32_t key) {
    key_ = key;
    const PageTable& table = a.plan->batch.table;
    const auto page_size = static_cast<uint32_t>(a.args.key.page_size);
    const uint32_t page = static_cast<uint32_t>(key) / page_size;
    entry_at_ = table.entries + table.row_start(t.read(&a.list.tasks[task_].sequence)) + page;
    slot_ = static_cast<uint32_t>(key) - page * page_size;
    read_entry(t, a);
  }
  /// One slab ahead of its use. Only entries of pages with a key that some row sees are read.
  FOLIO_DEVICE void read_entry(Thread& t, const AttendCall& a) {
    if (is_aligned(a)) {
      entry_ = t.read(entry_at_);
      return;
    }
    const auto lane = static_cast<uint32_t>(t.lane() & 15);
    entry_ = ~0u;
    if (walk(t).shows(key_ + static_cast<int32_t>(lane)))
      entry_ = t.read(entry_at_ + (slot_ + lane) / static_cast<uint32_t>(a.args.key.page_size));
  }

  int32_t task_;
  int32_t round_ = 0;
  KeptWalk<Config> walk_;
  const uint32_t* entry_at_ = nullptr;  // of the page of key_
  int32_t slabs_left_ = 0;              // of the part; 0: all is done
};

}  // namespace folio::cuda
