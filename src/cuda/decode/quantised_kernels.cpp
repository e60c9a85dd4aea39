// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/quantised_kernels.cpp: from a problem to an instance of the decode kernel over
/// 8-bit K and V.
#include "cuda/decode/quantised_kernels.h"

#include "cuda/decode/quantised_config.h"

namespace folio::cuda {
namespace {

struct Instance {
  DType stored;
  int32_t head_size;
  const char* names[4];  // [Options]
};

constexpr Instance instances[] = {
    {DType::f8_e4m3,
     64,
     {"decode_e4m3_64", "decode_e4m3_64_general", "decode_e4m3_64_granules",
      "decode_e4m3_64_fine"}},
    {DType::f8_e4m3,
     128,
     {"decode_e4m3_128", "decode_e4m3_128_general", "decode_e4m3_128_granules",
      "decode_e4m3_128_fine"}},
    {DType::f8_e4m3,
     256,
     {"decode_e4m3_256", "decode_e4m3_256_general", nullptr, "decode_e4m3_256_fine"}},
    {DType::f8_e5m2,
     64,
     {"decode_e5m2_64", "decode_e5m2_64_general", "decode_e5m2_64_granules",
      "decode_e5m2_64_fine"}},
    {DType::f8_e5m2,
     128,
     {"decode_e5m2_128", "decode_e5m2_128_general", "decode_e5m2_128_granules",
      "decode_e5m2_128_fine"}},
    {DType::f8_e5m2,
     256,
     {"decode_e5m2_256", "decode_e5m2_256_general", nullptr, "decode_e5m2_256_fine"}},
    {DType::i8,
     64,
     {"decode_i8_64", "decode_i8_64_general", "decode_i8_64_granules", "decode_i8_64_fine"}},
    {DType::i8,
     128,
     {"decode_i8_128", "decode_i8_128_general", "decode_i8_128_granules", "decode_i8_128_fine"}},
    {DType::i8, 256, {"decode_i8_256", "decode_i8_256_general", nullptr, "decode_i8_256_fine"}}};

const Instance* find(const AttentionProblem& problem) {
  for (const Instance& instance : instances)
    if (instance.stored == problem.key.dtype && instance.head_size == problem.key.head_size)
      return &instance;
  return nullptr;
}

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
  const bool is_general = problem.softcap != 0.0f || problem.alibi || problem.bias ||
                          problem.intervals || problem.tree || problem.mask.sink_tokens != 0;
  return is_general ? Options::general : Options::plain;
}

const char* instance(const AttentionProblem& problem) noexcept {
  return find(problem)->names[static_cast<int>(options_of(problem))];
}

DeviceGeometry geometry(const AttentionProblem& problem) noexcept {
  return {.rows = decode_rows,
          .span_keys = decode_span_keys(problem.reproducible != Reproducible::per_plan)};
}

int32_t blocks_per_processor(const AttentionProblem&) noexcept { return 2; }

}  // namespace

const char* refuse_quantised_decode(const AttentionProblem& problem) noexcept {
  const int32_t size = problem.key.head_size;
  if (size != 64 && size != 128 && size != 256)
    return "key.head_size: expected 64, 128 or 256 (8-bit decode on a device)";
  if (problem.v_head_size != size)
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
