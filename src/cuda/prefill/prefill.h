// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/prefill.h: attention of many rows over paged K and V by mma.sync and cp.async,
/// from sm_80 on.
///
/// A block takes up to 128 rows (tokens x q heads of a group) of one sequence and KV head, 16 of
/// them a warp, and walks the tiles of keys that any of them sees in ascending order. Tiles lie at
/// absolute multiples, and nothing of a row depends on the others: its bits depend on its query and
/// the keys that it sees, unless its keys were divided between tasks.
///
///     tile  i - 1        i                 i + 1              i + 2            i + 3
///                  products, softmax   copies in flight   addresses stored  entry requested
#pragma once

#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/attention/fragments.h"
#include "cuda/attention/output_row.h"
#include "cuda/plan/device_plan.h"
#include "cuda/prefill/attend_tile.h"
#include "cuda/prefill/config.h"
#include "cuda/prefill/stage.h"
#include "cuda/prefill/task.h"

namespace folio::cuda {

namespace prefill {

template <class Config, class Thread>
class TaskRunner {
 public:
  FOLIO_DEVICE TaskRunner(Thread& thread, const AttendCall& attend_call)
      : t(thread), call(attend_call) {}

  FOLIO_DEVICE void run(const DeviceTask& task) {
    store_task<Config>(t, call, task);
    RowState<Config> state[Config::bands];
    FOLIO_UNROLL
    for (int band = 0; band < Config::bands; ++band) state[band].clear();
    walk(task, state);
    FOLIO_UNROLL
    for (int band = 0; band < Config::bands; ++band) {
      FOLIO_UNROLL
      for (int r = 0; r < 2; ++r) finish(task, state[band], row_of(band, r), r);
    }
    if (task.split < 0) return;
    const DeviceSplit split = t.read(call.splits + task.split);
    if (!arrive_last(t, call, task.split, split.tasks, t.shared_base() + Config::flag_at)) return;
    for (int i = 0; i < 2 * Config::bands; ++i) fold(split, row_of(i >> 1, i & 1));
  }

 private:
  using WholeRow = typename RowState<Config>::WholeRow;
  using PartialsOf = Partials<Config::rows, Config::head_size, Config::head_size / 4, 16>;

  /// This thread's row `r` of a band: two.
  FOLIO_DEVICE int row_of(int band, int r) const {
    return ((t.thread() >> 5) * Config::bands + band) * 16 + ((t.thread() & 31) >> 2) + 8 * r;
  }

  /// A row becomes output, or a partial.
  FOLIO_DEVICE void finish(const DeviceTask& task, const RowState<Config>& state, int row, int r) {
    const TaskRecord record = record_of<Config>(t);
    WholeRow result = state.whole_row(t, r);
    if (row >= record.rows) return;
    if (task.split >= 0)
      PartialsOf(call).store(t, task.partial, RowPlace{row, column()}, result);
    else
      write(record, row, result);
  }
  FOLIO_DEVICE void fold(const DeviceSplit& split, int row) {
    const TaskRecord record = record_of<Config>(t);
    if (row >= record.rows) return;
    WholeRow result;
    result.clear();
    PartialsOf(call).fold(t, split.first_partial, split.partials, RowPlace{row, column()}, result);
    write(record, row, result);
  }
  FOLIO_DEVICE void write(const TaskRecord& record, int row, WholeRow& result) {
    const Query query = record.query(call, row);
    write_row(t, call, OutputRow{record.first_query + query.token, query.q_head}, column(), 16,
              result);
  }
  /// The first of this thread's columns of a whole row.
  FOLIO_DEVICE int column() const { return fragment_column(t.lane()); }

  FOLIO_DEVICE static int next_slot(int slot) { return slot + 1 < Config::slots ? slot + 1 : 0; }

  /// One step of the finders: the address of a key whose entry was found, and the entry of the key
  /// a tile further.
  FOLIO_DEVICE void find(const TileRange& range, int32_t tile, int slot, uint32_t& entry) {
    if (t.thread() >= Config::keys || tile >= range.end) return;
    store_address<Config>(t, call, tile, entry, slot);
    const int32_t after = range.template next<Config>(tile);
    if (after < range.end) entry = find_entry<Config>(t, call, after);
  }

  FOLIO_DEVICE void walk(const DeviceTask& task, RowState<Config> (&state)[Config::bands]) {
    const int64_t span = call.stores_spans ? whole_span : span_keys;
    const TileRange range =
        tiles_of<Config>(record_of<Config>(t).hull, task.span_begin * span, task.span_end * span);
    if (range.first >= range.end) return;
    // a general instance scales its products itself
    const float factor = Config::is_general ? 1.0f : __builtin_fabsf(call.problem.scale) * log2_e;
    const bool is_turned = !Config::is_general && call.problem.scale < 0.0f;

    uint32_t entry = no_entry;
    if (t.thread() < Config::keys) entry = find_entry<Config>(t, call, range.first);
    find(range, range.first, 0, entry);
    Queries<Config> q;
    FOLIO_UNROLL
    for (int band = 0; band < Config::bands; ++band)
      q.load(t, call, record_of<Config>(t), band, row_of(band, 0), is_turned ? 0x80008000u : 0u);
    t.sync_block();
    copy_tile<Config>(t, 0, 0);
    t.commit_copies();
    find(range, range.template next<Config>(range.first), 1, entry);

    int slot = 0, stage = 0;
    for (int32_t tile = range.first; tile < range.end; tile = range.template next<Config>(tile)) {
      t.template wait_copies<0>();
      t.sync_block();  // this tile is there, the one before has been read by all
      const int32_t after = range.template next<Config>(tile);
      if (after < range.end) copy_tile<Config>(t, next_slot(slot), stage ^ 1);
      t.commit_copies();
      find(range, range.template next<Config>(after), next_slot(next_slot(slot)), entry);
      attend(q, factor, tile, slot, stage, state);
      slot = next_slot(slot);
      stage ^= 1;
    }
  }

  /// The warp's rows against one tile, unless none of them sees it.
  FOLIO_DEVICE void attend(const Queries<Config>& q, float factor, int32_t tile, int slot,
                           int stage, RowState<Config> (&state)[Config::bands]) {
    const WarpSight sight = sight_of_warp<Config>(t);
    if (tile >= sight.any_end || tile + Config::keys <= sight.any_begin) return;
    const uint64_t alive = alive_in_tile<Config>(t, slot);
    constexpr uint64_t all = Config::keys == 64 ? ~uint64_t{0} : 0xffffffffu;
    const bool is_whole =
        alive == all && tile >= sight.all_begin && tile + Config::keys <= sight.all_end;
    const uint32_t keys = t.shared_base() + static_cast<uint32_t>(stage) * Config::stage_bytes;
    Scores<Config> s[Config::bands];
    multiply_keys(t, q, keys, s);
    if (Config::is_general || !is_whole) {
      FOLIO_UNROLL
      for (int band = 0; band < Config::bands; ++band) {
        FOLIO_UNROLL
        for (int r = 0; r < 2; ++r)
          finish_logits(tile, is_whole, alive, row_of(band, r), r, s[band]);
      }
    }
    FOLIO_UNROLL
    for (int band = 0; band < Config::bands; ++band) weigh(t, factor, s[band], state[band]);
    multiply_values(t, s, keys + Config::plane_bytes, state);
  }

  /// What a row does not see becomes -inf; terms are added to the rest.
  FOLIO_DEVICE void finish_logits(int32_t tile, bool is_whole, uint64_t alive, int row, int r,
                                  Scores<Config>& s) {
    uint64_t seen = alive;
    if (!is_whole) {
      const SeenKeys keys = sight_of_row<Config>(t, row);
      seen &= keys.in_tile<Config::keys, Config::is_general>(tile);
    }
    if constexpr (Config::is_general) {
      const TaskRecord task = record_of<Config>(t);
      const Query query = task.query(call, row);
      const auto terms = RowTerms::of(t, call, task.first_query + query.token, query.q_head,
                                      task.distance + query.token);
      add_terms<Config>(t, call, terms, r, tile,
                        is_whole ? seen : seen & task.tree_bits(call.problem, query.token, tile),
                        s);
    } else {
      hide<Config>(s, t.thread() & 31, r, seen);
    }
  }

  Thread& t;
  const AttendCall& call;
};

}  // namespace prefill

template <int HeadSize, DType Type, bool IsGeneral>
struct PrefillKernel {
  using Config = prefill::Config<HeadSize, Type, IsGeneral>;
  using Args = AttendCall;
  static constexpr int threads = Config::threads;
  static constexpr int shared_bytes = Config::shared_bytes;
  static constexpr int blocks_per_processor = Config::blocks_per_processor;

  template <class Thread>
  FOLIO_DEVICE static void run(Thread& t, const AttendCall& call) {
    const int32_t end = t.read(call.list.block_tasks + t.block() + 1);
    for (int32_t i = t.read(call.list.block_tasks + t.block()); i < end; ++i)
      prefill::TaskRunner<Config, Thread>(t, call).run(t.read(call.list.tasks + i));
  }
};

}  // namespace folio::cuda
