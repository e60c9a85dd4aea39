// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/kernels.cpp: from a problem to an instance of the prefill kernel.
#include "cuda/prefill/kernels.h"

#include "cuda/prefill/config.h"

namespace folio::cuda {
namespace {

constexpr Instances instances[] = {{64,
                                    {{"prefill_bf16_64", "prefill_bf16_64_general"},
                                     {"prefill_f16_64", "prefill_f16_64_general"}}},
                                   {128,
                                    {{"prefill_bf16_128", "prefill_bf16_128_general"},
                                     {"prefill_f16_128", "prefill_f16_128_general"}}},
                                   {256,
                                    {{"prefill_bf16_256", "prefill_bf16_256_general"},
                                     {"prefill_f16_256", "prefill_f16_256_general"}}}};

/// What tasks of a head size are made of.
struct Shape {
  int32_t head_size;
  int32_t rows;
  int32_t blocks_per_processor[2];  // [general]
};

template <int HeadSize>
constexpr Shape make_shape() {
  using Plain = prefill::Config<HeadSize, DType::bf16, false>;
  using General = prefill::Config<HeadSize, DType::bf16, true>;
  static_assert(Plain::rows == General::rows);
  return {HeadSize, Plain::rows, {Plain::blocks_per_processor, General::blocks_per_processor}};
}

constexpr Shape shapes[] = {make_shape<64>(), make_shape<128>(), make_shape<256>()};

const Shape& shape_of(const AttentionProblem& problem) {
  return shapes[row_of(shapes, problem.key.head_size)];
}

const char* instance(const AttentionProblem& problem) noexcept {
  return name_of(instances, problem);
}

/// Spans are what tasks may be divided at: only where bits may depend on that.
DeviceGeometry geometry(const AttentionProblem& problem) noexcept {
  const bool divides = problem.reproducible == Reproducible::per_plan;
  return {.rows = shape_of(problem).rows,
          .span_keys = divides ? prefill::span_keys : prefill::whole_span};
}

int32_t blocks_per_processor(const AttentionProblem& problem) noexcept {
  return shape_of(problem).blocks_per_processor[wants_general(problem) ? 1 : 0];
}

}  // namespace

const char* refuse_prefill(const AttentionProblem& problem) noexcept {
  return refuse_planes(problem);
}

const DeviceKernel prefill_kernel = {.rows = Rows::many,
                                     .instance = instance,
                                     .geometry = geometry,
                                     .blocks_per_processor = blocks_per_processor};

}  // namespace folio::cuda
