// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/kernels.cpp: the baseline side of the AVX-512 kernels: what they accept and how
/// they want work cut.
#include "cpu/avx512/kernels.h"

#include "cpu/avx512/layout.h"
#include "cpu/skeleton/task_runner.h"

namespace folio::inline v1::avx512 {
namespace {

constexpr int32_t head_size_max = 576;

bool is_head_size(int32_t n) { return n >= 8 && n <= head_size_max && n % 8 == 0; }

/// An engine as far as sizes go; it is never run.
template <int PerWord>
struct Sizes : Layout<PerWord> {
  struct Math {};
};

template <int PerWord>
KernelGeometry geometry(const AttentionProblem& problem) {
  using Runner = skeleton::TaskRunner<Sizes<PerWord>>;
  KernelGeometry g;
  g.rows = Layout<PerWord>::state_rows(problem);
  g.span_keys = skeleton::span_keys;
  g.scratch_bytes = Runner::scratch_bytes(problem);
  g.partial_bytes = Runner::partial_bytes(problem);
  g.row_granule = lanes;
  return g;
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
  return geometry<1>(problem);
}
KernelGeometry geometry_bf16(const AttentionProblem& problem) noexcept {
  return geometry<2>(problem);
}

}  // namespace folio::inline v1::avx512
