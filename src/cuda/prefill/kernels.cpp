// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/kernels.cpp: from a problem to an instance of the prefill kernel.
#include "cuda/prefill/kernels.h"

#include "cuda/prefill/config.h"

namespace folio::cuda {
namespace {

/// A head size: what its tasks are made of, and its instances.
struct Instance {
  int32_t head_size;
  int32_t rows;
  int32_t blocks_per_processor[2];  // [general]
  const char* names[2][2];          // [f16][general]
};

template <int HeadSize>
constexpr Instance instance_of(const char* bf16, const char* bf16_general, const char* f16,
                               const char* f16_general) {
  using Plain = prefill::Config<HeadSize, DType::bf16, false>;
  using General = prefill::Config<HeadSize, DType::bf16, true>;
  static_assert(Plain::rows == General::rows);
  return {HeadSize,
          Plain::rows,
          {Plain::blocks_per_processor, General::blocks_per_processor},
          {{bf16, bf16_general}, {f16, f16_general}}};
}

constexpr Instance instances[] = {instance_of<64>("prefill_bf16_64", "prefill_bf16_64_general",
                                                  "prefill_f16_64", "prefill_f16_64_general"),
                                  instance_of<128>("prefill_bf16_128", "prefill_bf16_128_general",
                                                   "prefill_f16_128", "prefill_f16_128_general"),
                                  instance_of<256>("prefill_bf16_256", "prefill_bf16_256_general",
                                                   "prefill_f16_256", "prefill_f16_256_general")};

const Instance* find(int32_t head_size) {
  for (const Instance& instance : instances)
    if (instance.head_size == head_size) return &instance;
  return nullptr;
}

bool is_general(const AttentionProblem& problem) {
  return problem.softcap != 0.0f || problem.alibi || problem.bias || problem.intervals ||
         problem.tree || problem.mask.sink_tokens != 0;
}

const char* instance(const AttentionProblem& problem) noexcept {
  return find(problem.key.head_size)
      ->names[problem.key.dtype == DType::f16 ? 1 : 0][is_general(problem) ? 1 : 0];
}

/// Spans are what tasks may be divided at: only where bits may depend on that.
DeviceGeometry geometry(const AttentionProblem& problem) noexcept {
  const bool divides = problem.reproducible == Reproducible::per_plan;
  return {.rows = find(problem.key.head_size)->rows,
          .span_keys = divides ? prefill::span_keys : prefill::whole_span};
}

int32_t blocks_per_processor(const AttentionProblem& problem) noexcept {
  return find(problem.key.head_size)->blocks_per_processor[is_general(problem) ? 1 : 0];
}

}  // namespace

const char* refuse_prefill(const AttentionProblem& problem) noexcept {
  if (find(problem.key.head_size) == nullptr)
    return "key.head_size: expected 64, 128 or 256 (prefill on a device)";
  if (problem.v_head_size != problem.key.head_size)
    return "v_head_size: expected that of the keys (prefill on a device)";
  if (problem.q_dtype != problem.key.dtype || problem.value.dtype != problem.key.dtype)
    return "q_dtype, key.dtype, value.dtype: expected the same type (prefill on a device)";
  return nullptr;
}

const DeviceKernel prefill_kernel = {.rows = Rows::many,
                                     .instance = instance,
                                     .geometry = geometry,
                                     .blocks_per_processor = blocks_per_processor};

}  // namespace folio::cuda
