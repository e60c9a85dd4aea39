// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/decode.h: paged attention of few rows per sequence: the q heads of a group, and
/// the tokens of a speculative step, are the rows of one m16n8k16 tile; more rows are more tiles.
///
/// Each warp runs its own stream of slabs through a ring in shared memory and meets the others of
/// its block only where a round ends. There the states of the warps are folded in ascending order
/// of keys; states of tasks that share a unit go through partials, and the last block to arrive
/// folds those. Rows never influence one another.
#pragma once

#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/attention/output_row.h"
#include "cuda/decode/attend_slab.h"
#include "cuda/decode/copy_loader.h"
#include "cuda/decode/tile_loader.h"

namespace folio::cuda {

template <class Config, class Thread, class Loader>
class Decoder {
 public:
  FOLIO_DEVICE Decoder(Thread& t, const AttendCall& a, Loader& loader)
      : a_(a), loader_(loader), area_(t) {}

  FOLIO_DEVICE void run(Thread& t) {
    // the end is read again for each: registers are few during the walk
    int32_t i = t.read(a_.list.block_tasks + t.block());
    for (; i < t.read(a_.list.block_tasks + t.block() + 1); ++i) attend(t, i);
  }

 private:
  using Place = typename Config::Place;
  using PartialsOf = Partials<Config::rows, Config::head_size, Place::columns, Place::stride>;

  FOLIO_DEVICE void attend(Thread& t, int32_t index) {
    RoundState<Config> result;
    result.clear(t);
    walk(t, index, result);
    // read again, as is the end
    const DeviceTask task = t.read(a_.list.tasks + index);
    const Place place(t.thread());
    const bool is_owner = place.row < task.row_end - task.row_begin;
    if (task.split >= 0 && !fold_split(t, task, place, is_owner, result)) return;
    if (!is_owner) return;
    const TaskRow row(a_, task, place.row);
    const int64_t first = t.read(a_.plan->batch.query_offsets + task.sequence);
    write_row(t, a_, OutputRow{first + row.token, row.head}, place.column, Place::stride,
              result.state);
  }

  /// All rounds of a task.
  FOLIO_DEVICE void walk(Thread& t, int32_t index, RoundState<Config>& result) {
    const DeviceTask task = t.read(a_.list.tasks + index);
    const Sequence s = sequence_of(a_.plan->batch, task.sequence);
    const TaskWalk<Config> made(t, a_, s, task);
    if (made.rounds(a_.stores_spans) == 0) return;
    KeptWalk<Config> kept;  // ordered by the barrier of the queries
    kept.set(t, 0, t.thread() == 0, made);
    const RowsOf<Config> rows(t, a_, s, task);
    QueriesOf<Config> queries;
    queries.load(t, a_, s, task);
    bool is_last = false;
    for (int32_t round = 0; !is_last; ++round) {
      walk_part(t, kept, round, rows, queries);
      t.sync_block();
      fold_round(t, index, kept, round, result);
      is_last = round + 1 == kept.get(t, 0).rounds(a_.stores_spans);
      t.sync_block();
    }
    result.fetch(t);
  }

  /// This warp's slabs of a round, from an empty state, which ends in the warp's free stage.
  FOLIO_DEVICE void walk_part(Thread& t, const KeptWalk<Config>& kept, int32_t round,
                              const RowsOf<Config>& rows, const QueriesOf<Config>& queries) {
    const TaskWalk<Config> walk = kept.get(t, 0);
    const WalkPart part = walk.part(round, t.warp(), a_.stores_spans);
    if (part.begin >= part.end) {
      area_.store_nothing(t);
      return;
    }
    SpanState<Config> state;
    state.clear();
    const LiveTiles slabs = walk.slabs();
    for (int32_t number = part.begin; number < part.end; ++number) {
      loader_.wait(t);
      loader_.fetch(t, a_);
      attend_slab<Config, Loader>(t, a_, queries, rows, slabs.at(number) * Config::slab_keys,
                                  loader_.slab(), loader_.alive(t), state);
    }
    t.sync_warp();
    area_.store(t, loader_.free_stage(), state);
    // a copy by tensor maps overwrites it
    if constexpr (!Loader::zeroes_dead_values) t.fence_async();
  }

  /// The warps' states in ascending order of keys: into the result, or each where its span belongs.
  FOLIO_DEVICE void fold_round(Thread& t, int32_t index, const KeptWalk<Config>& kept,
                               int32_t round, RoundState<Config>& result) {
    const DeviceTask task = t.read(a_.list.tasks + index);
    const Place place(t.thread());
    if (place.row >= task.row_end - task.row_begin) return;
    const TaskWalk<Config> walk = kept.get(t, 0);
    const bool stores = a_.stores_spans && task.split >= 0;
    const int32_t first = round * Config::warps;  // span of the task
    result.fetch(t);
    for (int w = 0; w < Config::warps; ++w) {
      if (a_.stores_spans && walk.first + first + w >= walk.last) break;
      const MaxSum row = area_.row(t, w, place.row);
      const uint32_t stage = area_.stage(t, w);
      const auto part = [&](int g) {
        return area_.columns(t, stage, place.row, place.column + g * Place::stride);
      };
      if (stores)
        PartialsOf(a_).store(t, int64_t{task.partial} + first + w, place, row, part);
      else
        result.state.fold(t, row, part);
    }
    result.park(t);
  }

  /// Leaves the task's partials to the last of its split; true: that is this block, and `result`
  /// holds all spans of the rows.
  FOLIO_DEVICE bool fold_split(Thread& t, const DeviceTask& task, const Place& place, bool is_owner,
                               RoundState<Config>& result) {
    const PartialsOf partials(a_);
    if (!a_.stores_spans && is_owner) partials.store(t, task.partial, place, result.state);
    const DeviceSplit split = t.read(a_.splits + task.split);
    if (!arrive_last(t, a_, task.split, split.tasks, t.shared_base() + Config::flag_at))
      return false;
    result.state.clear();
    if (is_owner) partials.fold(t, split.first_partial, split.partials, place, result.state);
    return true;
  }

  const AttendCall& a_;
  Loader& loader_;
  const FoldArea<Config, Thread> area_;
};

/// The instance that copies by cp.async.
template <DType Type, int HeadSize, bool General>
struct DecodeKernel {
  using Config = DecodeConfig<Type, HeadSize, General>;
  static constexpr int threads = Config::threads;
  static constexpr int shared_bytes = Config::shared_bytes;
  static constexpr int blocks_per_processor = decode_blocks_per_processor<HeadSize>;
  using Args = AttendCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const AttendCall& a) {
    using Loader = CopyLoader<Config, Thread>;
    Loader loader(t, a);
    Decoder<Config, Thread, Loader>(t, a, loader).run(t);
  }
};

/// The instance that copies by tensor maps.
template <DType Type, int HeadSize, bool General>
struct DecodeTilesKernel {
  using Config = DecodeConfig<Type, HeadSize, General>;
  static constexpr int threads = Config::threads;
  static constexpr int shared_bytes = Config::shared_bytes;
  static constexpr int blocks_per_processor = decode_blocks_per_processor<HeadSize>;
  using Args = AttendTileCall;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const AttendTileCall& a) {
    using Loader = TileLoader<Config, Thread>;
    Loader loader(t, a);
    Decoder<Config, Thread, Loader>(t, a.call, loader).run(t);
  }
};

}  // namespace folio::cuda
