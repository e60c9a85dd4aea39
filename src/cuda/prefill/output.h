// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/output.h: what becomes of a task's rows: the output, or a partial that the last
/// task of a split folds with the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/attention/fold.h"
#include "cuda/prefill/attend_tile.h"
#include "cuda/prefill/config.h"
#include "cuda/prefill/logits.h"
#include "cuda/prefill/task.h"

namespace folio::cuda::prefill {

/// A thread's columns of a whole row: column + 16 g .. + 3 for g = 0, 1, ..
template <class Config>
struct OutputRow : FoldState<Config::head_size / 4> {
  static constexpr int groups = Config::head_size / 16;

  template <class Thread>
  FOLIO_DEVICE static int column(const Thread& t) {
    return (t.thread() & 1) * 8 + (t.thread() & 2) * 2;
  }

  /// Row `r` of the thread's two. C fragments give a thread two columns of every eight; neighbours
  /// exchange theirs, so that each has four together.
  template <class Thread>
  FOLIO_DEVICE void take(Thread& t, const RowState<Config>& state, int r) {
    this->max = state.max[r];
    this->sum = state.sum[r];
    this->sum += t.shuffle_xor(this->sum, 1);
    this->sum += t.shuffle_xor(this->sum, 2);
    const bool is_odd = (t.thread() & 1) != 0;
    FOLIO_UNROLL
    for (int g = 0; g < groups; ++g) {
      FOLIO_UNROLL
      for (int e = 0; e < 2; ++e) {
        const float even_block = state.out[2 * g][2 * r + e];
        const float odd_block = state.out[2 * g + 1][2 * r + e];
        const float got = t.shuffle_xor(is_odd ? even_block : odd_block, 1);
        this->out[4 * g + e] = is_odd ? got : even_block;
        this->out[4 * g + 2 + e] = is_odd ? odd_block : got;
      }
    }
  }

  FOLIO_DEVICE FourFloats group(int g) const {
    return {{this->out[4 * g], this->out[4 * g + 1], this->out[4 * g + 2], this->out[4 * g + 3]}};
  }
};

/// Row `row` of partial `partial`, [partial][rows][head_size].
template <class Config>
FOLIO_DEVICE int64_t partial_row(int32_t partial, int32_t row) {
  return int64_t{partial} * Config::rows + row;
}

template <class Config, class Thread>
FOLIO_DEVICE void store_partial(Thread& t, const AttendCall& call, int64_t row,
                                const OutputRow<Config>& result) {
  const int column = OutputRow<Config>::column(t);
  float* const to = call.partials + row * Config::head_size + column;
  FOLIO_UNROLL
  for (int g = 0; g < OutputRow<Config>::groups; ++g)
    t.store(reinterpret_cast<FourFloats*>(to + 16 * g), result.group(g));
  if (column == 0) t.store(call.partial_rows + row, MaxSum{result.max, result.sum});
}

/// Row `row` of all partials of a split, folded in ascending order.
template <class Config, class Thread>
FOLIO_DEVICE void fold_partials(Thread& t, const AttendCall& call, const DeviceSplit& split,
                                int32_t row, OutputRow<Config>& result) {
  result.clear();
  for (int32_t i = 0; i < split.partials; ++i) {
    const int64_t at = partial_row<Config>(split.first_partial + i, row);
    const float* const from = call.partials + at * Config::head_size + OutputRow<Config>::column(t);
    result.fold(t, t.load(call.partial_rows + at),
                [&](int g) { return t.load(reinterpret_cast<const FourFloats*>(from + 16 * g)); });
  }
}

/// What ends a row: the factor of its sums of values, and its natural lse.
struct RowEnd {
  float factor;
  float lse;
};

/// The sink logit joins, once.
template <class Thread>
FOLIO_DEVICE RowEnd end_of(Thread& t, const AttendCall& call, float max, float sum,
                           int32_t q_head) {
  float sink_logit = minus_infinity();
  if (call.problem.sink_logits) sink_logit = t.read(call.args.sink_logits + q_head);
  if (max == minus_infinity()) return {0.0f, sink_logit};
  if (sink_logit == minus_infinity()) return {1.0f / sum, Log2Units::natural(max + t.log2(sum))};
  const float sink = Log2Units::of(sink_logit);
  const float top = at_least(max, sink);
  const float keep = t.exp2(max - top);
  const float whole = t.fma(sum, keep, t.exp2(sink - top));
  return {keep / whole, Log2Units::natural(top + t.log2(whole))};
}

/// Rounds once to the type of the output. Rows of it begin at multiples of 16 bytes.
template <class Config, class Thread>
FOLIO_DEVICE void write_row(Thread& t, const AttendCall& call, const TaskRecord& task,
                            const Query& query, const OutputRow<Config>& result) {
  struct alignas(8) TwoWords {
    uint32_t x[2];
  };
  const RowEnd end = end_of(t, call, result.max, result.sum, query.q_head);
  const int64_t token = task.first_query + query.token;
  const AnyTensor<3>& out = call.args.out;
  const DType dtype = call.problem.out_dtype;
  const int column = OutputRow<Config>::column(t);
  std::byte* const row = static_cast<std::byte*>(out.data) + token * out.stride_bytes[0] +
                         query.q_head * out.stride_bytes[1];
  FOLIO_UNROLL
  for (int g = 0; g < OutputRow<Config>::groups; ++g) {
    FourFloats x = result.group(g);
    FOLIO_UNROLL
    for (int e = 0; e < 4; ++e) x.x[e] = x.x[e] * end.factor + 0.0f;  // + 0: no negative zero
    const int at = column + 16 * g;
    if (dtype == DType::f32)
      t.store(reinterpret_cast<FourFloats*>(row + 4 * at), x);
    else if (dtype == DType::bf16)
      t.store(reinterpret_cast<TwoWords*>(row + 2 * at),
              TwoWords{{t.template pack<DType::bf16>(x.x[0], x.x[1]),
                        t.template pack<DType::bf16>(x.x[2], x.x[3])}});
    else
      t.store(reinterpret_cast<TwoWords*>(row + 2 * at),
              TwoWords{{t.template pack<DType::f16>(x.x[0], x.x[1]),
                        t.template pack<DType::f16>(x.x[2], x.x[3])}});
  }
  if (call.args.lse != nullptr && column == 0)
    t.store(call.args.lse + token * call.problem.q_heads + query.q_head, end.lse);
}

}  // namespace folio::cuda::prefill
