// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_call.cpp: the checks of batches and of one layer's arguments.
#include <algorithm>

#include "attention/check.h"
#include "attention/positions.h"
#include "cache/check_alignment.h"
#include "cache/check_reach.h"
#include "cache/check_tensor.h"
#include "core/checked.h"

namespace folio::inline v1 {
namespace {

Status check_optional(const char* function, const char* argument, bool is_given, bool is_expected) {
  if (is_given == is_expected) return {};
  return fail(Errc::invalid_argument,
              is_given ? "{}: {} is given, expected null (the problem was created without it)"
                       : "{}: {} is null, expected an array (the problem asks for it)",
              function, argument);
}

Status check_contexts(const AttentionLimits& limits, const Batch& batch) {
  for (int32_t b = 0; b < batch.size; ++b) {
    const int32_t context = batch.context_lengths[b];
    if (context < 0 || context > limits.context)
      return fail(Errc::invalid_argument,
                  "plan: batch.context_lengths[{}] is {}, expected 0 to limits.context = {}", b,
                  context, limits.context);
    if (context > 0 && batch.table.entries == nullptr)
      return fail(
          Errc::invalid_argument,
          "plan: batch.table.entries is null, expected a page table (context_lengths[{}] is {})", b,
          context);
  }
  return {};
}

/// What the host knows of any batch: its size, and that the arrays are there.
Status check_arrays(const char* function, const AttentionLimits& limits, const Batch& batch) {
  if (batch.size < 0 || batch.size > limits.batch)
    return fail(Errc::invalid_argument, "{}: batch.size is {}, expected 0 to limits.batch = {}",
                function, batch.size, limits.batch);
  if (batch.size > 0 && batch.query_offsets == nullptr)
    return fail(Errc::invalid_argument,
                "{}: batch.query_offsets is null, expected size + 1 offsets", function);
  if (batch.size > 0 && batch.context_lengths == nullptr)
    return fail(Errc::invalid_argument,
                "{}: batch.context_lengths is null, expected one length per sequence", function);
  return {};
}

/// The per-query arrays that the problem asks for, and no others.
Status check_query_arrays(const char* function, const AttentionProblem& problem, const Batch& batch,
                          bool has_tokens) {
  constexpr Alignment of_int32{4, DType::invalid, "the size of int32"},
      of_words{8, DType::invalid, "the size of uint64"};
  const struct {
    const char* name;
    const void* data;
    Alignment alignment;
    bool is_expected;
  } arrays[] = {
      {"batch.visible_begin", batch.visible_begin, of_int32, problem.intervals},
      {"batch.visible_end", batch.visible_end, of_int32, problem.intervals},
      {"batch.tree", batch.tree, of_words, problem.tree},
      {"batch.selected", batch.selected, of_int32, problem.selection},
      {"batch.alibi_positions", batch.alibi_positions, of_int32, problem.alibi_positions}};
  for (const auto& array : arrays) {
    if (!has_tokens && array.is_expected) continue;
    if (Status s = check_optional(function, array.name, array.data != nullptr, array.is_expected);
        !s.is_ok())
      return s;
    if (Status s = check_aligned(function, array.name, "", array.data, array.alignment); !s.is_ok())
      return s;
  }
  return {};
}

Status check_tree_words(const char* function, const Batch& batch) {
  constexpr int32_t words_max = INT32_MAX / 64 + 1;
  if (batch.tree_words <= words_max) return {};
  return fail(Errc::invalid_argument,
              "{}: batch.tree_words is {}, expected at most {} (no sequence has more tokens)",
              function, batch.tree_words, words_max);
}

Status check_tree(const Batch& batch) {
  if (Status s = check_tree_words("plan", batch); !s.is_ok()) return s;
  for (int32_t b = 0; b < batch.size; ++b) {
    const int64_t new_tokens = batch.query_offsets[b + 1] - batch.query_offsets[b];
    if (new_tokens > int64_t{batch.tree_words} * 64)
      return fail(
          Errc::invalid_argument,
          "plan: batch.tree_words is {}, expected at least {} (sequence {} has {} new tokens)",
          batch.tree_words, (new_tokens + 63) / 64, b, new_tokens);
  }
  return {};
}

/// Whether `count` rows of numbers, `stride` numbers apart, lie within memory.
bool reaches(int64_t count, int64_t stride, int64_t bytes) {
  return (reach_bytes(count, stride) * bytes).is_at_most(memory_bytes_max);
}

Status check_selected_stride(const AttentionLimits& limits, const Batch& batch) {
  if (batch.selected_stride >= 0 && batch.selected_stride <= limits.context) return {};
  return fail(Errc::invalid_argument,
              "plan: batch.selected_stride is {}, expected 0 to limits.context = {}",
              batch.selected_stride, limits.context);
}

Status check_alibi_positions(const Batch& batch) {
  int64_t longest = 0;
  for (int32_t b = 0; b < batch.size; ++b)
    longest = std::max<int64_t>(longest, batch.context_lengths[b]);
  const int64_t stride = batch.alibi_positions_stride;
  if (stride != 0 && stride < longest)
    return fail(Errc::invalid_argument,
                "plan: batch.alibi_positions_stride is {}, expected 0 (one row for all) or at "
                "least {} (the longest context)",
                stride, longest);
  if (reaches(batch.size, stride, sizeof(int32_t))) return {};
  return fail(Errc::invalid_argument,
              "plan: batch.alibi_positions_stride is {} over {} sequences, expected a reach of at "
              "most 2^56 bytes",
              stride, batch.size);
}

Status check_bias(const char* function, const AttentionProblem& problem, int64_t tokens,
                  const ConstTensor<3>& bias) {
  if (problem.bias && tokens == 0) return {};
  if (Status s = check_optional(function, "bias", bias.data != nullptr, problem.bias); !s.is_ok())
    return s;
  if (bias.data == nullptr) return {};
  if (bias.extent[0] != 1 && bias.extent[0] != problem.q_heads)
    return fail(Errc::invalid_argument, "{}: bias has {} heads, expected 1 or {} (q_heads)",
                function, bias.extent[0], problem.q_heads);
  const int64_t rows = problem.bias_per_sequence ? bias.extent[1] : tokens;
  return check_tensor(function, "bias", bias,
                      {{bias.extent[0], rows, bias.extent[2]}, "the plan", problem.bias_dtype});
}

/// Distances from sequence to sequence, from query to query.
Status check_term_strides(const char* function, const AttentionProblem& problem, int64_t tokens,
                          const AttentionArgs& args) {
  const int64_t sinks = args.sink_stride, bias = args.bias_sequence_stride_bytes;
  if (!problem.sink_per_query && sinks != 0)
    return fail(Errc::invalid_argument,
                "{}: sink_stride is {}, expected 0 (the problem was created without "
                "sink_per_query)",
                function, sinks);
  if (sinks != 0 && sinks < problem.q_heads)
    return fail(Errc::invalid_argument,
                "{}: sink_stride is {}, expected 0 or at least {} (q_heads)", function, sinks,
                problem.q_heads);
  if (!reaches(tokens, sinks, sizeof(float)))
    return fail(Errc::invalid_argument,
                "{}: sink_stride is {} over {} queries, expected a reach of at most 2^56 bytes",
                function, sinks, tokens);
  if (!problem.bias_per_sequence && bias != 0)
    return fail(Errc::invalid_argument,
                "{}: bias_sequence_stride_bytes is {}, expected 0 (the problem was created "
                "without bias_per_sequence)",
                function, bias);
  const int64_t element = bit_width(problem.bias_dtype) / 8;
  if (bias % element == 0) return {};
  return fail(Errc::invalid_argument,
              "{}: bias_sequence_stride_bytes is {}, expected a multiple of {} (bias is {})",
              function, bias, element, problem.bias_dtype);
}

/// Arrays of numbers, which are given or null.
Status check_numbers(const char* function, const AttentionProblem& problem,
                     const AttentionArgs& args) {
  const struct {
    const char* name;
    const void* data;
    DType dtype;
  } arrays[] = {{"lse", args.lse, DType::f32},
                {"sink_logits", args.sink_logits, problem.sink_dtype},
                {"alibi_slopes", args.alibi_slopes, DType::f32}};
  for (const auto& array : arrays) {
    if (Status s =
            check_aligned(function, array.name, "", array.data, natural_alignment(array.dtype));
        !s.is_ok())
      return s;
  }
  return {};
}

Status check_tensors(const char* function, const AttentionProblem& problem, int64_t tokens,
                     const AttentionArgs& args) {
  const char* from = "the problem and the plan";
  const ExpectedTensor q{{tokens, problem.q_heads, problem.key.head_size}, from, problem.q_dtype};
  const ExpectedTensor out{{tokens, problem.q_heads, problem.v_head_size}, from, problem.out_dtype};
  if (Status s = check_tensor(function, "q", args.q, q); !s.is_ok()) return s;
  if (Status s = check_tensor(function, "out", args.out, out); !s.is_ok()) return s;
  return check_places(function, "out", args.out);
}

}  // namespace

Status check_batch(const AttentionProblem& problem, const AttentionLimits& limits,
                   const Batch& batch) noexcept {
  if (Status s = check_arrays("plan", limits, batch); !s.is_ok()) return s;
  if (batch.size > 0) {
    if (Status s = check_ascending("plan", batch); !s.is_ok()) return s;
    if (batch.query_offsets[batch.size] > limits.tokens)
      return fail(Errc::invalid_argument,
                  "plan: batch.query_offsets[{}] is {}, expected at most limits.tokens = {}",
                  batch.size, batch.query_offsets[batch.size], limits.tokens);
    if (Status s = check_contexts(limits, batch); !s.is_ok()) return s;
    if (Status s = check_rows("plan", batch); !s.is_ok()) return s;
  }
  const bool has_tokens = batch.size > 0 && batch.query_offsets[batch.size] > 0;
  if (Status s = check_query_arrays("plan", problem, batch, has_tokens); !s.is_ok()) return s;
  if (has_tokens && problem.tree) {
    if (Status s = check_tree(batch); !s.is_ok()) return s;
  }
  if (has_tokens && problem.selection) {
    if (Status s = check_selected_stride(limits, batch); !s.is_ok()) return s;
  }
  return has_tokens && problem.alibi_positions ? check_alibi_positions(batch) : Status();
}

Status check_device_batch(const char* function, const AttentionProblem& problem,
                          const AttentionLimits& limits, const Batch& batch) noexcept {
  if (Status s = check_arrays(function, limits, batch); !s.is_ok()) return s;
  if (batch.size > 0 && batch.table.entries == nullptr)
    return fail(Errc::invalid_argument, "{}: batch.table.entries is null, expected a page table",
                function);
  if (Status s = check_query_arrays(function, problem, batch, batch.size > 0); !s.is_ok()) return s;
  if (problem.tree && batch.size > 0) {
    if (batch.tree_words < 1)
      return fail(Errc::invalid_argument, "{}: batch.tree_words is {}, expected at least 1",
                  function, batch.tree_words);
    if (Status s = check_tree_words(function, batch); !s.is_ok()) return s;
  }
  return {};
}

Status check_args(const char* function, const Kernel& kernel, const AttentionProblem& problem,
                  int64_t tokens, const AttentionArgs& args) noexcept {
  if (Status s = check_tensors(function, problem, tokens, args); !s.is_ok()) return s;
  if (Status s = check_planes(function, kernel, problem, args); !s.is_ok()) return s;
  if (Status s = check_optional(function, "key_tail", args.key_tail.data != nullptr, false);
      !s.is_ok())
    return s;
  if (tokens > 0) {
    if (Status s = check_optional(function, "sink_logits", args.sink_logits != nullptr,
                                  problem.sink_logits);
        !s.is_ok())
      return s;
    if (Status s =
            check_optional(function, "alibi_slopes", args.alibi_slopes != nullptr, problem.alibi);
        !s.is_ok())
      return s;
  }
  if (Status s = check_numbers(function, problem, args); !s.is_ok()) return s;
  if (Status s = check_term_strides(function, problem, tokens, args); !s.is_ok()) return s;
  return check_bias(function, problem, tokens, args.bias);
}

}  // namespace folio::inline v1
