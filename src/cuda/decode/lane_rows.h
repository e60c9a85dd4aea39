// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/lane_rows.h: what a lane knows of its two rows of a task, lane / 4 and
/// lane / 4 + 8: which keys they see, and what is added to their logits.
///
/// Plain rows see one interval. General ones have sink tokens, tree, softcap, ALiBi and bias as the
/// problem asks; what it does not ask for costs a uniform branch.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cpu/skeleton/units.h"
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

namespace detail {

/// Bits of the keys [0, 16) below `end`.
FOLIO_DEVICE uint32_t below(int32_t end) {
  return end <= 0 ? 0u : end >= 16 ? 0xffffu : (1u << end) - 1u;
}

}  // namespace detail

/// Of instances with one interval a row.
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
      begin_[i] = end_[i] = 0;
      if (task.row_begin + r < task.row_end) {
        const Visible v = visible_of(a.problem, a.plan->batch, s, TaskRow(a, task, r).token);
        begin_[i] = static_cast<int32_t>(v.keys.begin);
        end_[i] = static_cast<int32_t>(v.keys.end);
        all_begin_ = all_begin_ > begin_[i] ? all_begin_ : begin_[i];
        all_end_ = all_end_ < end_[i] ? all_end_ : end_[i];
      }
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
  [[nodiscard]] FOLIO_DEVICE uint32_t seen(int i, int32_t key) const {
    return detail::below(end_[i] - key) & ~detail::below(begin_[i] - key);
  }

 private:
  int32_t begin_[2], end_[2];
  int32_t all_begin_, all_end_;
};

/// Of instances with every option.
class GeneralRows {
 public:
  template <class Thread>
  FOLIO_DEVICE GeneralRows(Thread& t, const AttendCall& a, const Sequence& s,
                           const DeviceTask& task)
      : sequence_(s) {
    FOLIO_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int r = t.lane() / 4 + 8 * i;
      const bool is_row = task.row_begin + r < task.row_end;
      const TaskRow row(a, task, is_row ? r : 0);
      token_[i] = row.token;
      if (is_row) visible_[i] = visible_of(a.problem, a.plan->batch, s, row.token);
      if (a.problem.alibi) slope_[i] = t.read(a.args.alibi_slopes + row.head);
      if (!a.problem.bias) continue;
      const ConstTensor<3>& bias = a.args.bias;
      bias_[i] = reinterpret_cast<const float*>(static_cast<const std::byte*>(bias.data) +
                                                (bias.extent[0] == 1 ? 0 : row.head) *
                                                    bias.stride_bytes[0] +
                                                (s.first_query + row.token) * bias.stride_bytes[1]);
    }
  }

  [[nodiscard]] FOLIO_DEVICE uint32_t seen(const AttendCall& a, int i, int32_t key) const {
    const Visible& v = visible_[i];
    uint32_t bits = between(v.keys, key) | between(v.sinks, key);
    if (a.problem.tree && bits != 0)
      bits &=
          static_cast<uint32_t>(tree_in_tile(a.problem, a.plan->batch, sequence_, token_[i], key));
    return bits;
  }

  /// A product of q and k becomes a logit in units of log2, with all that the problem adds to it;
  /// -inf where a bias hides the key. The row sees the key.
  template <class Thread>
  FOLIO_DEVICE float logit(Thread& t, const AttendCall& a, int i, int32_t key,
                           float product) const {
    using Units = skeleton::Log2Units;
    float x = product * a.problem.scale;
    if (a.problem.softcap != 0.0f) x = a.problem.softcap * t.tanh(x / a.problem.softcap);
    if (a.problem.alibi) {
      const auto distance =
          static_cast<float>(sequence_.query_position + token_[i] - sequence_.key_position - key);
      x -= slope_[i] * fabsf(distance);
    }
    constexpr float lowest = -skeleton::largest_float;
    if (a.problem.bias) {
      const float bias = t.read(bias_[i] + key);
      if (bias == minus_infinity()) return bias;
      x += bias;
    }
    // NaN goes through
    if (x < lowest) x = lowest;
    if (x > skeleton::largest_float) x = skeleton::largest_float;
    return Units::of(x);
  }

 private:
  [[nodiscard]] FOLIO_DEVICE static uint32_t between(const Interval& keys, int32_t key) {
    return detail::below(static_cast<int32_t>(keys.end) - key) &
           ~detail::below(static_cast<int32_t>(keys.begin) - key);
  }

  Sequence sequence_;
  int32_t token_[2] = {};
  Visible visible_[2];
  float slope_[2] = {};
  const float* bias_[2] = {};
};

}  // namespace folio::cuda
