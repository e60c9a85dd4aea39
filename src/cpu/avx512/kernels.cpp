// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/kernels.cpp: the baseline side of the AVX-512 kernels: what they accept and how
/// they want work cut.
#include "cpu/avx512/kernels.h"

#include "cpu/avx512/integer_layout.h"
#include "cpu/avx512/layout.h"
#include "cpu/skeleton/task_memory.h"

namespace folio::inline v1::avx512 {
namespace {

constexpr int32_t head_size_max = 576;

bool is_head_size(int32_t n) { return n >= 8 && n <= head_size_max && n % 8 == 0; }

bool is_whole_chunks(int32_t n) {
  return n > 0 && n <= IntegerLayout::head_size_max && n % IntegerLayout::chunk == 0;
}

}  // namespace

const char* refuse(const AttentionProblem& problem) noexcept {
  if (!is_head_size(problem.key.head_size))
    return "key: expected a head_size that is a multiple of 8, from 8 to 576";
  if (!is_head_size(problem.v_head_size))
    return "v_head_size: expected a multiple of 8, from 8 to 576";
  return nullptr;
}

KernelGeometry geometry_f32(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<Layout<1>>(problem, lanes, Layout<1>::few_rows);
}
KernelGeometry geometry_bf16(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<Layout<2>>(problem, lanes, Layout<2>::few_rows);
}

const char* refuse_int8(const AttentionProblem& problem) noexcept {
  if (!problem.int8_operands)
    return "int8_operands: the kernel rounds q and weights to 8 bits, which the problem does not "
           "allow";
  if (!is_whole_chunks(problem.key.head_size))
    return "key: expected a head_size that is a multiple of 64, up to 256";
  if (!is_whole_chunks(problem.v_head_size))
    return "v_head_size: expected a multiple of 64, up to 256";
  return nullptr;
}

KernelGeometry geometry_int8(const AttentionProblem& problem) noexcept {
  return skeleton::geometry<IntegerLayout>(problem, IntegerLayout::block_rows);
}

}  // namespace folio::inline v1::avx512
