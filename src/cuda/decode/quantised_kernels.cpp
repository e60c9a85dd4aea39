// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_kernels.cpp: from a problem to an instance of the decode kernel over
/// 8-bit K and V.
#include "cuda/decode/quantised_kernels.h"

#include <iterator>

#include "cuda/attention/instances.h"
#include "cuda/decode/quantised_config.h"

namespace folio::cuda {
namespace {

struct QuantisedInstances {
  int32_t head_size;
  const char* names[3][4];  // [e4m3, e5m2, i8][Options]
};

constexpr QuantisedInstances instances[] = {
    {64,
     {{"decode_e4m3_64", "decode_e4m3_64_general", "decode_e4m3_64_granules",
       "decode_e4m3_64_fine"},
      {"decode_e5m2_64", "decode_e5m2_64_general", "decode_e5m2_64_granules",
       "decode_e5m2_64_fine"},
      {"decode_i8_64", "decode_i8_64_general", "decode_i8_64_granules", "decode_i8_64_fine"}}},
    {128,
     {{"decode_e4m3_128", "decode_e4m3_128_general", "decode_e4m3_128_granules",
       "decode_e4m3_128_fine"},
      {"decode_e5m2_128", "decode_e5m2_128_general", "decode_e5m2_128_granules",
       "decode_e5m2_128_fine"},
      {"decode_i8_128", "decode_i8_128_general", "decode_i8_128_granules", "decode_i8_128_fine"}}},
    {256,
     {{"decode_e4m3_256", "decode_e4m3_256_general", nullptr, "decode_e4m3_256_fine"},
      {"decode_e5m2_256", "decode_e5m2_256_general", nullptr, "decode_e5m2_256_fine"},
      {"decode_i8_256", "decode_i8_256_general", nullptr, "decode_i8_256_fine"}}}};

/// Scales may vary along a head. Whether they do is for the strides of each call to say.
bool may_vary(const PagedKVView& view) {
  return view.scales.dtype != DType::invalid && view.scales.granularity < view.head_size;
}

/// A fragment of K holds 16 elements of a key: where they share a scale it is staged ahead.
bool has_fine_granules(const PagedKVView& view) {
  return may_vary(view) && (view.scales.granularity % 16 != 0 || view.head_size == 256);
}

Options options_of(const AttentionProblem& problem) {
  if (has_fine_granules(problem.key) || has_fine_granules(problem.value)) return Options::fine;
  if (may_vary(problem.key) || may_vary(problem.value)) return Options::granules;
  return wants_general(problem) ? Options::general : Options::plain;
}

const char* instance(const AttentionProblem& problem) noexcept {
  const int stored = problem.key.dtype == DType::i8 ? 2 : problem.key.dtype == DType::f8_e5m2;
  return instances[row_of(instances, problem.key.head_size)]
      .names[stored][static_cast<int>(options_of(problem))];
}

DeviceGeometry geometry(const AttentionProblem& problem) noexcept {
  return {.rows = decode_rows,
          .span_keys = decode_span_keys(problem.reproducible != Reproducible::per_plan)};
}

int32_t blocks_per_processor(const AttentionProblem&) noexcept { return 2; }

}  // namespace

const char* refuse_quantised_decode(const AttentionProblem& problem) noexcept {
  if (row_of(instances, problem.key.head_size) == std::size(instances))
    return "key.head_size: expected 64, 128 or 256 (8-bit decode on a device)";
  if (problem.v_head_size != problem.key.head_size)
    return "v_head_size: expected that of the keys (8-bit decode on a device)";
  if (problem.value.dtype != problem.key.dtype)
    return "key.dtype, value.dtype: expected the same type (8-bit decode on a device)";
  return nullptr;
}

const DeviceKernel quantised_decode_kernel = {.rows = Rows::any,
                                              .instance = instance,
                                              .geometry = geometry,
                                              .blocks_per_processor = blocks_per_processor};

}  // namespace folio::cuda
