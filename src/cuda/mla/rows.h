// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/rows.h: the rows of a task: which queries they are, which keys each sees, and what
/// is added to their logits.
#pragma once

#include <cstdint>

#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"

namespace folio::cuda::mla {

FOLIO_DEVICE float minus_infinity() { return -__builtin_huge_valf(); }

/// folio's Visible; contexts are below 2^31.
struct SeenKeys {
  int32_t sinks_begin = 0, sinks_end = 0, begin = 0, end = 0;
};

FOLIO_DEVICE SeenKeys narrow(const Visible& v) {
  return {static_cast<int32_t>(v.sinks.begin), static_cast<int32_t>(v.sinks.end),
          static_cast<int32_t>(v.keys.begin), static_cast<int32_t>(v.keys.end)};
}

/// Bits of the keys [first, first + 32) that are seen.
FOLIO_DEVICE uint32_t seen_in_tile(const SeenKeys& v, int32_t first) {
  const auto below = [first](int32_t end) {
    const int32_t n = end - first;
    return n <= 0 ? 0u : n >= 32 ? ~0u : (1u << n) - 1;
  };
  return (below(v.sinks_end) & ~below(v.sinks_begin)) | (below(v.end) & ~below(v.begin));
}

/// A task and the sequence that it belongs to.
struct TaskRows {
  DeviceTask task = {};
  Sequence sequence = {};
  int32_t group = 0;

  FOLIO_DEVICE TaskRows() {}
  template <class Thread>
  FOLIO_DEVICE TaskRows(Thread& t, const AttendCall& call, const Batch& batch, int32_t index)
      : task(t.read(call.list.tasks + index)),
        sequence(sequence_of(batch, task.sequence)),
        group(call.problem.q_heads / call.problem.key.num_heads) {}

  [[nodiscard]] FOLIO_DEVICE int32_t count() const { return task.row_end - task.row_begin; }
  [[nodiscard]] FOLIO_DEVICE int32_t first_token() const { return task.row_begin / group; }
  [[nodiscard]] FOLIO_DEVICE int32_t tokens() const {
    return (task.row_end - 1) / group - first_token() + 1;
  }
  [[nodiscard]] FOLIO_DEVICE int32_t token_of(int32_t row) const {
    return (task.row_begin + row) / group;
  }
  [[nodiscard]] FOLIO_DEVICE int32_t q_head_of(int32_t row) const {
    return task.head * group + (task.row_begin + row) % group;
  }
};

/// What new token `token` sees; nothing, if it is none of the task's.
FOLIO_DEVICE SeenKeys seen_by(const AttentionProblem& problem, const Batch& batch,
                              const TaskRows& rows, int32_t token) {
  if (token >= rows.first_token() + rows.tokens()) return {};
  return narrow(visible_of(problem, batch, rows.sequence, token));
}

/// The same less what a tree hides, of the keys [first, first + 32).
FOLIO_DEVICE uint32_t seen_with_tree(const AttentionProblem& problem, const Batch& batch,
                                     const TaskRows& rows, int32_t token, const SeenKeys& seen,
                                     int32_t first) {
  const uint32_t bits = seen_in_tile(seen, first);
  if (!problem.tree || bits == 0) return bits;
  return bits & static_cast<uint32_t>(tree_in_tile(problem, batch, rows.sequence, token, first));
}

/// The bias of key 0 for one query.
FOLIO_DEVICE const float* bias_of(const AttentionArgs& args, const TaskRows& rows, int32_t token,
                                  int32_t q_head) {
  const int64_t head = args.bias.extent[0] == 1 ? 0 : q_head;
  return reinterpret_cast<const float*>(
      static_cast<const std::byte*>(args.bias.data) + head * args.bias.stride_bytes[0] +
      (rows.sequence.first_query + token) * args.bias.stride_bytes[1]);
}

inline constexpr float ln_2 = 0.693147181f, log2_e = 1.44269504f;
// Beyond +-2^126 log2(e) times a logit would leave float32; such logits lie so far from one another
// that only their order matters, and grow by a half.
inline constexpr float turn = 0x1p126f, turn_shift = (log2_e - 0.5f) * turn;

/// A logit in the log2 domain; finite ones stay finite.
FOLIO_DEVICE float to_log2(float logit) {
  const float size = __builtin_fabsf(logit);
  return size > turn ? __builtin_copysignf(size * 0.5f + turn_shift, logit) : logit * log2_e;
}

/// And back.
FOLIO_DEVICE float to_natural(float x) {
  constexpr float largest = 3.40282347e38f;
  const float size = __builtin_fabsf(x);
  if (!(size > log2_e * turn)) return x * ln_2;
  const float wide = (size - turn_shift) * 2.0f;
  return __builtin_copysignf(wide < largest ? wide : largest, x);
}

/// The terms of one row's logits.
struct LogitTerms {
  float slope = 0;
  int64_t distance = 0;         ///< position of the query minus that of key 0
  const float* bias = nullptr;  ///< of key 0

  template <class Thread>
  FOLIO_DEVICE void find(Thread& t, const AttendCall& call, const TaskRows& rows, int32_t row) {
    const int32_t token = rows.token_of(row), q_head = rows.q_head_of(row);
    if (call.problem.alibi) {
      slope = t.read(call.args.alibi_slopes + q_head);
      distance = rows.sequence.query_position + token - rows.sequence.key_position;
    }
    if (call.problem.bias) bias = bias_of(call.args, rows, token, q_head);
  }
};

/// The logit of visible key `key`, in the log2 domain, from q . k; -inf if a bias hides it.
template <class Thread>
FOLIO_DEVICE float logit(Thread& t, const AttentionProblem& problem, const LogitTerms& terms,
                         int32_t key, float dot) {
  constexpr float largest = 3.40282347e38f;
  float x = dot * problem.scale;
  if (problem.softcap != 0.0f) x = problem.softcap * t.tanh(x / problem.softcap);
  if (problem.alibi)
    x = t.fma(-terms.slope, __builtin_fabsf(static_cast<float>(terms.distance - key)), x);
  if (problem.bias) {
    const float bias = t.read(terms.bias + key);
    if (bias == minus_infinity()) return bias;
    x += bias;
    x = x < -largest ? -largest : x > largest ? largest : x;
  }
  return to_log2(x);
}

}  // namespace folio::cuda::mla
