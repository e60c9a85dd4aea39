// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_case_list.h: the cases of attention that a GPU does, smallest first: what the
/// emulator's tests look at, in one list that fits into a minute of a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/attention_case.h"

namespace folio::test {

struct GpuKernelCase {
  std::string name;
  CaseOptions options;
};

inline CaseOptions gpu_case_options() {
  CaseOptions options;
  options.q_heads = 8;
  options.kv_heads = 2;
  options.head_size = 128;
  options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
  // bf16 hides a wrong order of folds
  options.out_dtype = DType::f32;
  return options;
}

/// The smallest: what compute-sanitizer looks at.
inline GpuKernelCase smallest_gpu_case() {
  CaseOptions options = gpu_case_options();
  options.sequences = {{1, 33}, {2, 5}};
  return {"smallest", options};
}

inline std::vector<GpuKernelCase> gpu_kernel_cases() {
  std::vector<GpuKernelCase> cases = {smallest_gpu_case()};
  const auto add = [&](std::string name, auto change) {
    CaseOptions options = gpu_case_options();
    options.seed = cases.size();
    change(options);
    cases.push_back({std::move(name), options});
  };
  const std::vector<SequenceShape> decode = {{1, 1},   {1, 15}, {1, 16},  {1, 17},  {1, 63},
                                             {1, 64},  {1, 65}, {1, 127}, {1, 129}, {1, 255},
                                             {1, 257}, {0, 40}, {1, 700}};
  const std::vector<SequenceShape> prefill = {{5, 5},   {16, 16},  {17, 130},
                                              {64, 64}, {65, 200}, {1, 90}};
  const std::vector<SequenceShape> mixed = {{1, 300}, {40, 40}, {3, 77},
                                            {0, 12},  {1, 1},   {20, 260}};
  add("decode", [&](CaseOptions& o) { o.sequences = decode; });
  add("prefill", [&](CaseOptions& o) { o.sequences = prefill; });
  add("mixed", [&](CaseOptions& o) { o.sequences = mixed; });
  add("speculative rows", [&](CaseOptions& o) { o.sequences = {{4, 4}, {2, 130}, {8, 300}}; });
  for (const int32_t page : {1, 2, 3, 8, 24, 64, 128})
    add("page " + std::to_string(page), [&](CaseOptions& o) {
      o.sequences = mixed;
      o.page_size = page;
    });
  for (const int32_t head : {64, 256})
    for (const bool general : {false, true})
      add("head " + std::to_string(head) + (general ? ", softcap and ALiBi" : ""),
          [&](CaseOptions& o) {
            o.sequences = mixed;
            o.head_size = head;
            o.softcap = general ? 20.0f : 0.0f;
            o.alibi = general;
          });
  for (const int32_t group : {1, 2, 8, 16})
    add("group " + std::to_string(group), [&](CaseOptions& o) {
      o.sequences = mixed;
      o.kv_heads = group == 16 ? 1 : 2;
      o.q_heads = group * o.kv_heads;
    });
  const auto add_mixed = [&](const std::string& title, auto change) {
    add(title, [&](CaseOptions& o) {
      o.sequences = mixed;
      change(o);
    });
  };
  add_mixed("f16", [](CaseOptions& o) { o.q_dtype = o.key_dtype = o.value_dtype = DType::f16; });
  add_mixed("bf16 out", [](CaseOptions& o) { o.out_dtype = DType::bf16; });
  add_mixed("no mask", [](CaseOptions& o) { o.mask = Mask::full(); });
  add_mixed("window", [](CaseOptions& o) { o.mask.left = 37; });
  add_mixed("window and sink tokens", [](CaseOptions& o) {
    o.mask.left = 37;
    o.mask.sink_tokens = 5;
  });
  add_mixed("softcap", [](CaseOptions& o) { o.softcap = 20.0f; });
  add_mixed("sink logits", [](CaseOptions& o) { o.sink_logits = true; });
  add_mixed("ALiBi", [](CaseOptions& o) { o.alibi = true; });
  add_mixed("bias", [](CaseOptions& o) { o.bias = BiasForm::per_head; });
  add_mixed("intervals", [](CaseOptions& o) { o.intervals = true; });
  add_mixed("tree", [](CaseOptions& o) { o.tree = TreeForm::random; });
  add_mixed("unassigned pages", [](CaseOptions& o) { o.unassigned = 0.3; });
  add_mixed("CSR tables", [](CaseOptions& o) { o.table = TableForm::csr; });
  add_mixed("gaps", [](CaseOptions& o) { o.gap_bytes = 32; });
  add_mixed("head-major",
            [](CaseOptions& o) { o.key_order = o.value_order = StorageOrder::head_major; });
  for (const Reproducible reproducible : {Reproducible::per_sequence, Reproducible::per_query})
    add_mixed(reproducible == Reproducible::per_query ? "per query" : "per sequence",
              [&](CaseOptions& o) { o.reproducible = reproducible; });
  const auto add_scaled = [&](const std::string& title, DType dtype, ScaleKind kind,
                              int32_t granularity, int32_t head = 128) {
    add_mixed(title, [&](CaseOptions& o) {
      o.head_size = head;
      o.key_dtype = o.value_dtype = dtype;
      o.key_scales.kind = o.value_scales.kind = kind;
      o.key_scales.granularity = o.value_scales.granularity = granularity;
    });
  };
  add_scaled("e4m3", DType::f8_e4m3, ScaleKind::tensor, 128);
  add_scaled("e4m3, a scale per token and head", DType::f8_e4m3, ScaleKind::token_and_head, 128);
  add_scaled("e5m2, a scale per head", DType::f8_e5m2, ScaleKind::head, 128);
  add_scaled("i8, a scale per token and head", DType::i8, ScaleKind::token_and_head, 128);
  // Granules of 16 elements, and of any number; heads of 256 have one way for both.
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    for (const auto& [head, granularity] :
         {std::pair{64, 32}, {64, 12}, {128, 16}, {128, 40}, {256, 64}})
      add_scaled(std::string(name(dtype)) + " of " + std::to_string(head) + ", a scale per " +
                     std::to_string(granularity) + " columns",
                 dtype, ScaleKind::granule, granularity, head);
  const auto add_latent = [&](const char* name, int32_t heads, std::vector<SequenceShape> shapes) {
    add(name, [&](CaseOptions& o) {
      o.sequences = std::move(shapes);
      o.q_heads = heads;
      o.kv_heads = 1;
      o.head_size = 576;
      o.v_head_size = 512;
      o.value_in_key = true;
      o.page_size = 64;
    });
  };
  add_latent("latent, 16 heads", 16, {{1, 1}, {1, 65}, {1, 300}, {2, 140}});
  add_latent("latent, 32 heads", 32, {{1, 63}, {1, 257}});
  return cases;
}

}  // namespace folio::test
