// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/task.h: a task as it lies in shared memory: its sequence, what each of its rows
/// sees, and which tiles of keys any of them sees.
///
/// Row r of a task is row row_begin + r of its sequence and KV head. Rows behind the last repeat
/// it: they are computed and never written. Registers hold the products; whatever else a tile needs
/// is read from here again.
#pragma once

#include <cstdint>

#include "cuda/attention/seen_keys.h"
#include "cuda/plan/device_plan.h"
#include "cuda/prefill/config.h"
#include "kernel/sequence.h"

namespace folio::cuda::prefill {

FOLIO_DEVICE int32_t lesser(int32_t a, int32_t b) { return a < b ? a : b; }
FOLIO_DEVICE int32_t greater(int32_t a, int32_t b) { return a > b ? a : b; }

template <class Thread>
FOLIO_DEVICE int32_t lowest_of_warp(Thread& t, int32_t x) {
  FOLIO_UNROLL
  for (int mask = 16; mask > 0; mask >>= 1)
    x = lesser(x, static_cast<int32_t>(t.shuffle_xor(static_cast<uint32_t>(x), mask)));
  return x;
}
template <class Thread>
FOLIO_DEVICE int32_t highest_of_warp(Thread& t, int32_t x) {
  return -lowest_of_warp(t, -x);
}

/// A query: token of the sequence and q head.
struct Query {
  int32_t token = 0;
  int32_t q_head = 0;
};

struct alignas(16) TaskRecord {
  SeenKeys hull;  ///< what any row sees, and gaps between
  const uint32_t* table_row = nullptr;
  const uint64_t* tree = nullptr;
  int64_t first_query = 0;  ///< row of q of token 0
  int64_t distance = 0;     ///< position of token 0 minus that of key 0
  int32_t tree_words = 0;
  int32_t new_tokens = 0;
  int32_t context = 0;
  int32_t head = 0;
  int32_t row_begin = 0;
  int32_t rows = 0;

  /// Of row `r`; rows behind the last repeat it.
  [[nodiscard]] FOLIO_DEVICE Query query(const AttendCall& call, int32_t r) const {
    const int32_t group = call.problem.q_heads / call.problem.key.num_heads;
    const int32_t row = row_begin + lesser(r, rows - 1);
    return {row / group, head * group + row % group};
  }
  /// Bits of the keys [first, first + 64) that a tree does not hide from the token.
  [[nodiscard]] FOLIO_DEVICE uint64_t tree_bits(const AttentionProblem& problem, int32_t token,
                                                int32_t first) const {
    Batch batch;
    batch.tree = tree;
    batch.tree_words = tree_words;
    Sequence sequence;
    sequence.first_query = first_query;
    sequence.new_tokens = new_tokens;
    sequence.context = context;
    return tree_in_tile(problem, batch, sequence, token, first);
  }
};
static_assert(sizeof(TaskRecord) <= record_bytes);

/// What the rows of a warp see: keys in [any_begin, any_end) one of them may, those in [all_begin,
/// all_end) all do.
struct alignas(16) WarpSight {
  int32_t any_begin = 0;
  int32_t any_end = 0;
  int32_t all_begin = 0;
  int32_t all_end = 0;
};

template <class Config, class Thread>
FOLIO_DEVICE TaskRecord record_of(Thread& t) {
  return t.template load_shared<TaskRecord>(t.shared_base() + Config::record_at);
}
template <class Config, class Thread>
FOLIO_DEVICE SeenKeys sight_of_row(Thread& t, int32_t row) {
  return t.template load_shared<SeenKeys>(t.shared_base() + Config::sights_at +
                                          static_cast<uint32_t>(row) * 16);
}
template <class Config, class Thread>
FOLIO_DEVICE WarpSight sight_of_warp(Thread& t) {
  return t.template load_shared<WarpSight>(t.shared_base() + Config::warps_at +
                                           static_cast<uint32_t>(t.thread() >> 5) * 16);
}

/// By each warp for itself.
template <class Config, class Thread>
FOLIO_DEVICE SeenKeys hull_of_rows(Thread& t) {
  SeenKeys hull{INT32_MAX, 0, INT32_MAX, 0};
  FOLIO_UNROLL
  for (int i = 0; i < Config::rows / 32; ++i) {
    const SeenKeys s = sight_of_row<Config>(t, (t.thread() & 31) + 32 * i);
    if (s.begin < s.end) {
      hull.begin = lesser(hull.begin, s.begin);
      hull.end = greater(hull.end, s.end);
    }
    if (Config::is_general && s.sinks_begin < s.sinks_end) {
      hull.sinks_begin = lesser(hull.sinks_begin, s.sinks_begin);
      hull.sinks_end = greater(hull.sinks_end, s.sinks_end);
    }
  }
  hull.begin = lowest_of_warp(t, hull.begin);
  hull.end = highest_of_warp(t, hull.end);
  if (hull.end == 0) hull.begin = 0;
  if constexpr (Config::is_general) {
    hull.sinks_begin = lowest_of_warp(t, hull.sinks_begin);
    hull.sinks_end = highest_of_warp(t, hull.sinks_end);
  }
  if (hull.sinks_end == 0) hull.sinks_begin = 0;
  return hull;
}

/// Of the rows of this thread's warp.
template <class Config, class Thread>
FOLIO_DEVICE WarpSight warp_sight_of_rows(Thread& t, const AttendCall& call,
                                          const TaskRecord& task) {
  constexpr int32_t rows = 16 * Config::bands;
  const int32_t first_row = (t.thread() >> 5) * rows;
  const SeenKeys s = sight_of_row<Config>(t, first_row + (t.thread() & (rows - 1)));
  WarpSight sight{s.begin < s.end ? s.begin : INT32_MAX, s.begin < s.end ? s.end : 0, s.begin,
                  s.end};
  if (Config::is_general && s.sinks_begin < s.sinks_end) {
    sight.any_begin = lesser(sight.any_begin, s.sinks_begin);
    sight.any_end = greater(sight.any_end, s.sinks_end);
  }
  if (first_row >= task.rows) sight.any_end = 0;
  if (Config::is_general && call.problem.tree)
    sight.all_end = lesser(sight.all_end, task.context - task.new_tokens);
  return {lowest_of_warp(t, sight.any_begin), highest_of_warp(t, sight.any_end),
          highest_of_warp(t, sight.all_begin), lowest_of_warp(t, sight.all_end)};
}

/// Lays a task out in shared memory, by all threads of the block.
template <class Config, class Thread>
FOLIO_DEVICE void store_task(Thread& t, const AttendCall& call, const DeviceTask& task) {
  const Batch batch = t.read(&call.plan->batch);
  const Sequence sequence = sequence_of(batch, task.sequence);
  TaskRecord record;
  record.table_row = batch.table.entries + batch.table.row_start(task.sequence);
  record.tree = batch.tree;
  record.first_query = sequence.first_query;
  record.distance = sequence.query_position - sequence.key_position;
  record.tree_words = batch.tree_words;
  record.new_tokens = sequence.new_tokens;
  record.context = sequence.context;
  record.head = task.head;
  record.row_begin = task.row_begin;
  record.rows = task.row_end - task.row_begin;

  t.sync_block();  // the task before has been read by all
  if (t.thread() < Config::rows)
    t.store_shared(t.shared_base() + Config::sights_at + static_cast<uint32_t>(t.thread()) * 16,
                   SeenKeys::of(visible_of(call.problem, batch, sequence,
                                           record.query(call, t.thread()).token)));
  t.sync_block();
  record.hull = hull_of_rows<Config>(t);
  const WarpSight sight = warp_sight_of_rows<Config>(t, call, record);
  if (t.thread() == 0) t.store_shared(t.shared_base() + Config::record_at, record);
  if ((t.thread() & 31) == 0)
    t.store_shared(t.shared_base() + Config::warps_at + static_cast<uint32_t>(t.thread() >> 5) * 16,
                   sight);
  t.sync_block();
}

/// The tiles of a task in ascending order, by their first keys: those that hold sink tokens, then
/// those behind the gap.
struct TileRange {
  int32_t first = 0;
  int32_t gap_begin = 0;
  int32_t gap_end = 0;
  int32_t end = 0;  ///< tiles begin below

  template <class Config>
  [[nodiscard]] FOLIO_DEVICE int32_t next(int32_t tile) const {
    tile += Config::keys;
    if (Config::is_general && tile >= gap_begin && tile < gap_end) tile = gap_end;
    return tile;
  }
};

/// Of the keys [begin, end), which is a task's share; `begin` is a multiple of a tile.
template <class Config>
FOLIO_DEVICE TileRange tiles_of(const SeenKeys& hull, int64_t begin, int64_t end) {
  const auto into = [&](int32_t key) {
    return static_cast<int32_t>(key < begin ? begin : key > end ? end : key);
  };
  constexpr int32_t mask = Config::keys - 1;
  TileRange range;
  range.first = into(hull.begin) & ~mask;
  range.end = into(hull.end);
  if (range.first >= range.end) range.first = range.end = 0;
  if constexpr (Config::is_general) {
    const int32_t sinks = into(hull.sinks_begin) & ~mask;
    const int32_t sinks_end = into(hull.sinks_end);
    if (sinks < sinks_end) {
      const bool has_keys = range.first < range.end;
      if (has_keys && range.first > sinks) {
        range.gap_begin = (sinks_end + mask) & ~mask;
        range.gap_end = range.first;
      }
      // Where keys stand at negative positions, some rows' windows begin before the sink tokens.
      if (!has_keys || range.first > sinks) range.first = sinks;
      if (range.end < sinks_end) range.end = sinks_end;
    }
  }
  return range;
}

}  // namespace folio::cuda::prefill
