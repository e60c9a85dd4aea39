// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/logits.h: from products of q and K to logits in units of ln 2, with whatever
/// the problem adds to them.
#pragma once

#include <cstdint>

#include "cuda/plan/device_plan.h"
#include "cuda/prefill/config.h"
#include "cuda/prefill/stage.h"
#include "cuda/prefill/task.h"

namespace folio::cuda::prefill {

inline constexpr float largest_float = 3.40282347e38f;
inline constexpr float log2_e = 1.44269504f;
inline constexpr float ln_2 = 0.693147181f;

/// Logits beyond 2^126 would leave the range of float32 in units of ln 2. They lie so far from one
/// another that only their order matters: there they grow by a half.
struct Log2Units {
  static constexpr float turn = 0x1p126f;  // of the logit
  static constexpr float shift = (log2_e - 0.5f) * turn;
  static constexpr float turned = log2_e * turn;
  FOLIO_DEVICE static float of(float logit) {
    const float size = __builtin_fabsf(logit);
    return size > turn ? __builtin_copysignf(size * 0.5f + shift, logit) : logit * log2_e;
  }
  FOLIO_DEVICE static float natural(float x) {
    const float size = __builtin_fabsf(x);
    if (!(size > turned)) return x * ln_2;
    const float wide = (size - shift) * 2.0f;
    return __builtin_copysignf(wide < largest_float ? wide : largest_float, x);
  }
};

FOLIO_DEVICE float at_most(float a, float b) { return __builtin_fminf(a, b); }
FOLIO_DEVICE float at_least(float a, float b) { return __builtin_fmaxf(a, b); }

/// What is added to the products of one row.
struct RowTerms {
  float to_cap = 0;             // scale / softcap, finite
  float slope = 0;              // ALiBi
  int32_t distance = 0;         // position of the query minus that of key 0
  const float* bias = nullptr;  // of key 0
};

template <class Thread>
FOLIO_DEVICE RowTerms terms_of(Thread& t, const AttendCall& call, const TaskRecord& task,
                               const Query& query) {
  RowTerms terms;
  if (call.problem.softcap != 0.0f)
    terms.to_cap =
        at_most(largest_float, at_least(-largest_float, call.problem.scale / call.problem.softcap));
  if (call.problem.alibi) {
    terms.slope = t.read(call.args.alibi_slopes + query.q_head);
    terms.distance = static_cast<int32_t>(task.distance + query.token);
  }
  if (call.problem.bias) terms.bias = bias_row(call, task, query);
  return terms;
}

/// The logit of key `key`, which the row sees, in units of ln 2: finite, but for a bias of -inf.
template <class Thread>
FOLIO_DEVICE float logit_of(Thread& t, const AttentionProblem& problem, const RowTerms& row,
                            float product, int32_t key) {
  float x = problem.softcap != 0.0f ? problem.softcap * t.tanh(product * row.to_cap)
                                    : product * problem.scale;
  if (problem.alibi) {
    const int32_t away = row.distance - key;
    x = t.fma(-row.slope, static_cast<float>(away < 0 ? -away : away), x);
  }
  float lowest = -largest_float;
  if (problem.bias) {
    const float bias = t.read(row.bias + key);
    x += bias;
    lowest = at_most(bias, lowest);
  }
  return Log2Units::of(at_most(largest_float, at_least(lowest, x)));
}

}  // namespace folio::cuda::prefill
