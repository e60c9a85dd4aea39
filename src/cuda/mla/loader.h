// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/loader.h: from the page table to tiles of latent rows in shared memory.
///
/// A block's tiles in the order in which it will want them, over spans and tasks: the ring never
/// runs dry at a task's end. Every warp walks alike, lane l owning key `first + l`; the rows
/// themselves are shared out, four to a warp. The page of a key is asked for one tile ahead. Dead
/// keys become zeros in shared memory, and neither their bytes nor the table entries of pages
/// without visible keys are read.
#pragma once

#include <cstdint>

#include "cuda/mla/config.h"
#include "cuda/mla/rows.h"
#include "folio/cache/page_walk.h"

namespace folio::cuda::mla {

/// Byte of a unit of 16 in a row of `key`: no bank is met twice by eight keys or eight units.
FOLIO_DEVICE uint32_t swizzled(int key, int unit) {
  return static_cast<uint32_t>((unit & ~7) | ((unit ^ key) & 7)) * 16;
}

template <class C, class Thread>
class Loader {
 public:
  FOLIO_DEVICE Loader(Thread& t, const AttendCall& call, const Batch& batch, int32_t task,
                      int32_t task_end)
      : call_(call),
        batch_(batch),
        lane_(t.lane()),
        warp_(t.warp()),
        tiles_(t.shared_base() + C::tiles_at + static_cast<uint32_t>(warp_) * C::stages * 16),
        task_(task),
        task_end_(task_end) {
    if (task_ < task_end_) find_tile(t, begin_task(t));
    for (int s = 0; s + 1 < C::stages; ++s) fetch(t);
  }

  /// Begins the next tile's copies, one group, into the stage that was read last.
  FOLIO_DEVICE void fetch(Thread& t) {
    KeyTile tile;
    if (task_ < task_end_) {
      tile = {task_, first_ / span_keys_, first_, 0};
      const int64_t offset = find_row(t, tile.present);
      copy_rows(t, offset, tile.present);
      find_tile(t, first_ + C::tile_keys);
    }
    t.commit_copies();
    if (lane_ == 0) t.store_shared(tiles_ + static_cast<uint32_t>(write_) * 16, tile);
    t.sync_warp();
    write_ = write_ + 1 < C::stages ? write_ + 1 : 0;
  }
  /// The tile to be read next.
  FOLIO_DEVICE KeyTile front(Thread& t) const {
    return t.template load_shared<KeyTile>(tiles_ + static_cast<uint32_t>(read_) * 16);
  }
  /// Its rows, once it has landed for the whole block. The stage before it is free then.
  FOLIO_DEVICE uint32_t wait(Thread& t) {
    t.template wait_copies<C::stages - 2>();
    t.sync_block();
    const uint32_t stage = t.shared_base() + static_cast<uint32_t>(read_) * C::stage_bytes;
    read_ = read_ + 1 < C::stages ? read_ + 1 : 0;
    return stage;
  }

 private:
  /// Goes to the first tile from key `from` of this task, or of a later one, that some row may see.
  FOLIO_DEVICE void find_tile(Thread& t, int32_t from) {
    while (true) {
      if (from < hull_.sinks_end) {
        first_ = later(from, hull_.sinks_begin & -C::tile_keys);
      } else {
        first_ = later(from, hull_.begin & -C::tile_keys);
        if (first_ >= hull_.end) first_ = end_;
      }
      if (first_ < end_) return find_entry(t);
      if (++task_ >= task_end_) return;
      from = begin_task(t);
    }
  }
  FOLIO_DEVICE static int32_t later(int32_t a, int32_t b) { return a > b ? a : b; }

  /// The task's first key.
  FOLIO_DEVICE int32_t begin_task(Thread& t) {
    rows_ = TaskRows(t, call_, batch_, task_);
    span_keys_ = span_keys_of(call_.problem.reproducible);
    own_ = seen_by(call_.problem, batch_, rows_, rows_.first_token() + lane_);
    hull_ = own_;
    if (own_.begin == own_.end) hull_.begin = INT32_MAX;
    FOLIO_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) {
      hull_.sinks_begin = later(hull_.sinks_begin, shuffled(t, hull_.sinks_begin, mask));
      hull_.sinks_end = later(hull_.sinks_end, shuffled(t, hull_.sinks_end, mask));
      hull_.begin = -later(-hull_.begin, -shuffled(t, hull_.begin, mask));
      hull_.end = later(hull_.end, shuffled(t, hull_.end, mask));
    }
    row_ = batch_.table.entries + batch_.table.row_start(rows_.task.sequence);
    const int64_t end = int64_t{rows_.task.span_end} * span_keys_;
    end_ = end < rows_.sequence.context ? static_cast<int32_t>(end) : rows_.sequence.context;
    return rows_.task.span_begin * span_keys_;
  }
  FOLIO_DEVICE static int32_t shuffled(Thread& t, int32_t value, int mask) {
    return static_cast<int32_t>(t.shuffle_xor(static_cast<uint32_t>(value), mask));
  }

  /// Asks for the table entry of this lane's key, if some row sees it.
  FOLIO_DEVICE void find_entry(Thread& t) {
    uint32_t seen = seen_in_tile(hull_, first_);
    if constexpr (C::is_general) seen = seen_by_rows(t, seen);
    is_seen_ = (seen >> lane_ & 1) != 0;
    if (!is_seen_) return;
    const auto key = static_cast<uint32_t>(first_ + lane_);
    const auto page_size = static_cast<uint32_t>(call_.args.key.page_size);
    const uint32_t logical = key / page_size;
    slot_ = key - logical * page_size;
    entry_ = t.read(row_ + logical);
  }

  /// Intervals and trees may leave gaps between what the first and the last token see, and biases
  /// hide keys.
  FOLIO_DEVICE uint32_t seen_by_rows(Thread& t, uint32_t hull) {
    const AttentionProblem& problem = call_.problem;
    if (!problem.intervals && !problem.tree && !problem.bias) return hull;
    const int32_t first_token = rows_.first_token(), tokens = rows_.tokens();
    const uint32_t mine =
        lane_ < tokens ? seen_with_tree(problem, batch_, rows_, first_token + lane_, own_, first_)
                       : 0u;
    if (problem.bias) return seen_with_bias(t, mine);
    uint32_t seen = mine;
    FOLIO_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) seen |= t.shuffle_xor(seen, mask);
    return seen;
  }
  FOLIO_DEVICE uint32_t seen_with_bias(Thread& t, uint32_t mine) {
    bool is_shown = false;
    for (int32_t row = rows_.count() - 1; row >= 0; --row) {
      const int32_t token = rows_.token_of(row);
      const uint32_t seen = t.shuffle(mine, token - rows_.first_token());
      if ((seen >> lane_ & 1) == 0 || is_shown) continue;
      const float* bias = bias_of(call_.args, rows_, token, rows_.q_head_of(row));
      is_shown = t.read(bias + first_ + lane_) != minus_infinity();
    }
    return t.ballot(is_shown);
  }

  /// Where this lane's row lies, from the plane's start, and which keys have one.
  FOLIO_DEVICE int64_t find_row(Thread& t, uint32_t& present) {
    const PagedKVView& plane = call_.args.key;
    const int64_t page = is_seen_ ? detail::page_of(plane, entry_) : detail::no_page;
    const bool is_inside = plane.page_size != unbounded_page_size || page + slot_ < plane.num_pages;
    present = t.ballot(page != detail::no_page && is_inside);
    return detail::row_offset_bytes(plane, page, slot_, rows_.task.head);
  }
  FOLIO_DEVICE void copy_rows(Thread& t, int64_t offset, uint32_t present) {
    const int unit = lane_ & 7, key = warp_ * 4 + (lane_ >> 3);
    const auto bits = static_cast<uint64_t>(offset);
    const uint64_t low = t.shuffle(static_cast<uint32_t>(bits), key);
    const uint64_t high = t.shuffle(static_cast<uint32_t>(bits >> 32), key);
    const bool is_present = (present >> key & 1) != 0;
    const auto* from = static_cast<const std::byte*>(call_.args.key.data);
    if (is_present) from += static_cast<int64_t>(high << 32 | low) + unit * 16;
    const uint32_t to = t.shared_base() + static_cast<uint32_t>(write_) * C::stage_bytes +
                        static_cast<uint32_t>(key) * C::row_bytes + swizzled(key, unit);
    FOLIO_UNROLL
    for (int line = 0; line < C::lines; ++line)
      t.copy_async(to + static_cast<uint32_t>(line) * 128, from + (is_present ? line * 128 : 0),
                   is_present);
  }

  const AttendCall& call_;
  const Batch& batch_;
  const int lane_, warp_;
  const uint32_t tiles_;
  TaskRows rows_;
  SeenKeys own_, hull_;            // of the lane's token; of all
  const uint32_t* row_ = nullptr;  // of the page table
  uint32_t entry_ = 0, slot_ = 0;  // of the lane's key
  bool is_seen_ = false;
  int32_t task_, task_end_;
  int32_t first_ = 0, end_ = 0;  // of the tile; of the task's keys
  int32_t span_keys_ = 1;
  int write_ = 0, read_ = 0;
};

}  // namespace folio::cuda::mla
