// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/lane_rows.h: what a lane knows of its two rows of a task, lane / 4 and
/// lane / 4 + 8: which keys they see, and what is added to their logits.
///
/// Plain rows see one interval. General ones have sink tokens, tree, softcap, ALiBi and bias as the
/// problem asks; what it does not ask for costs a branch that all threads take.
#pragma once

#include <cstdint>

#include "cuda/attention/logits.h"
#include "cuda/attention/seen_keys.h"
#include "cuda/decode/config.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"

namespace folio::cuda {

/// Row `r` of a task: its query token within the sequence and its q head.
struct TaskRow {
  int32_t token = 0;
  int32_t head = 0;

  FOLIO_DEVICE TaskRow(const AttendCall& a, const DeviceTask& task, int r) {
    const int32_t group = a.problem.q_heads / a.problem.key.num_heads;
    const int32_t row = task.row_begin + r;
    token = row / group;
    head = task.head * group + (row - token * group);
  }
};

/// Of instances with one interval a row. In shared memory where registers are few: then made before
/// SharedQueries, whose barrier orders them.
template <class Config>
class PlainRows {
 public:
  template <class Thread>
  FOLIO_DEVICE PlainRows(Thread& t, const AttendCall& a, const Sequence& s,
                         const DeviceTask& task) {
    all_begin_ = 0;
    all_end_ = INT32_MAX;
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int r = t.lane() / 4 + 8 * i;
      Keys keys;
      if (task.row_begin + r < task.row_end) {
        const Visible v = visible_of(a.problem, a.plan->batch, s, TaskRow(a, task, r).token);
        keys = {static_cast<int32_t>(v.keys.begin), static_cast<int32_t>(v.keys.end)};
        all_begin_ = all_begin_ > keys.begin ? all_begin_ : keys.begin;
        all_end_ = all_end_ < keys.end ? all_end_ : keys.end;
      }
      if constexpr (Config::has_registers)
        keys_[i] = keys;
      else if (t.warp() == 0 && (t.lane() & 3) == 0)
        t.store_shared(word(t, i), keys);
    }
    FOLIO_UNROLL
    for (int step = 4; step < 32; step *= 2) {
      const auto begin =
          static_cast<int32_t>(t.shuffle_xor(static_cast<uint32_t>(all_begin_), step));
      const auto end = static_cast<int32_t>(t.shuffle_xor(static_cast<uint32_t>(all_end_), step));
      all_begin_ = all_begin_ > begin ? all_begin_ : begin;
      all_end_ = all_end_ < end ? all_end_ : end;
    }
  }

  /// Whether every row sees each of the 16 keys from `key` on.
  [[nodiscard]] FOLIO_DEVICE bool see_all(int32_t key) const {
    return key >= all_begin_ && key + 16 <= all_end_;
  }
  /// Bits of the 16 keys from `key` on that row i of the lane sees.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE uint32_t seen(Thread& t, int i, int32_t key) const {
    Keys keys;
    if constexpr (Config::has_registers)
      keys = keys_[i];
    else
      keys = t.template load_shared<Keys>(word(t, i));
    return keys_between<16>(keys.begin, keys.end, key);
  }

 private:
  struct alignas(8) Keys {
    int32_t begin = 0;
    int32_t end = 0;
  };
  template <class Thread>
  FOLIO_DEVICE static uint32_t word(Thread& t, int i) {
    return t.shared_base() + Config::rows_at + static_cast<uint32_t>(t.lane() / 4 + 8 * i) * 8;
  }

  Keys keys_[Config::has_registers ? 2 : 1];
  int32_t all_begin_, all_end_;
};

/// A row of instances with every option; lies in shared memory.
struct alignas(16) GeneralRow {
  SeenKeys seen;
  const float* bias = nullptr;  // of key 0
  int64_t distance = 0;         // position of the query minus that of key 0
  float slope = 0.0f;
  int32_t sequence = 0;
  int32_t token = 0;
  int32_t first_new = 0;  // the first key that a tree may hide
};
static_assert(sizeof(GeneralRow) == 48);  // in all configurations

template <class Config>
class GeneralRows {
 public:
  /// Made before SharedQueries, whose barrier orders what is written here.
  template <class Thread>
  FOLIO_DEVICE GeneralRows(Thread& t, const AttendCall& a, const Sequence& s,
                           const DeviceTask& task) {
    if (t.thread() >= Config::rows) return;
    GeneralRow to;
    if (task.row_begin + t.thread() < task.row_end) {
      const TaskRow row(a, task, t.thread());
      to.seen = SeenKeys::of(visible_of(a.problem, a.plan->batch, s, row.token));
      to.sequence = task.sequence;
      to.token = row.token;
      to.first_new = s.context - s.new_tokens;
      const auto terms = RowTerms::of(t, a, s.first_query + row.token, row.head,
                                      s.query_position + row.token - s.key_position);
      to.slope = terms.slope;
      to.distance = terms.distance;
      to.bias = terms.bias;
    }
    t.store_shared(word(t, t.thread()), to);
  }

  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE uint32_t seen(Thread& t, const AttendCall& a, int i,
                                           int32_t key) const {
    const auto row = t.template load_shared<GeneralRow>(of_lane(t, i));
    uint32_t bits = row.seen.template in_tile<16>(key);
    if (a.problem.tree && bits != 0 && key + 16 > row.first_new)
      bits &= static_cast<uint32_t>(tree_in_tile(
          a.problem, a.plan->batch, sequence_of(a.plan->batch, row.sequence), row.token, key));
    return bits;
  }

  /// What row i of the lane adds to its logits from key `key` on.
  template <class Thread>
  [[nodiscard]] FOLIO_DEVICE LogitTerms terms(Thread& t, const AttendCall& a, int i,
                                              int32_t key) const {
    const auto row = t.template load_shared<GeneralRow>(of_lane(t, i));
    return RowTerms{row.slope, row.distance, row.bias}.from(a.problem, key);
  }

 private:
  template <class Thread>
  FOLIO_DEVICE static uint32_t word(Thread& t, int row) {
    return t.shared_base() + Config::rows_at +
           static_cast<uint32_t>(row * static_cast<int>(sizeof(GeneralRow)));
  }
  template <class Thread>
  FOLIO_DEVICE static uint32_t of_lane(Thread& t, int i) {
    return word(t, t.lane() / 4 + 8 * i);
  }
};

}  // namespace folio::cuda
