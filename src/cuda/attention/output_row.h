// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/output_row.h: a folded row becomes output: the sink logit joins, the sum
/// divides, o is rounded once to the type of the call, lse is written where wanted.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/plan/device_plan.h"
#include "cuda/primitives/device.h"
#include "folio/core/dtype.h"
#include "kernel/units.h"

namespace folio::cuda {

inline constexpr float log2_e = skeleton::Log2Units::log2_e;

/// skeleton::Log2Units::of, without a division.
FOLIO_DEVICE float log2_units(float logit) {
  using Units = skeleton::Log2Units;
  const float size = fabsf(logit);
  return size > Units::turn ? copysignf(size * 0.5f + Units::shift, logit) : logit * log2_e;
}

/// q row and q head that row `row` of a task is.
struct OutputRow {
  int64_t token = 0;
  int32_t head = 0;
};

namespace detail {

struct alignas(8) TwoWords {
  uint32_t x[2];
};

/// Four values at `to`, 8 or 16 bytes aligned.
template <class Thread>
FOLIO_DEVICE void store_four(Thread& t, std::byte* to, DType dtype, const FourFloats& v) {
  if (dtype == DType::f32) {
    t.store(reinterpret_cast<FourFloats*>(to), v);
  } else if (dtype == DType::bf16) {
    t.store(reinterpret_cast<TwoWords*>(to),
            TwoWords{{t.template pack<DType::bf16>(v.x[0], v.x[1]),
                      t.template pack<DType::bf16>(v.x[2], v.x[3])}});
  } else {
    t.store(reinterpret_cast<TwoWords*>(to),
            TwoWords{{t.template pack<DType::f16>(v.x[0], v.x[1]),
                      t.template pack<DType::f16>(v.x[2], v.x[3])}});
  }
}

}  // namespace detail

/// Writes this thread's columns, column + g * stride .. + 3, of a row whose keys are all in
/// `state`; the thread of column 0 writes its lse. Rows of out are multiples of 16 bytes apart.
template <int Columns, class Thread>
FOLIO_DEVICE void write_row(Thread& t, const AttendCall& call, const OutputRow& place, int column,
                            int stride, FoldState<Columns>& state) {
  const AttentionArgs& args = call.args;
  float scale = 1.0f, lse = minus_infinity();  // lse of a row without keys: its sink logit as it is
  const bool has_keys = state.max != minus_infinity();
  if (call.problem.sink_logits) {
    lse = t.read(static_cast<const float*>(args.sink_logits) + place.head);
    const float sink = log2_units(lse);
    if (sink != minus_infinity()) {
      const float top = fmaxf(state.max, sink);
      scale = t.exp2(state.max - top);
      state.sum = state.sum * scale + t.exp2(sink - top);
      state.max = top;
    }
  }
  if (has_keys) lse = skeleton::Log2Units::natural(state.max + t.log2(state.sum));
  const float inverse = state.sum != 0.0f ? scale / state.sum : 0.0f;
  const DType dtype = call.problem.out_dtype;
  const int32_t element = dtype == DType::f32 ? 4 : 2;
  std::byte* const row = static_cast<std::byte*>(args.out.data) +
                         place.token * args.out.stride_bytes[0] +
                         place.head * args.out.stride_bytes[1] + column * element;
  FOLIO_UNROLL
  for (int g = 0; g < Columns / 4; ++g) {
    FourFloats four;
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) four.x[e] = state.out[4 * g + e] * inverse;
    detail::store_four(t, row + g * stride * element, dtype, four);
  }
  if (args.lse != nullptr && column == 0)
    t.store(args.lse + place.token * call.problem.q_heads + place.head, lse);
}

}  // namespace folio::cuda
