// SPDX-License-Identifier: Apache-2.0
/// tests/attention/attend_error_rows.h: the table of mistakes of create, plan and attend: what is
/// broken, and words that the message must have. Run through the C++ and the C interface.
#pragma once

#include <limits>

#include "support/attention_case.h"

namespace folio::test {

/// The options that the rows break.
inline CaseOptions full_options() {
  CaseOptions options;
  options.sequences = {{2, 40}, {3, 20}};
  options.head_size = 32;
  options.key_dtype = options.value_dtype = DType::i8;
  options.key_scales = options.value_scales = {ScaleKind::granule, DType::f16, 16, true};
  options.sink_logits = options.alibi = options.intervals = true;
  options.bias = BiasForm::per_head;
  return options;
}

struct ProblemRow {
  const char* words;
  void (*break_it)(AttentionProblem& p, AttentionLimits& l);
};

inline constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

inline const ProblemRow problem_rows[] = {
    {"key.dtype", [](AttentionProblem& p, AttentionLimits&) { p.key.dtype = DType::invalid; }},
    {"key.dtype",
     [](AttentionProblem& p, AttentionLimits&) { p.key.dtype = static_cast<DType>(77); }},
    {"key.num_heads is 0", [](AttentionProblem& p, AttentionLimits&) { p.key.num_heads = 0; }},
    {"key.head_size is -8", [](AttentionProblem& p, AttentionLimits&) { p.key.head_size = -8; }},
    {"key.page_size is 0", [](AttentionProblem& p, AttentionLimits&) { p.key.page_size = 0; }},
    {"value.num_heads is 3", [](AttentionProblem& p, AttentionLimits&) { p.value.num_heads = 3; }},
    {"value.page_size is 8", [](AttentionProblem& p, AttentionLimits&) { p.value.page_size = 8; }},
    {"value.head_size is 0", [](AttentionProblem& p, AttentionLimits&) { p.value.head_size = 0; }},
    {"v_head_size is 16", [](AttentionProblem& p, AttentionLimits&) { p.v_head_size = 16; }},
    {"v_head_size is 40",
     [](AttentionProblem& p, AttentionLimits&) {
       p.value_in_key = true;
       p.v_head_size = 40;
     }},
    {"slot_stride_bytes is 67",
     [](AttentionProblem& p, AttentionLimits&) {
       p.key.dtype = DType::bf16;
       p.key.slot_stride_bytes = 67;
     }},
    {"value.page_stride_bytes is 1025",
     [](AttentionProblem& p, AttentionLimits&) {
       p.value.dtype = DType::bf16;
       p.value.page_stride_bytes = 1025;
     }},
    {"key.head_stride_bytes is 33",
     [](AttentionProblem& p, AttentionLimits&) {
       p.key.dtype = DType::bf16;
       p.key.head_stride_bytes = 33;
     }},
    {"key.scales.dtype is i8",
     [](AttentionProblem& p, AttentionLimits&) { p.key.scales.dtype = DType::i8; }},
    {"key.scales.dtype is invalid",
     [](AttentionProblem& p, AttentionLimits&) { p.key.scales.dtype = DType::invalid; }},
    {"value.scales.granularity is 0",
     [](AttentionProblem& p, AttentionLimits&) { p.value.scales.granularity = 0; }},
    {"key.scales.page_stride_bytes is 3",
     [](AttentionProblem& p, AttentionLimits&) { p.key.scales.page_stride_bytes = 3; }},
    {"value.scales.slot_stride_bytes is 3",
     [](AttentionProblem& p, AttentionLimits&) { p.value.scales.slot_stride_bytes = 3; }},
    {"key.scales.head_stride_bytes is 3",
     [](AttentionProblem& p, AttentionLimits&) { p.key.scales.head_stride_bytes = 3; }},
    {"value.scales.granule_stride_bytes is 3",
     [](AttentionProblem& p, AttentionLimits&) { p.value.scales.granule_stride_bytes = 3; }},
    {"q_heads is 5", [](AttentionProblem& p, AttentionLimits&) { p.q_heads = 5; }},
    {"q_heads is 0", [](AttentionProblem& p, AttentionLimits&) { p.q_heads = 0; }},
    {"q_dtype", [](AttentionProblem& p, AttentionLimits&) { p.q_dtype = DType::invalid; }},
    {"out_dtype",
     [](AttentionProblem& p, AttentionLimits&) { p.out_dtype = static_cast<DType>(200); }},
    {"mask.left is -2", [](AttentionProblem& p, AttentionLimits&) { p.mask.left = -2; }},
    {"mask.right is -3", [](AttentionProblem& p, AttentionLimits&) { p.mask.right = -3; }},
    {"mask.chunk is -1", [](AttentionProblem& p, AttentionLimits&) { p.mask.chunk = -1; }},
    {"mask.sink_tokens is -1",
     [](AttentionProblem& p, AttentionLimits&) { p.mask.sink_tokens = -1; }},
    {"scale is", [](AttentionProblem& p, AttentionLimits&) { p.scale = nan_value; }},
    {"softcap is", [](AttentionProblem& p, AttentionLimits&) { p.softcap = -1.0f; }},
    {"softcap is", [](AttentionProblem& p,
                      AttentionLimits&) { p.softcap = std::numeric_limits<float>::infinity(); }},
    {"reproducible is 9",
     [](AttentionProblem& p, AttentionLimits&) { p.reproducible = static_cast<Reproducible>(9); }},
    {"sink_dtype is i8", [](AttentionProblem& p, AttentionLimits&) { p.sink_dtype = DType::i8; }},
    {"bias_dtype i4", [](AttentionProblem& p, AttentionLimits&) { p.bias_dtype = DType::i4; }},
    {"sink_per_query is set, expected sink_logits",
     [](AttentionProblem& p, AttentionLimits&) {
       p.sink_logits = false;
       p.sink_per_query = true;
     }},
    {"bias_per_sequence is set, expected bias",
     [](AttentionProblem& p, AttentionLimits&) {
       p.bias = false;
       p.bias_per_sequence = true;
     }},
    {"alibi_positions is set, expected alibi",
     [](AttentionProblem& p, AttentionLimits&) {
       p.alibi = false;
       p.alibi_positions = true;
     }},
    {"limits.batch is 0", [](AttentionProblem&, AttentionLimits& l) { l.batch = 0; }},
    {"limits.tokens is -1", [](AttentionProblem&, AttentionLimits& l) { l.tokens = -1; }},
    {"limits.context is 0", [](AttentionProblem&, AttentionLimits& l) { l.context = 0; }},
    {"limits.parallelism is -1", [](AttentionProblem&, AttentionLimits& l) { l.parallelism = -1; }},
    {"limits.tokens",
     [](AttentionProblem&, AttentionLimits& l) { l.tokens = std::numeric_limits<int32_t>::max(); }},
};

struct BatchRow {
  const char* words;
  void (*break_it)(Batch& b);
};

inline constexpr int32_t offsets_from_1[] = {1, 2, 5}, descending[] = {0, 3, 2},
                         too_many[] = {0, 2, 900};
inline constexpr int32_t negative_context[] = {40, -1}, too_long[] = {40, 900};

inline const BatchRow batch_rows[] = {
    {"batch.size is -1", [](Batch& b) { b.size = -1; }},
    {"batch.size is 3", [](Batch& b) { b.size = 3; }},
    {"batch.query_offsets is null", [](Batch& b) { b.query_offsets = nullptr; }},
    {"batch.context_lengths is null", [](Batch& b) { b.context_lengths = nullptr; }},
    {"batch.query_offsets[0] is 1", [](Batch& b) { b.query_offsets = offsets_from_1; }},
    {"batch.query_offsets[2] is 2", [](Batch& b) { b.query_offsets = descending; }},
    {"batch.query_offsets[2] is 900", [](Batch& b) { b.query_offsets = too_many; }},
    {"batch.context_lengths[1] is -1", [](Batch& b) { b.context_lengths = negative_context; }},
    {"batch.context_lengths[1] is 900", [](Batch& b) { b.context_lengths = too_long; }},
    {"batch.table.entries is null", [](Batch& b) { b.table.entries = nullptr; }},
    {"batch.visible_begin", [](Batch& b) { b.visible_begin = nullptr; }},
    {"batch.visible_end", [](Batch& b) { b.visible_end = nullptr; }},
    {"batch.tree", [](Batch& b) { b.tree = reinterpret_cast<const uint64_t*>(b.query_offsets); }},
    {"batch.selected", [](Batch& b) { b.selected = b.query_offsets; }},
};

struct ArgsRow {
  const char* words;
  void (*break_it)(AttentionArgs& a);
};

/// One byte behind `at`.
template <class T>
T* misaligned(T* at) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(at) + 1);
}

inline const ArgsRow args_rows[] = {
    {"q has dtype bf16", [](AttentionArgs& a) { a.q.dtype = DType::bf16; }},
    {"q has shape [5, 3, 32]", [](AttentionArgs& a) { a.q.extent[1] = 3; }},
    {"q has shape [4, 4, 32]", [](AttentionArgs& a) { a.q.extent[0] = 4; }},
    {"q.data is null", [](AttentionArgs& a) { a.q.data = nullptr; }},
    {"q.data is not aligned",
     [](AttentionArgs& a) { a.q.data = static_cast<const char*>(a.q.data) + 1; }},
    {"q.stride_bytes[2] is 8", [](AttentionArgs& a) { a.q.stride_bytes[2] = 8; }},
    {"q.stride_bytes", [](AttentionArgs& a) { a.q.stride_bytes[0] += 1; }},
    {"out has shape [5, 4, 40]", [](AttentionArgs& a) { a.out.extent[2] = 40; }},
    {"out has dtype f16", [](AttentionArgs& a) { a.out.dtype = DType::f16; }},
    {"out.data is null", [](AttentionArgs& a) { a.out.data = nullptr; }},
    {"key has dtype f32", [](AttentionArgs& a) { a.key.dtype = DType::f32; }},
    {"key.num_heads is 1", [](AttentionArgs& a) { a.key.num_heads = 1; }},
    {"key.head_size is 24", [](AttentionArgs& a) { a.key.head_size = 24; }},
    {"key.page_size is 4", [](AttentionArgs& a) { a.key.page_size = 4; }},
    {"key.page_stride_bytes",
     [](AttentionArgs& a) { a.key.page_stride_bytes = std::numeric_limits<int64_t>::max(); }},
    {"value.slot_stride_bytes",
     [](AttentionArgs& a) { a.value.slot_stride_bytes = std::numeric_limits<int64_t>::min(); }},
    {"value.head_stride_bytes",
     [](AttentionArgs& a) { a.value.head_stride_bytes = int64_t{3} << 61; }},
    {"key.data is null", [](AttentionArgs& a) { a.key.data = nullptr; }},
    {"value.num_pages", [](AttentionArgs& a) { a.value.num_pages -= 1; }},
    {"key.num_pages is -1, expected 0 to 2^32 - 1",
     [](AttentionArgs& a) { a.key.num_pages = a.value.num_pages = -1; }},
    {"key.num_pages is 4294967296, expected 0 to 2^32 - 1",
     [](AttentionArgs& a) { a.key.num_pages = a.value.num_pages = int64_t{1} << 32; }},
    {"key.scales.dtype is f32", [](AttentionArgs& a) { a.key.scales.dtype = DType::f32; }},
    {"key.scales.granularity is 8", [](AttentionArgs& a) { a.key.scales.granularity = 8; }},
    {"value.scales.data is null", [](AttentionArgs& a) { a.value.scales.data = nullptr; }},
    {"key.scales.data is not aligned, expected a multiple of 2 bytes (the size of f16)",
     [](AttentionArgs& a) { a.key.scales.data = static_cast<std::byte*>(a.key.scales.data) + 1; }},
    {"key.scales.tensor_scale is not aligned, expected a multiple of 4",
     [](AttentionArgs& a) { a.key.scales.tensor_scale = misaligned(a.alibi_slopes); }},
    {"lse is not aligned, expected a multiple of 4",
     [](AttentionArgs& a) { a.lse = misaligned(a.lse); }},
    {"sink_logits is not aligned, expected a multiple of 4",
     [](AttentionArgs& a) { a.sink_logits = misaligned(a.alibi_slopes); }},
    {"alibi_slopes is not aligned, expected a multiple of 4",
     [](AttentionArgs& a) { a.alibi_slopes = misaligned(a.alibi_slopes); }},
    {"out.stride_bytes[0] is 0 over 5 elements, expected a place for each",
     [](AttentionArgs& a) { a.out.stride_bytes[0] = 0; }},
    {"out.stride_bytes[1] is 0 over ", [](AttentionArgs& a) { a.out.stride_bytes[1] = 0; }},
    {"value.scales.page_stride_bytes",
     [](AttentionArgs& a) { a.value.scales.page_stride_bytes += 1; }},
    {"value.scales.slot_stride_bytes",
     [](AttentionArgs& a) { a.value.scales.slot_stride_bytes += 1; }},
    {"key.scales.head_stride_bytes", [](AttentionArgs& a) { a.key.scales.head_stride_bytes += 1; }},
    {"key.scales.granule_stride_bytes",
     [](AttentionArgs& a) { a.key.scales.granule_stride_bytes += 1; }},
    {"sink_logits is null", [](AttentionArgs& a) { a.sink_logits = nullptr; }},
    {"alibi_slopes is null", [](AttentionArgs& a) { a.alibi_slopes = nullptr; }},
    {"bias is null", [](AttentionArgs& a) { a.bias.data = nullptr; }},
    {"sink_stride is 4, expected 0", [](AttentionArgs& a) { a.sink_stride = 4; }},
    {"bias_sequence_stride_bytes is 64, expected 0",
     [](AttentionArgs& a) { a.bias_sequence_stride_bytes = 64; }},
    {"bias has 2 heads", [](AttentionArgs& a) { a.bias.extent[0] = 2; }},
    {"bias has 39 keys", [](AttentionArgs& a) { a.bias.extent[2] = 39; }},
    {"bias has dtype bf16", [](AttentionArgs& a) { a.bias.dtype = DType::bf16; }},
    {"bias has shape [4, 6, 40]", [](AttentionArgs& a) { a.bias.extent[1] = 6; }},
};

}  // namespace folio::test
