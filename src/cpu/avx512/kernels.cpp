// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/kernels.cpp: the baseline side of the AVX-512 kernels: what they accept and how
/// they want work cut.
#include "cpu/avx512/kernels.h"

#include "cpu/avx512/layout.h"
#include "cpu/skeleton/task_runner.h"

namespace folio::inline v1::avx512 {
namespace {

constexpr int32_t head_size_max = 576;

bool is_activation(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

bool is_byte(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2;
}

bool is_head_size(int32_t n) { return n >= 8 && n <= head_size_max && n % 8 == 0; }

/// What both refuse.
const char* refuse_both(const AttentionProblem& problem) {
  if (problem.key_tail.dtype != DType::invalid)
    return "key_tail: further key columns with a dtype of their own have no kernel yet";
  if (problem.selection) return "selection: attention over selected keys has no kernel yet";
  if (!is_activation(problem.out_dtype)) return "out_dtype: expected f32, bf16 or f16";
  if (!is_head_size(problem.key.head_size))
    return "key: expected a head_size that is a multiple of 8, from 8 to 576";
  if (!is_head_size(problem.v_head_size))
    return "v_head_size: expected a multiple of 8, from 8 to 576";
  return nullptr;
}

/// An engine as far as sizes go; it is never run.
template <int PerWord>
struct Sizes : Layout<PerWord> {
  struct Math {};
};

template <int PerWord>
KernelGeometry geometry(const AttentionProblem& problem) {
  using Runner = skeleton::TaskRunner<Sizes<PerWord>>;
  KernelGeometry g;
  g.rows = Layout<PerWord>::places(problem);
  g.span_keys = skeleton::span_keys;
  g.scratch_bytes = Runner::scratch_bytes(problem);
  g.partial_bytes = Runner::partial_bytes(problem);
  g.row_granule = lanes;
  return g;
}

}  // namespace

const char* refuse_f32(const AttentionProblem& problem) noexcept {
  const auto is_stored = [](DType dtype) { return is_activation(dtype) || is_byte(dtype); };
  if (!is_activation(problem.q_dtype)) return "q_dtype: expected f32, bf16 or f16";
  if (!is_stored(problem.key.dtype))
    return "key: expected a dtype of f32, bf16, f16, f8_e4m3, f8_e5m2 or i8";
  if (!problem.value_in_key && !is_stored(problem.value.dtype))
    return "value: expected a dtype of f32, bf16, f16, f8_e4m3, f8_e5m2 or i8";
  return refuse_both(problem);
}

const char* refuse_bf16(const AttentionProblem& problem) noexcept {
  const auto is_stored = [](DType dtype) { return dtype == DType::bf16 || is_byte(dtype); };
  if (problem.q_dtype != DType::bf16) return "q_dtype: expected bf16";
  if (!is_stored(problem.key.dtype)) return "key: expected a dtype of bf16, f8_e4m3, f8_e5m2 or i8";
  if (!problem.value_in_key && !is_stored(problem.value.dtype))
    return "value: expected a dtype of bf16, f8_e4m3, f8_e5m2 or i8";
  return refuse_both(problem);
}

KernelGeometry geometry_f32(const AttentionProblem& problem) noexcept {
  return geometry<1>(problem);
}
KernelGeometry geometry_bf16(const AttentionProblem& problem) noexcept {
  return geometry<2>(problem);
}

}  // namespace folio::inline v1::avx512
