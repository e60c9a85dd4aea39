// SPDX-License-Identifier: Apache-2.0
/// src/cuda/plan/plan_kernel.h: the plan of a step, made on the device from the lengths that lie
/// there: one block, so that a captured graph replays it at other lengths.
///
///   lengths   copied, checked; each sequence's tiles of rows counted
///   tiles     what the rows of a tile see, in spans; a tile costs its spans and a little more
///   units     tile x KV head. All units' costs, one after the other, are cut into equal ranges, one
///             per block (stream-K), and a unit that lies in several ranges is split
///   tasks     a unit's part of one range
///
/// Sums over integers in the order of sequences, tiles, heads: the plan does not depend on the
/// number of threads, and it is the same on every run.
///
/// What the host cannot check is checked here. A sequence whose rows descend or leave
/// limits.tokens has no rows, one whose context leaves limits.context no keys; if offsets that go
/// back and forth still make more tiles than the limits allow, no sequence has rows. Nothing is
/// written out of bounds, and what is planned is within the limits.
#pragma once

#include <cstdint>

#include "cuda/attention/live_tiles.h"
#include "cuda/plan/block_scan.h"
#include "cuda/plan/plan_layout.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"

namespace folio::cuda {

/// What begins a unit costs as much as so many of its keys: loading queries, filling the pipeline,
/// folding. FlashMLA counts five blocks of 64.
inline constexpr int32_t unit_overhead_keys = 320;

struct PlanCall {
  AttentionProblem problem = {};  ///< resolved
  AttentionLimits limits = {};
  Batch batch = {};  ///< arrays on the device
  DevicePlanLayout layout = {};
  void* plan = nullptr;  ///< layout.plan_bytes, aligned to 64
};

/// Ascending numbers that threads of one block write, each its own, and then search: the first
/// `Kept` in shared memory, or a search would wait for L2 at every step.
template <int Kept>
class SearchedNumbers {
 public:
  static constexpr int shared_bytes = Kept * 4;

  FOLIO_DEVICE SearchedNumbers(uint32_t at, int32_t* all) : at_(at), all_(all) {}

  template <class Thread>
  FOLIO_DEVICE void store(Thread& t, int32_t index, int32_t value) const {
    if (index < Kept)
      t.store_shared(at_ + static_cast<uint32_t>(index) * 4, value);
    else
      t.store(all_ + index, value);
  }
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE int32_t at(Thread& t, int32_t index) const {
    return index < Kept ? t.template load_shared<int32_t>(at_ + static_cast<uint32_t>(index) * 4)
                        : t.load(all_ + index);
  }
  /// The largest index in [0, count) whose number is at most `value`, as that of index 0 is.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE int32_t last_at_most(Thread& t, int32_t count, int32_t value) const {
    int32_t low = 0, high = count;
    while (high - low > 1) {
      const int32_t middle = low + (high - low) / 2;
      if (at(t, middle) <= value)
        low = middle;
      else
        high = middle;
    }
    return low;
  }

 private:
  uint32_t at_;
  int32_t* all_;
};

/// `KeptStarts` and `KeptTasks`: of how many sequences and units searches stay in shared memory.
template <int Threads, int KeptStarts = 1024, int KeptTasks = 8192>
class PlanKernel {
  using Starts = SearchedNumbers<KeptStarts>;
  using FirstTasks = SearchedNumbers<KeptTasks>;

 public:
  static constexpr int threads = Threads;
  static constexpr int shared_bytes = BlockScan<Threads>::shared_bytes + Threads * 4 +
                                      2 * Starts::shared_bytes + FirstTasks::shared_bytes;
  static constexpr int blocks_per_processor = 1;
  using Args = PlanCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const PlanCall& a) {
    PlanKernel kernel(t, a);
    kernel.copy_lengths(t);
    FOLIO_UNROLL
    for (int list = 0; list < 2; ++list) kernel.plan_list(t, list);
    if (t.thread() == 0) t.store(a.layout.plan(a.plan), kernel.plan_);
  }

 private:
  template <class Thread>
  FOLIO_DEVICE PlanKernel(Thread& t, const PlanCall& a)
      : a_(a),
        heads_(a.problem.key.num_heads),
        group_(a.problem.q_heads / a.problem.key.num_heads),
        neighbours_at_(t.shared_base() + BlockScan<Threads>::shared_bytes),
        scan_(t.shared_base()) {
    plan_.batch = a.batch;
    plan_.batch.query_offsets = a.layout.query_offsets(a.plan);
    plan_.batch.context_lengths = a.layout.context_lengths(a.plan);
    if (a.batch.query_positions != nullptr)
      plan_.batch.query_positions = a.layout.query_positions(a.plan);
    if (a.batch.key_positions != nullptr)
      plan_.batch.key_positions = a.layout.key_positions(a.plan);
  }

  /// Lengths and positions into the plan memory, and the number of each sequence's first tile.
  template <class Thread>
  FOLIO_DEVICE void copy_lengths(Thread& t) {
    int32_t* const offsets = a_.layout.query_offsets(a_.plan);
    Sums<2> so_far;
    for (int32_t first = 0; first <= a_.batch.size; first += Threads) {
      const int32_t b = first + t.thread();
      Sums<2> tiles, total;
      if (b <= a_.batch.size) t.store(offsets + b, t.read(a_.batch.query_offsets + b));
      if (b < a_.batch.size) count_tiles(t, b, tiles);
      const Sums<2> before = scan_.before(t, tiles, total);
      FOLIO_UNROLL
      for (int list = 0; list < 2; ++list) {
        if (b <= a_.batch.size)
          starts(list).store(t, b, static_cast<int32_t>(so_far.x[list] + before.x[list]));
        so_far.x[list] += total.x[list];
      }
    }
    FOLIO_UNROLL
    for (int list = 0; list < 2; ++list)
      tiles_[list] =
          so_far.x[list] <= a_.layout.lists[list].tiles ? static_cast<int32_t>(so_far.x[list]) : -1;
    if (tiles_[0] < 0 || tiles_[1] < 0) tiles_[0] = tiles_[1] = 0;
    t.sync_block();
  }

  template <class Thread>
  FOLIO_DEVICE void count_tiles(Thread& t, int32_t b, Sums<2>& tiles) {
    int32_t context = t.read(a_.batch.context_lengths + b);
    if (context < 0 || context > a_.limits.context) context = 0;
    t.store(a_.layout.context_lengths(a_.plan) + b, context);
    if (a_.batch.query_positions != nullptr)
      t.store(a_.layout.query_positions(a_.plan) + b, t.read(a_.batch.query_positions + b));
    if (a_.batch.key_positions != nullptr)
      t.store(a_.layout.key_positions(a_.plan) + b, t.read(a_.batch.key_positions + b));
    const int64_t begin = t.read(a_.batch.query_offsets + b);
    const int64_t end = t.read(a_.batch.query_offsets + b + 1);
    if (begin < 0 || end <= begin || end > a_.limits.tokens) return;
    const int64_t rows = (end - begin) * group_;
    const DevicePlanLayout& layout = a_.layout;
    const int list = layout.lists[1].blocks == 0 || (layout.lists[0].blocks != 0 &&
                                                     rows <= layout.geometries[0].rows_at_most)
                         ? 0
                         : 1;
    const int32_t of_tile = layout.geometries[list].rows;
    const int64_t count = (rows + of_tile - 1) / of_tile;
    tiles.x[0] = list == 0 ? count : 0;
    tiles.x[1] = list == 1 ? count : 0;
  }

  template <class Thread>
  FOLIO_DEVICE void plan_list(Thread& t, int list) {
    if (a_.layout.lists[list].blocks == 0) return;
    const int32_t span_keys = a_.layout.geometries[list].span_keys;
    overhead_ = span_keys < unit_overhead_keys ? unit_overhead_keys / span_keys : 1;
    find_spans(t, list);
    cut_units(t, list);
    write_tasks(t, list);
  }

  /// The number of each sequence's first tile.
  [[nodiscard]] FOLIO_DEVICE Starts starts(int list) const {
    return Starts(neighbours_at_ + Threads * 4 + static_cast<uint32_t>(list) * Starts::shared_bytes,
                  a_.layout.tile_starts(a_.plan, list));
  }
  /// The number of each unit's first task.
  [[nodiscard]] FOLIO_DEVICE FirstTasks first_tasks(int list) const {
    return FirstTasks(neighbours_at_ + Threads * 4 + 2 * Starts::shared_bytes,
                      a_.layout.first_tasks(a_.plan, list));
  }

  /// Every tile's spans, the cost of what lies before it, and what a block is to do.
  template <class Thread>
  FOLIO_DEVICE void find_spans(Thread& t, int list) {
    const DeviceGeometry& geometry = a_.layout.geometries[list];
    const ListLayout& bounds = a_.layout.lists[list];
    int64_t cost_before = 0;
    int32_t most_spans = 0;
    for (int32_t first = 0; first < tiles_[list]; first += Threads) {
      const int32_t i = first + t.thread();
      DeviceTile tile;
      Sums<1> cost, total;
      if (i < tiles_[list]) {
        tile.sequence = starts(list).last_at_most(t, a_.batch.size, i);
        const Sequence s = sequence_of(plan_.batch, tile.sequence);
        const int32_t rows = s.new_tokens * group_;
        const int32_t before = starts(list).at(t, tile.sequence);
        tile.row_begin = (i - before) * geometry.rows;
        tile.row_end =
            rows - tile.row_begin < geometry.rows ? rows : tile.row_begin + geometry.rows;
        tile.spans = live_tiles(seen_by_tokens(a_.problem, plan_.batch, s, tile.row_begin / group_,
                                               (tile.row_end - 1) / group_),
                                geometry.span_keys);
        if (tile.spans.count() > most_spans) most_spans = tile.spans.count();
        cost.x[0] = int64_t{heads_} * (overhead_ + tile.spans.count());
      }
      tile.cost_before = cost_before + scan_.before(t, cost, total).x[0];
      if (i < tiles_[list]) t.store(a_.layout.tiles(a_.plan, list) + i, tile);
      cost_before += total.x[0];
    }
    most_spans = scan_.largest(t, most_spans);
    // equal ranges, but none so small that a unit lies in too many
    range_ = (cost_before + bounds.blocks - 1) / bounds.blocks;
    const int64_t least = (most_spans + tasks_of_split_max - 2) / (tasks_of_split_max - 1);
    if (range_ < least) range_ = least;
    if (range_ < 1) range_ = 1;
  }

  /// Where a unit lies in the cost of all: its spans come last.
  struct Extent {
    int64_t first_span;
    int32_t spans;
    int32_t first_block;
    int32_t last_block;
  };
  FOLIO_DEVICE Extent extent_of(const DeviceTile& tile, int32_t head) const {
    Extent e;
    e.spans = tile.spans.count();
    e.first_span = tile.cost_before + int64_t{head} * (overhead_ + e.spans) + overhead_;
    e.first_block = block_of(e.first_span - (e.spans == 0 ? 1 : 0));
    e.last_block = e.spans == 0 ? e.first_block : block_of(e.first_span + e.spans - 1);
    return e;
  }

  /// Whose range the cost `at` lies in. Divides words of 32 bits where they hold all.
  [[nodiscard]] FOLIO_DEVICE int32_t block_of(int64_t at) const {
    if (at <= UINT32_MAX && range_ <= UINT32_MAX)
      return static_cast<int32_t>(static_cast<uint32_t>(at) / static_cast<uint32_t>(range_));
    return static_cast<int32_t>(at / range_);
  }

  /// Which units are split, and the numbers of their tasks and partials.
  template <class Thread>
  FOLIO_DEVICE void cut_units(Thread& t, int list) {
    const ListLayout& bounds = a_.layout.lists[list];
    const int32_t units = tiles_[list] * heads_;
    Sums<3, int32_t> so_far;  // tasks, splits, partials
    int64_t wanted_before = 0;
    for (int32_t first = 0; first < units; first += Threads) {
      const int32_t u = first + t.thread();
      Sums<3, int32_t> mine, total;
      DeviceUnit unit;
      if (u < units) {
        const DeviceTile tile = t.load(a_.layout.tiles(a_.plan, list) + u / heads_);
        const Extent e = extent_of(tile, u % heads_);
        unit.first_block = e.first_block;
        mine.x[0] = e.last_block - e.first_block + 1;
        mine.x[2] = a_.layout.stores_spans ? e.spans : mine.x[0];
      }
      if (a_.layout.stores_spans) {
        Sums<1> wanted, all;
        if (mine.x[0] > 1) wanted.x[0] = mine.x[2];
        const int64_t end = wanted_before + scan_.before(t, wanted, all).x[0] + wanted.x[0];
        if (end > bounds.partials && mine.x[0] > 1) mine.x[0] = 1;
        wanted_before += all.x[0];
      }
      mine.x[1] = mine.x[0] > 1 ? 1 : 0;
      if (mine.x[1] == 0) mine.x[2] = 0;
      const Sums<3, int32_t> before = scan_.before(t, mine, total);
      if (u < units) {
        unit.first_task = so_far.x[0] + before.x[0];
        unit.first_partial = so_far.x[2] + before.x[2];
        if (mine.x[1] != 0) {
          unit.split = bounds.first_split + so_far.x[1] + before.x[1];
          t.store(a_.layout.splits(a_.plan) + unit.split,
                  DeviceSplit{mine.x[0], unit.first_partial, mine.x[2], 0});
        }
        t.store(a_.layout.units(a_.plan, list) + u, unit);
        first_tasks(list).store(t, u, unit.first_task);
      }
      FOLIO_UNROLL
      for (int i = 0; i < 3; ++i) so_far.x[i] += total.x[i];
    }
    plan_.num_tasks[list] = so_far.x[0];
    plan_.num_splits[list] = so_far.x[1];
    plan_.num_partials[list] = so_far.x[2];
    t.sync_block();
  }

  /// Tasks, and each block's first.
  template <class Thread>
  FOLIO_DEVICE void write_tasks(Thread& t, int list) {
    const TaskList to = a_.layout.tasks(a_.plan, list);
    const int32_t tasks = plan_.num_tasks[list], blocks = a_.layout.lists[list].blocks;
    int32_t last_block = -1;  // of the task before this round's first
    for (int32_t first = 0; first < tasks; first += Threads) {
      const int32_t i = first + t.thread();
      int32_t block = -1;
      if (i < tasks) {
        DeviceTask task;
        block = find_task(t, list, i, task);
        t.store(to.tasks + i, task);
      }
      t.store_shared(neighbours_at_ + static_cast<uint32_t>(t.thread()) * 4, block);
      t.sync_block();
      if (i < tasks) {
        const int32_t before = t.thread() == 0 ? last_block : neighbour(t, t.thread() - 1);
        for (int32_t b = before + 1; b <= block; ++b) t.store(to.block_tasks + b, i);
      }
      last_block = neighbour(t, tasks - first < Threads ? tasks - first - 1 : Threads - 1);
      t.sync_block();
    }
    for (int32_t b = last_block + 1 + t.thread(); b <= blocks; b += Threads)
      t.store(to.block_tasks + b, tasks);
  }
  template <class Thread>
  FOLIO_DEVICE int32_t neighbour(Thread& t, int thread) const {
    return t.template load_shared<int32_t>(neighbours_at_ + static_cast<uint32_t>(thread) * 4);
  }

  /// Task `i` of the list; returns the block that does it.
  template <class Thread>
  FOLIO_DEVICE int32_t find_task(Thread& t, int list, int32_t i, DeviceTask& task) const {
    const DeviceUnit* const units = a_.layout.units(a_.plan, list);
    const int32_t u = first_tasks(list).last_at_most(t, tiles_[list] * heads_, i);
    const DeviceUnit unit = t.load(units + u);
    const DeviceTile tile = t.load(a_.layout.tiles(a_.plan, list) + u / heads_);
    const Extent e = extent_of(tile, u % heads_);
    const int32_t block = unit.first_block + (i - unit.first_task);
    // numbers of the first and behind the last of its live spans
    int64_t begin = 0, end = e.spans;
    if (unit.split >= 0) {
      begin = int64_t{block} * range_ - e.first_span;
      end = begin + range_;
      if (begin < 0) begin = 0;
      if (end > e.spans) end = e.spans;
    }
    task.sequence = tile.sequence;
    task.head = u % heads_;
    task.row_begin = tile.row_begin;
    task.row_end = tile.row_end;
    if (begin < end) {
      task.span_begin = tile.spans.at(static_cast<int32_t>(begin));
      task.span_end = tile.spans.at(static_cast<int32_t>(end) - 1) + 1;
    }
    task.split = unit.split;
    task.partial = unit.first_partial +
                   (a_.layout.stores_spans ? static_cast<int32_t>(begin) : i - unit.first_task);
    return block;
  }

  const PlanCall& a_;
  const int32_t heads_;
  const int32_t group_;
  const uint32_t neighbours_at_;
  BlockScan<Threads> scan_;
  DevicePlan plan_;
  int32_t tiles_[2] = {};
  int32_t overhead_ = 0;  // of a unit, in spans
  int64_t range_ = 0;     // of a block, in spans and overheads
};

}  // namespace folio::cuda
