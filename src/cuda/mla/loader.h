// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/loader.h: from the page table to tiles of latent rows in shared memory.
///
/// A block's tiles in the order in which it will want them, over parts and tasks: the ring never
/// runs dry at a task's end. Every warp walks alike, lane l owning key `first + l`; the rows
/// themselves are shared out, four to a warp. The page of a key is asked for one tile ahead. Dead
/// keys become zeros in shared memory, and neither their bytes nor the table entries of pages
/// without visible keys are read.
#pragma once

#include <cstdint>

#include "cuda/attention/live_tiles.h"
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
  FOLIO_DEVICE Loader(Thread& t, const AttendCall& call, const Batch& batch, int warp)
      : call_(call),
        batch_(batch),
        lane_(t.lane()),
        warp_(warp),
        ring_(t.shared_base()),
        descriptions_(ring_ + C::tiles_at + static_cast<uint32_t>(warp_) * C::stages * 16),
        task_(t.read(call.list.block_tasks + t.block())) {
    begin_task(t);
    for (int s = 0; s + 1 < C::stages; ++s) fetch(t);
  }

  /// Begins the next tile's copies, one group, into the stage that was read last.
  FOLIO_DEVICE void fetch(Thread& t) {
    if (number_ < number_end_) {
      KeyTile tile;
      tile.first = first_;
      const int64_t offset = find_row(t, tile.present);
      copy_rows(t, offset, tile.present);
      ++number_;
      tile.ends_task = number_ == number_end_;
      // parts are powers of two
      const auto part = static_cast<uint32_t>(-part_keys_of(call_.problem.reproducible));
      const auto next = static_cast<uint32_t>(tiles_.at(number_) * C::tile_keys);
      tile.ends_part =
          number_ == number_end_ || ((next ^ static_cast<uint32_t>(first_)) & part) != 0;
      if (lane_ == 0) t.store_shared(descriptions_ + static_cast<uint32_t>(write_) * 16, tile);
      if (number_ == number_end_) {
        ++task_;
        begin_task(t);
      } else {
        find_entry(t);
      }
    }
    t.commit_copies();
    t.sync_warp();
    write_ = write_ + 1 < C::stages ? write_ + 1 : 0;
  }
  /// The rows of the next tile, once it has landed for the whole block. The stage before it is free
  /// then.
  FOLIO_DEVICE uint32_t wait(Thread& t, KeyTile& tile) {
    t.template wait_copies<C::stages - 2>();
    t.sync_block();
    const auto stage = static_cast<uint32_t>(read_);
    tile = t.template load_shared<KeyTile>(descriptions_ + stage * 16);
    read_ = read_ + 1 < C::stages ? read_ + 1 : 0;
    return ring_ + stage * C::stage_bytes;
  }

  /// Whether a task has tiles at all.
  FOLIO_DEVICE static bool has_tiles(const AttendCall& call, const Batch& batch,
                                     const TaskRows& rows) {
    const int32_t span_keys = span_keys_of(call.problem.reproducible);
    const LiveTiles spans = live_tiles(rows.seen(call.problem, batch), span_keys);
    return spans.before(rows.task.span_begin) != spans.before(rows.task.span_end);
  }

 private:
  /// Goes to the first tile of task_, or of the first behind it that has one. None has: number_ is
  /// number_end_ and stays so.
  FOLIO_DEVICE void begin_task(Thread& t) {
    const int32_t end = t.read(call_.list.block_tasks + t.block() + 1);
    for (; task_ < end; ++task_) {
      rows_ = TaskRows(t, call_, batch_, task_);
      const Visible seen = rows_.seen(call_.problem, batch_);
      seen_ = SeenKeys::of(seen);
      tiles_ = live_tiles(seen, C::tile_keys);
      row_ = batch_.table.entries + batch_.table.row_start(rows_.task.sequence);
      const int32_t span_keys = span_keys_of(call_.problem.reproducible);
      const int32_t tiles_of_span = span_keys / C::tile_keys;
      number_ = tiles_.before(rows_.task.span_begin * tiles_of_span);
      number_end_ = tiles_.before(rows_.task.span_end * tiles_of_span);
      if (C::is_general) own_ = rows_.seen_by(call_.problem, batch_, rows_.first_token() + lane_);
      if (number_ < number_end_) return find_entry(t);
    }
  }

  /// Asks for the table entry of this lane's key, if some row sees it.
  FOLIO_DEVICE void find_entry(Thread& t) {
    first_ = tiles_.at(number_) * C::tile_keys;
    uint32_t seen = seen_.in_tile<32>(first_);
    if constexpr (C::is_general) seen = seen_by_rows(t, seen);
    is_seen_ = (seen >> lane_ & 1) != 0;
    if (!is_seen_) return;
    const auto key = static_cast<uint32_t>(first_ + lane_);
    const auto page_size = static_cast<uint32_t>(call_.args.key.page_size);
    const uint32_t logical = key / page_size;
    slot_ = key - logical * page_size;
    entry_ = t.read(row_ + logical);
  }

  /// Intervals and trees may leave gaps in what the tokens see together, and biases hide keys.
  FOLIO_DEVICE uint32_t seen_by_rows(Thread& t, uint32_t together) {
    const AttentionProblem& problem = call_.problem;
    if (!problem.intervals && !problem.tree && !problem.bias) return together;
    uint32_t seen = rows_.seen_in_tile(problem, batch_, rows_.first_token() + lane_, own_, first_);
    if (problem.bias) return seen_with_bias(t, seen);
    FOLIO_UNROLL
    for (int mask = 1; mask < 32; mask *= 2) seen |= t.shuffle_xor(seen, mask);
    return seen;
  }
  /// `own`: what this lane's token sees.
  FOLIO_DEVICE uint32_t seen_with_bias(Thread& t, uint32_t own) {
    bool is_shown = false;
    for (int32_t row = rows_.count() - 1; row >= 0; --row) {
      const int32_t token = rows_.token_of(row);
      const uint32_t seen = t.shuffle(own, token - rows_.first_token());
      if ((seen >> lane_ & 1) == 0 || is_shown) continue;
      const float* const bias =
          bias_row(call_.args, rows_.sequence.first_query + token, rows_.q_head_of(row));
      is_shown = t.read(bias + first_ + lane_) != minus_infinity();
    }
    return t.ballot(is_shown);
  }

  /// Where this lane's row lies, from the plane's start, and which keys have one.
  FOLIO_DEVICE int64_t find_row(Thread& t, uint32_t& present) {
    const PagedKVView& plane = call_.args.key;
    const int64_t page = is_seen_ ? folio::detail::page_of(plane, entry_) : folio::detail::no_page;
    const bool is_inside = plane.page_size != unbounded_page_size || page + slot_ < plane.num_pages;
    present = t.ballot(page != folio::detail::no_page && is_inside);
    return folio::detail::row_offset_bytes(plane, page, slot_, rows_.task.head);
  }
  FOLIO_DEVICE void copy_rows(Thread& t, int64_t offset, uint32_t present) {
    const int unit = lane_ & 7, key = warp_ * 4 + (lane_ >> 3);
    const auto bits = static_cast<uint64_t>(offset);
    const uint64_t low = t.shuffle(static_cast<uint32_t>(bits), key);
    const uint64_t high = t.shuffle(static_cast<uint32_t>(bits >> 32), key);
    const bool is_present = (present >> key & 1) != 0;
    const auto* from = static_cast<const std::byte*>(call_.args.key.data);
    if (is_present) from += static_cast<int64_t>(high << 32 | low) + unit * 16;
    const uint32_t to = ring_ + static_cast<uint32_t>(write_) * C::stage_bytes +
                        static_cast<uint32_t>(key) * C::row_bytes + swizzled(key, unit);
    FOLIO_UNROLL
    for (int line = 0; line < C::lines; ++line)
      t.copy_async(to + static_cast<uint32_t>(line) * 128, from + line * 128, is_present);
  }

  const AttendCall& call_;
  const Batch& batch_;
  const int lane_, warp_;
  const uint32_t ring_, descriptions_;
  TaskRows rows_;
  const uint32_t* row_ = nullptr;  // of the page table
  SeenKeys seen_, own_;            // by the task's tokens together; by the lane's token
  LiveTiles tiles_;                // of seen_
  int32_t task_;
  int32_t number_ = 0, number_end_ = 0;  // of the task's tiles
  int32_t first_ = 0;                    // key of the tile
  uint32_t entry_ = 0, slot_ = 0;        // of the lane's key
  bool is_seen_ = false;
  int write_ = 0, read_ = 0;
};

}  // namespace folio::cuda::mla
