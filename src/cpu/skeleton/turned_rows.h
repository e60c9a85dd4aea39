// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/turned_rows.h: queries of planes that are rotated or scaled by channels, turned
/// as K is, and outputs turned back: once per row, whatever the engine does between.
///
/// With K as it is stored, K' = H (k / c), q . k = H (q * c) . K'. So engines meet neither H nor c.
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/convert/hadamard.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/skeleton/state.h"
#include "folio/attention/problem.h"
#include "folio/cache/paged_kv_view.h"

namespace folio::inline v1::skeleton {

FOLIO_ALWAYS_INLINE constexpr bool is_turned(const PagedKVView& plane) {
  return plane.hadamard.block != 0 || plane.has_channel_scales;
}
/// Queries come as they are to be seen by q . k, and K is not stored like that.
FOLIO_ALWAYS_INLINE constexpr bool turns_queries(const AttentionProblem& problem) {
  return is_turned(problem.key) && !problem.q_is_turned;
}
/// Where V lies.
FOLIO_ALWAYS_INLINE constexpr const PagedKVView& value_plane(const AttentionProblem& problem) {
  return problem.value_in_key ? problem.key : problem.value;
}

/// Memory for the turned queries of a task, a row of floats, and what the engine is told.
struct TurnedMemory {
  FOLIO_ALWAYS_INLINE TurnedMemory(Parts& parts, const AttentionProblem& problem, int64_t rows) {
    const bool turns_q = turns_queries(problem), turns_value = is_turned(value_plane(problem));
    if (turns_q) {
      query_stride = round_up(row_bytes(DType::f32, problem.key.head_size), 64);
      queries = parts.take<std::byte>(rows * query_stride);
    }
    if (turns_value) row = parts.take<float>(round_up(problem.v_head_size, 16));
    if (turns_q || turns_value) seen = parts.take<AttentionProblem>(1);
  }
  /// What the engine is to do: queries that are turned, and outputs that are turned back, are
  /// floats.
  FOLIO_ALWAYS_INLINE const AttentionProblem& seen_of(const AttentionProblem& problem) const {
    if (seen == nullptr) return problem;
    *seen = problem;
    if (turns_queries(problem)) seen->q_dtype = DType::f32;
    if (is_turned(value_plane(problem))) seen->out_dtype = DType::f32;
    return *seen;
  }

  std::byte* queries = nullptr;  // null: they stay where they are
  int64_t query_stride = 0;
  float* row = nullptr;
  AttentionProblem* seen = nullptr;
};

template <class I>
struct TurnedRows {
  /// One row of queries of KV head `head`, of type `dtype`, to floats.
  static void turn_query(const PagedKVView& key, int64_t head, DType dtype, const std::byte* from,
                         float* to) {
    const int n = key.head_size;
    Rows<I>::widen(dtype, &from, 1, to, n, n);
    if (key.channel_scales != nullptr) multiply(to, channels(key, head), n);
    if (key.hadamard.block != 0) HadamardRows<I>::turn(to, n, key.hadamard);
  }
  /// The first `n` columns of an output of KV head `head`, as floats, to `dtype`; no negative zero,
  /// whatever signs have turned it.
  static void write_output(const PagedKVView& value, int64_t head, float* row, int n, DType dtype,
                           std::byte* to) {
    if (value.hadamard.block != 0 && I::mutant != Mutant::outputs_not_turned_back)
      HadamardRows<I>::turn_back(row, n, value.hadamard);
    if (value.channel_scales != nullptr) multiply(row, channels(value, head), n);
    for (int i = 0; i < n; ++i) row[i] += 0.0f;
    Rows<I>::narrow(dtype, row, to, n);
  }

 private:
  FOLIO_ALWAYS_INLINE static const float* channels(const PagedKVView& plane, int64_t head) {
    return plane.channel_scales +
           (I::mutant == Mutant::channels_of_first_head ? 0 : head * plane.head_size);
  }
  static void multiply(float* row, const float* factors, int n) {
    for (int i = 0; i < n; ++i)
      row[i] = I::mutant == Mutant::channels_divided ? row[i] / factors[i] : row[i] * factors[i];
  }
};

}  // namespace folio::inline v1::skeleton
