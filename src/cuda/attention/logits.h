// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/logits.h: a product of q and k becomes a logit in units of log2, with all
/// that a problem adds to it. Of instances that know every option.
///
///   x = softcap(scale q . k) - slope |distance| + bias, then no further from 0 than floats go
///
/// What is finite neither hides a key nor makes a NaN, however far from 0: a bias of -inf alone
/// hides. NaN stays NaN.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda/attention/output_row.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "kernel/units.h"

namespace folio::cuda {

/// The bias of a query, row `query_row` of q, for key 0; one float a key.
FOLIO_DEVICE const float* bias_row(const AttentionArgs& args, int64_t query_row, int32_t q_head) {
  const ConstTensor<3>& bias = args.bias;
  return reinterpret_cast<const float*>(static_cast<const std::byte*>(bias.data) +
                                        (bias.extent[0] == 1 ? 0 : q_head) * bias.stride_bytes[0] +
                                        query_row * bias.stride_bytes[1]);
}

/// What is added to the logits of a row, from some key on. The position of a query minus that of a
/// key, where it is beyond 2^24, is rounded as any float is.
struct LogitTerms {
  float slope = 0.0f;           ///< ALiBi
  float distance = 0.0f;        ///< position of the query minus that of the first key
  const float* bias = nullptr;  ///< of the first key
};

/// The same, as a row has it for all of its keys.
struct RowTerms {
  float slope = 0.0f;
  int64_t distance = 0;         ///< position of the query minus that of key 0
  const float* bias = nullptr;  ///< of key 0

  /// `row_distance`: what `distance` is. What the problem lacks is not looked at.
  template <class Thread>
  FOLIO_DEVICE static RowTerms of(Thread& t, const AttendCall& call, int64_t query_row,
                                  int32_t q_head, int64_t row_distance) {
    RowTerms terms;
    if (call.problem.alibi) {
      terms.slope = t.read(call.args.alibi_slopes + q_head);
      terms.distance = row_distance;
    }
    if (call.problem.bias) terms.bias = bias_row(call.args, query_row, q_head);
    return terms;
  }
  [[nodiscard]] FOLIO_DEVICE LogitTerms from(const AttentionProblem& problem, int32_t key) const {
    LogitTerms terms;
    if (problem.alibi) {
      terms.slope = slope;
      terms.distance = static_cast<float>(distance - key);
    }
    if (problem.bias) terms.bias = bias + key;
    return terms;
  }
};

/// 1 / softcap, no further from 0 than floats go, so that 0 stays 0; 0 where there is none.
FOLIO_DEVICE float inverse_softcap(const AttentionProblem& problem) {
  return problem.softcap != 0.0f ? fminf(1.0f / problem.softcap, skeleton::largest_float) : 0.0f;
}

/// The logit of the key `key` behind the first one of `terms()`, which the row sees; -inf where its
/// bias hides it. `terms` is asked only where something is to be added: where registers are few it
/// reads them from shared memory.
template <class Thread, class Terms>
FOLIO_DEVICE float logit(Thread& t, const AttentionProblem& problem, float of_softcap, Terms terms,
                         int key, float product) {
  constexpr float largest = skeleton::largest_float;
  float x = product * problem.scale;
  if (problem.softcap != 0.0f) x = problem.softcap * t.tanh(x * of_softcap);
  if (problem.alibi || problem.bias) {
    const LogitTerms row = terms();
    if (problem.alibi) x = t.fma(-row.slope, fabsf(row.distance - static_cast<float>(key)), x);
    if (problem.bias) {
      const float bias = t.read(row.bias + key);
      if (bias == minus_infinity()) return bias;
      x += bias;
    }
  }
  return log2_units(fabsf(x) > largest ? copysignf(largest, x) : x);
}

}  // namespace folio::cuda
