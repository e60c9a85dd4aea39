// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/rows.h: the rows of a task: which queries they are, which keys each sees, and what
/// is added to their logits.
#pragma once

#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/attention/live_tiles.h"
#include "cuda/attention/output_row.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/sequence.h"
#include "kernel/units.h"

namespace folio::cuda::mla {

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
  int32_t group = 1;

  FOLIO_DEVICE TaskRows() {}
  template <class Thread>
  FOLIO_DEVICE TaskRows(Thread& t, const AttendCall& call, const Batch& batch, int32_t index)
      : task(t.read(call.list.tasks + index)),
        sequence(sequence_of(batch, task.sequence)),
        group(call.problem.q_heads / call.problem.key.num_heads) {}

  [[nodiscard]] FOLIO_DEVICE int32_t count() const { return task.row_end - task.row_begin; }
  [[nodiscard]] FOLIO_DEVICE int32_t first_token() const { return task.row_begin / group; }
  [[nodiscard]] FOLIO_DEVICE int32_t last_token() const { return (task.row_end - 1) / group; }
  [[nodiscard]] FOLIO_DEVICE int32_t token_of(int32_t row) const {
    return (task.row_begin + row) / group;
  }
  [[nodiscard]] FOLIO_DEVICE int32_t q_head_of(int32_t row) const {
    return task.head * group + (task.row_begin + row) % group;
  }

  /// What its tokens see together, at least.
  [[nodiscard]] FOLIO_DEVICE Visible seen(const AttentionProblem& problem,
                                          const Batch& batch) const {
    return seen_by_tokens(problem, batch, sequence, first_token(), last_token());
  }
  /// What new token `token` sees; nothing, if it is behind the task's last.
  [[nodiscard]] FOLIO_DEVICE SeenKeys seen_by(const AttentionProblem& problem, const Batch& batch,
                                              int32_t token) const {
    if (token > last_token()) return {};
    return narrow(visible_of(problem, batch, sequence, token));
  }
  /// The same of the keys [first, first + 32), less what a tree hides.
  [[nodiscard]] FOLIO_DEVICE uint32_t seen_in_tile(const AttentionProblem& problem,
                                                   const Batch& batch, int32_t token,
                                                   const SeenKeys& seen, int32_t first) const {
    const uint32_t bits = mla::seen_in_tile(seen, first);
    if (!problem.tree || bits == 0) return bits;
    return bits & static_cast<uint32_t>(tree_in_tile(problem, batch, sequence, token, first));
  }

  /// The bias of key 0 for one query.
  [[nodiscard]] FOLIO_DEVICE const float* bias(const AttentionArgs& args, int32_t token,
                                               int32_t q_head) const {
    const int64_t head = args.bias.extent[0] == 1 ? 0 : q_head;
    const int64_t row = sequence.first_query + token;
    return reinterpret_cast<const float*>(static_cast<const std::byte*>(args.bias.data) +
                                          head * args.bias.stride_bytes[0] +
                                          row * args.bias.stride_bytes[1]);
  }
};

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
    if (call.problem.bias) bias = rows.bias(call.args, token, q_head);
  }
};

/// The logit of visible key `key`, in the log2 domain, from q . k; -inf if a bias hides it.
template <class Thread>
FOLIO_DEVICE float logit(Thread& t, const AttentionProblem& problem, const LogitTerms& terms,
                         int32_t key, float dot) {
  constexpr float largest = skeleton::largest_float;
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
  return skeleton::Log2Units::of(x);
}

}  // namespace folio::cuda::mla
