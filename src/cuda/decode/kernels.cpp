// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/kernels.cpp: from a problem to an instance of the decode kernel.
#include "cuda/decode/kernels.h"

#include "cuda/attention/planes.h"
#include "cuda/decode/config.h"

namespace folio::cuda {
namespace {

constexpr Instances instances[] = {
    {64,
     {{"decode_bf16_64", "decode_bf16_64_general"}, {"decode_f16_64", "decode_f16_64_general"}}},
    {128,
     {{"decode_bf16_128", "decode_bf16_128_general"},
      {"decode_f16_128", "decode_f16_128_general"}}},
    {256,
     {{"decode_bf16_256", "decode_bf16_256_general"},
      {"decode_f16_256", "decode_f16_256_general"}}}};

constexpr const char* tiles_names[][2] = {{"decode_tiles_bf16_64", "decode_tiles_f16_64"},
                                          {"decode_tiles_bf16_128", "decode_tiles_f16_128"},
                                          {"decode_tiles_bf16_256", "decode_tiles_f16_256"}};

const char* instance(const AttentionProblem& problem) noexcept {
  return name_of(instances, problem);
}

const char* tiles_instance(const AttentionProblem& problem) noexcept {
  return tiles_names[row_of(instances, problem.key.head_size)]
                    [problem.key.dtype == DType::f16 ? 1 : 0];
}

DeviceGeometry geometry(const AttentionProblem& problem) noexcept {
  return {.rows = decode_rows,
          .span_keys = decode_span_keys(problem.reproducible != Reproducible::per_plan)};
}

int32_t blocks_per_processor(const AttentionProblem& problem) noexcept {
  return problem.key.head_size == 256 ? decode_blocks_per_processor<256>
                                      : decode_blocks_per_processor<128>;
}

}  // namespace

const char* refuse_decode(const AttentionProblem& problem) noexcept {
  return refuse_planes(problem);
}

const DeviceKernel decode_kernel = {.rows = Rows::any,
                                    .instance = instance,
                                    .geometry = geometry,
                                    .blocks_per_processor = blocks_per_processor};

const char* refuse_decode_tiles(const AttentionProblem& problem) noexcept {
  const int32_t page = problem.key.page_size;
  if (page % keys_of_box != 0 && keys_of_box % page != 0)
    return "page_size: expected a divisor or a multiple of 16 (decode by tensor maps)";
  return refuse_decode(problem);
}

const DeviceKernel decode_tiles_kernel = {.rows = Rows::any,
                                          .instance = tiles_instance,
                                          .geometry = geometry,
                                          .blocks_per_processor = blocks_per_processor,
                                          .takes_tensor_maps = true};

}  // namespace folio::cuda
