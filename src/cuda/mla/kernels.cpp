// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/kernels.cpp: from a problem to an instance of the MLA decode kernels.
#include "cuda/mla/kernels.h"

#include "cuda/mla/instances.h"

namespace folio::cuda {
namespace {

/// By type (bf16, f16) and whether rare options are wanted.
struct Instance {
  const char* name;
  int32_t rows;
};

template <template <DType, bool> class Kernel>
constexpr int32_t rows_of(bool is_general) {
  return is_general ? Kernel<DType::bf16, true>::rows : Kernel<DType::bf16, false>::rows;
}

constexpr Instance large[2][2] = {{{"mla_bf16_576", rows_of<mla::Latent>(false)},
                                   {"mla_bf16_576_general", rows_of<mla::Latent>(true)}},
                                  {{"mla_f16_576", rows_of<mla::Latent>(false)},
                                   {"mla_f16_576_general", rows_of<mla::Latent>(true)}}};
constexpr Instance small[2][2] = {{{"mla_bf16_576_small", rows_of<mla::SmallLatent>(false)},
                                   {"mla_bf16_576_small_general", rows_of<mla::SmallLatent>(true)}},
                                  {{"mla_f16_576_small", rows_of<mla::SmallLatent>(false)},
                                   {"mla_f16_576_small_general", rows_of<mla::SmallLatent>(true)}}};

bool is_general(const AttentionProblem& problem) {
  return problem.intervals || problem.tree || problem.softcap != 0.0f || problem.alibi ||
         problem.bias;
}

const Instance& find(const Instance (&instances)[2][2], const AttentionProblem& problem) {
  return instances[problem.key.dtype == DType::f16 ? 1 : 0][is_general(problem) ? 1 : 0];
}

DeviceGeometry geometry_of(const Instance& instance, const AttentionProblem& problem) {
  return {.rows = instance.rows, .span_keys = mla::span_keys_of(problem.reproducible)};
}

int32_t one_block(const AttentionProblem&) noexcept { return 1; }

}  // namespace

const char* refuse_mla(const AttentionProblem& problem) noexcept {
  if (problem.key.head_size != 576 || problem.v_head_size != 512)
    return "key: expected a head_size of 576 with a v_head_size of 512 (MLA on a device)";
  if (problem.q_dtype != problem.key.dtype)
    return "q_dtype: expected that of the keys (MLA on a device)";
  return nullptr;
}

const DeviceKernel mla_kernel = {
    .rows = Rows::any,
    .instance = [](const AttentionProblem& problem) noexcept { return find(large, problem).name; },
    .geometry =
        [](const AttentionProblem& problem) noexcept {
          return geometry_of(find(large, problem), problem);
        },
    .blocks_per_processor = one_block};

const DeviceKernel mla_small_kernel = {
    .rows = Rows::any,
    .instance = [](const AttentionProblem& problem) noexcept { return find(small, problem).name; },
    .geometry =
        [](const AttentionProblem& problem) noexcept {
          return geometry_of(find(small, problem), problem);
        },
    .blocks_per_processor = one_block};

}  // namespace folio::cuda
