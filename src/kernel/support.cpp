// SPDX-License-Identifier: Apache-2.0
/// src/kernel/support.cpp: from a problem to the bits that it needs, and the words for what is
/// missing.
#include "kernel/support.h"

#include <cstring>

namespace folio::inline v1 {
namespace {

struct Words {
  const char* name;
  const char* reason;
};

constexpr Words words_of(Feature feature) {
  switch (feature) {
    case Feature::value_plane:
      return {"value_plane",
              "value_in_key: the kernel is for latent heads, whose V lies in K's rows"};
    case Feature::value_in_key:
      return {"value_in_key", "value_in_key: the kernel needs a plane of V"};
    case Feature::key_tail:
      return {"key_tail",
              "key_tail: further key columns with a dtype of their own are unsupported"};
    case Feature::key_scales: return {"key_scales", "key.scales: scales of K are unsupported"};
    case Feature::key_granules:
      return {"key_granules", "key.scales: expected one scale per token and head, or one for more"};
    case Feature::value_scales:
      return {"value_scales", "value.scales: scales of V are unsupported"};
    case Feature::value_granules:
      return {"value_granules",
              "value.scales: expected one scale per token and head, or one for more"};
    case Feature::zero_points: return {"zero_points", "scales.zeros: zero points are unsupported"};
    case Feature::key_turned:
      return {"key_turned",
              "key.hadamard: rotated keys, and scales of their channels, are "
              "unsupported"};
    case Feature::value_turned:
      return {"value_turned",
              "value.hadamard: rotated values, and scales of their channels, are "
              "unsupported"};
    case Feature::window: return {"window", "mask.left: windows are unsupported"};
    case Feature::lookahead:
      return {"lookahead", "mask.right: keys behind the query are unsupported"};
    case Feature::chunks: return {"chunks", "mask.chunk: chunks are unsupported"};
    case Feature::sink_tokens:
      return {"sink_tokens", "mask.sink_tokens: sink tokens are unsupported"};
    case Feature::intervals:
      return {"intervals", "intervals: an interval for each query is unsupported"};
    case Feature::tree: return {"tree", "tree: trees of new tokens are unsupported"};
    case Feature::selection:
      return {"selection", "selection: attention over selected keys is unsupported"};
    case Feature::selection_per_head:
      return {"selection_per_head", "selection_per_head: lists of each KV head are unsupported"};
    case Feature::softcap: return {"softcap", "softcap: capped logits are unsupported"};
    case Feature::sink_logits:
      return {"sink_logits", "sink_logits: sinks in the denominator are unsupported"};
    case Feature::alibi: return {"alibi", "alibi: slopes are unsupported"};
    case Feature::bias: return {"bias", "bias: a bias is unsupported"};
    case Feature::sink_per_query:
      return {"sink_per_query", "sink_per_query: sink logits of each query are unsupported"};
    case Feature::sink_dtype:
      return {"sink_dtype", "sink_dtype: sink logits other than f32 are unsupported"};
    case Feature::bias_per_sequence:
      return {"bias_per_sequence", "bias_per_sequence: a bias for each sequence is unsupported"};
    case Feature::bias_dtype:
      return {"bias_dtype", "bias_dtype: a bias other than f32 is unsupported"};
    case Feature::alibi_positions:
      return {"alibi_positions", "alibi_positions: positions of single keys are unsupported"};
  }
  return {"unknown", "the problem needs what no kernel knows"};
}

/// A plane's dtype is in Support, shapes are for Kernel::refuse, pointers, the number of pages and
/// strides come with the call.
Features features_of_plane(const PagedKVView& plane, Feature has_scales, Feature granules,
                           Feature turned) {
  const auto& [data, dtype, num_heads, head_size, page_size, num_pages, page_stride_bytes,
               slot_stride_bytes, head_stride_bytes, scales, hadamard, has_channel_scales,
               channel_scales] = plane;
  Features needed;
  if (hadamard.block != 0 || has_channel_scales) needed |= turned;
  if (scales.zeros != Zeros::none) needed |= Feature::zero_points;
  if (scales.dtype != DType::invalid) needed |= has_scales;
  if (has_granules(plane)) needed |= granules;
  return needed;
}

Features features_of_mask(const Mask& mask) {
  const auto& [left, right, chunk, sink_tokens] = mask;
  Features needed;
  if (left != -1) needed |= Feature::window;
  if (right != 0) needed |= Feature::lookahead;
  if (chunk != 0) needed |= Feature::chunks;
  if (sink_tokens != 0) needed |= Feature::sink_tokens;
  return needed;
}

/// What selected keys cannot be joined with: a list names places, which have neither positions nor
/// an index in the sequence. Null: nothing of it is asked for.
const char* conflict(const AttentionProblem& problem) {
  if (!problem.selection) return nullptr;
  const Mask& mask = problem.mask;
  if (problem.intervals) return "selection: lists of keys leave nothing to intervals";
  if (problem.tree) return "selection: lists of keys leave nothing to a tree";
  if (mask.left != -1 || mask.right > 0 || mask.chunk != 0 || mask.sink_tokens != 0)
    return "selection: lists of keys leave nothing to a mask, expected causal or full";
  if (problem.alibi) return "selection: keys of a list have no positions for alibi";
  if (problem.bias) return "selection: keys of a list have no index in a bias";
  return nullptr;
}

struct TypeRule {
  const char* name;
  DType dtype;
  DTypes supported;
  const char* reason;
};

/// The first type that is missing; its name is null if none is.
TypeRule missing_type(const Support& support, const AttentionProblem& problem) {
  const DTypes rounded = allows_rounding(problem) ? support.rounded : DTypes();
  const TypeRule rules[] = {{"q_dtype", problem.q_dtype, support.q | rounded,
                             "q_dtype: queries of this type are unsupported"},
                            {"out_dtype", problem.out_dtype, support.out,
                             "out_dtype: outputs of this type are unsupported"},
                            {"key.dtype", problem.key.dtype, support.key | rounded,
                             "key.dtype: keys of this type are unsupported"},
                            {"value.dtype", problem.value.dtype, support.value | rounded,
                             "value.dtype: values of this type are unsupported"}};
  for (const TypeRule& rule : rules) {
    if (problem.value_in_key && &rule == &rules[3]) continue;
    if (!rule.supported.has(rule.dtype)) return rule;
  }
  return {};
}

bool is_aligned(const PagedKVView& plane, int64_t bytes) {
  return plane.page_stride_bytes % bytes == 0 && plane.slot_stride_bytes % bytes == 0 &&
         plane.head_stride_bytes % bytes == 0;
}

class Writer {
 public:
  explicit Writer(Sentence& sentence) : sentence_(sentence) {}

  void put(std::string_view words) {
    const size_t left = sizeof sentence_.text - 1 - used_;
    const size_t count = words.size() < left ? words.size() : left;
    std::memcpy(sentence_.text + used_, words.data(), count);
    used_ += count;
  }
  template <class E>
  void put_list(Bits<E> bits, int count) {
    bool is_first = true;
    for (int i = 0; i < count; ++i) {
      const auto e = static_cast<E>(i);
      if (!bits.has(e)) continue;
      if (!is_first) put(", ");
      is_first = false;
      put(name(e));
    }
    if (is_first) put("nothing");
  }

 private:
  Sentence& sentence_;
  size_t used_ = 0;
};

}  // namespace

bool allows_rounding(const AttentionProblem& problem) noexcept {
  return problem.bf16_operands && problem.reproducible != Reproducible::per_query;
}

bool has_granules(const PagedKVView& plane) noexcept {
  // Of the strides only a granule stride of 0 matters: it makes one scale of many.
  const auto& [data, dtype, granularity, page_stride_bytes, slot_stride_bytes, head_stride_bytes,
               granule_stride_bytes, tensor_scale, zeros, zero_offset_bytes] = plane.scales;
  return dtype != DType::invalid && granule_stride_bytes != 0 && granularity < plane.head_size;
}

Features features_of(const AttentionProblem& problem) noexcept {
  // Every kernel multiplies by scale; reproducible is Kernel::promises; the types, and what they
  // may be rounded to, are in Support; whose keys may be turned takes queries either way;
  // heads and sizes are for Kernel::refuse.
  const auto& [key, value, key_tail, q_heads, v_head_size, q_dtype, out_dtype, value_in_key, mask,
               scale, softcap, sink_logits, alibi, bias, intervals, tree, selection,
               selection_per_head, sink_per_query, sink_dtype, bias_per_sequence, bias_dtype,
               alibi_positions, reproducible, bf16_operands, int8_operands, q_is_turned] = problem;
  Features needed =
      features_of_plane(key, Feature::key_scales, Feature::key_granules, Feature::key_turned);
  if (value_in_key) {
    needed |= Feature::value_in_key;
    if (needed.has(Feature::key_turned)) needed |= Feature::value_turned;
  } else {
    needed |= Feature::value_plane;
    needed |= features_of_plane(value, Feature::value_scales, Feature::value_granules,
                                Feature::value_turned);
  }
  if (key_tail.dtype != DType::invalid) needed |= Feature::key_tail;
  if (!selection) needed |= intervals ? Features(Feature::intervals) : features_of_mask(mask);
  if (tree) needed |= Feature::tree;
  if (selection) needed |= Feature::selection;
  if (selection_per_head) needed |= Feature::selection_per_head;
  if (softcap != 0.0f) needed |= Feature::softcap;
  if (sink_logits) needed |= Feature::sink_logits;
  if (alibi) needed |= Feature::alibi;
  if (bias) needed |= Feature::bias;
  if (sink_per_query) needed |= Feature::sink_per_query;
  if (sink_dtype != DType::f32) needed |= Feature::sink_dtype;
  if (bias_per_sequence) needed |= Feature::bias_per_sequence;
  if (bias_dtype != DType::f32) needed |= Feature::bias_dtype;
  if (alibi_positions) needed |= Feature::alibi_positions;
  return needed;
}

const char* name(Feature feature) noexcept { return words_of(feature).name; }

const char* unsupported(const Support& support, const AttentionProblem& problem) noexcept {
  if (const char* reason = conflict(problem); reason != nullptr) return reason;
  const Features missing = features_of(problem).without(support.features);
  for (int i = 0; i < num_features; ++i)
    if (missing.has(static_cast<Feature>(i))) return words_of(static_cast<Feature>(i)).reason;
  if (const TypeRule type = missing_type(support, problem); type.name != nullptr)
    return type.reason;
  if (!is_aligned(problem.key, support.plane_alignment))
    return "key: strides that the kernel's loads are not aligned to";
  if (!problem.value_in_key && !is_aligned(problem.value, support.plane_alignment))
    return "value: strides that the kernel's loads are not aligned to";
  return nullptr;
}

Sentence explain(std::string_view kernel, const Support& support,
                 const AttentionProblem& problem) noexcept {
  Sentence sentence;
  Writer writer(sentence);
  const Features needed = features_of(problem), missing = needed.without(support.features);
  if (!missing.is_empty()) {
    writer.put("; needs ");
    writer.put_list(needed, num_features);
    writer.put("; ");
    writer.put(kernel);
    writer.put(" supports ");
    writer.put_list(support.features, num_features);
    writer.put("; missing: ");
    writer.put_list(missing, num_features);
  } else if (const TypeRule type = missing_type(support, problem); type.name != nullptr) {
    writer.put("; ");
    writer.put(type.name);
    writer.put(" is ");
    writer.put(name(type.dtype));
    writer.put("; ");
    writer.put(kernel);
    writer.put(" supports ");
    writer.put_list(type.supported, detail::num_dtypes);
  }
  return sentence;
}

}  // namespace folio::inline v1
