// SPDX-License-Identifier: Apache-2.0
/// src/attention/validate_call.cpp: the checks of batches and of one layer's arguments.
#include "attention/positions.h"
#include "attention/validate.h"
#include "cache/check_reach.h"
#include "cache/check_tensor.h"

namespace folio::inline v1 {
namespace {

Status check_optional(const char* argument, bool is_given, bool is_expected) {
  if (is_given == is_expected) return {};
  return fail(Errc::invalid_argument,
              is_given ? "{} is given, but the problem was created without it"
                       : "{} is null, but the problem asks for it",
              argument);
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

Status check_tree(const Batch& batch) {
  constexpr int32_t words_max = INT32_MAX / 64 + 1;
  if (batch.tree_words > words_max)
    return fail(Errc::invalid_argument,
                "plan: batch.tree_words is {}, expected at most {} (no sequence has more tokens)",
                batch.tree_words, words_max);
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

Status check_scales(const char* plane, const ScaleView& scales, const ScaleView& expected,
                    bool has_data) {
  const auto differs = [plane](const char* field, int64_t got, int64_t want) {
    return fail(Errc::invalid_argument,
                "attend: {}.scales.{} is {}, expected {} (from the problem)", plane, field, got,
                want);
  };
  if (scales.dtype != expected.dtype)
    return fail(Errc::invalid_argument,
                "attend: {}.scales.dtype is {}, expected {} (from the problem)", plane,
                scales.dtype, expected.dtype);
  if (expected.dtype == DType::invalid) return {};
  if (scales.granularity != expected.granularity)
    return differs("granularity", scales.granularity, expected.granularity);
  if (has_data && scales.data == nullptr)
    return fail(Errc::invalid_argument,
                "attend: {}.scales.data is null, expected scales of type {}", plane,
                expected.dtype);
  const struct {
    const char* name;
    const void* data;
    DType element;
  } arrays[] = {{"data", scales.data, scales.dtype},
                {"tensor_scale", scales.tensor_scale, DType::f32}};
  for (const auto& array : arrays) {
    const auto element = static_cast<uintptr_t>(bit_width(array.element) / 8);
    if (reinterpret_cast<uintptr_t>(array.data) % element == 0) continue;
    return fail(Errc::invalid_argument,
                "attend: {}.scales.{} is not aligned, expected a multiple of {} (the size of {})",
                plane, array.name, element, array.element);
  }
  return {};
}

Status check_view(const char* plane, const PagedKVView& view, const PagedKVView& expected) {
  const auto differs = [plane](const char* field, int64_t got, int64_t want) {
    return fail(Errc::invalid_argument, "attend: {}.{} is {}, expected {} (from the problem)",
                plane, field, got, want);
  };
  if (view.dtype != expected.dtype)
    return fail(Errc::invalid_argument, "attend: {} has dtype {}, expected {} (from the problem)",
                plane, view.dtype, expected.dtype);
  if (view.num_heads != expected.num_heads)
    return differs("num_heads", view.num_heads, expected.num_heads);
  if (view.head_size != expected.head_size)
    return differs("head_size", view.head_size, expected.head_size);
  if (view.page_size != expected.page_size)
    return differs("page_size", view.page_size, expected.page_size);
  if (view.num_pages < 0 || view.num_pages > 0xffffffff)
    return fail(Errc::invalid_argument,
                "attend: {}.num_pages is {}, expected 0 to 2^32 - 1 (page ids are uint32)", plane,
                view.num_pages);
  const auto element = static_cast<uintptr_t>(bit_width(view.dtype) / 8);
  if (view.num_pages > 0 && view.data == nullptr)
    return fail(Errc::invalid_argument, "attend: {}.data is null, expected {} pages", plane,
                view.num_pages);
  if (reinterpret_cast<uintptr_t>(view.data) % element != 0)
    return fail(Errc::invalid_argument,
                "attend: {}.data is not aligned, expected a multiple of {} (the size of {})", plane,
                element, view.dtype);
  return check_scales(plane, view.scales, expected.scales, view.num_pages > 0);
}

Status check_bias(const AttentionProblem& problem, int64_t tokens, const ConstTensor<3>& bias) {
  if (Status s = check_optional("attend: bias", bias.data != nullptr, problem.bias && tokens > 0);
      !s.is_ok())
    return problem.bias && tokens == 0 ? Status() : s;
  if (bias.data == nullptr) return {};
  if (bias.extent[0] != 1 && bias.extent[0] != problem.q_heads)
    return fail(Errc::invalid_argument, "attend: bias has {} heads, expected 1 or {} (q_heads)",
                bias.extent[0], problem.q_heads);
  return check_tensor("attend", "bias", bias,
                      {{bias.extent[0], tokens, bias.extent[2]}, "the plan", DType::f32});
}

/// Arrays of floats, which are given or null.
Status check_floats(const AttentionArgs& args) {
  const struct {
    const char* name;
    const float* data;
  } arrays[] = {
      {"lse", args.lse}, {"sink_logits", args.sink_logits}, {"alibi_slopes", args.alibi_slopes}};
  for (const auto& array : arrays) {
    if (Status s = check_aligned("attend", array.name, array.data, DType::f32); !s.is_ok())
      return s;
  }
  return {};
}

Status check_reaches(const AttentionProblem& problem, const AttentionArgs& args) {
  if (Status s = check_reach("attend", "key", args.key, args.key.num_pages); !s.is_ok()) return s;
  if (problem.value_in_key) return {};
  return check_reach("attend", "value", args.value, args.value.num_pages);
}

}  // namespace

Status check_batch(const AttentionProblem& problem, const AttentionLimits& limits,
                   const Batch& batch) noexcept {
  if (batch.size < 0 || batch.size > limits.batch)
    return fail(Errc::invalid_argument, "plan: batch.size is {}, expected 0 to limits.batch = {}",
                batch.size, limits.batch);
  if (batch.size > 0 && batch.query_offsets == nullptr)
    return fail(Errc::invalid_argument,
                "plan: batch.query_offsets is null, expected size + 1 offsets");
  if (batch.size > 0 && batch.context_lengths == nullptr)
    return fail(Errc::invalid_argument,
                "plan: batch.context_lengths is null, expected one length per sequence");
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
  if (has_tokens || !problem.intervals) {
    if (Status s = check_optional("plan: batch.visible_begin", batch.visible_begin != nullptr,
                                  problem.intervals);
        !s.is_ok())
      return s;
    if (Status s = check_optional("plan: batch.visible_end", batch.visible_end != nullptr,
                                  problem.intervals);
        !s.is_ok())
      return s;
  }
  if (has_tokens || !problem.tree) {
    if (Status s = check_optional("plan: batch.tree", batch.tree != nullptr, problem.tree);
        !s.is_ok())
      return s;
  }
  if (has_tokens && problem.tree) {
    if (Status s = check_tree(batch); !s.is_ok()) return s;
  }
  return check_optional("plan: batch.selected", batch.selected != nullptr, problem.selection);
}

Status check_args(const AttentionProblem& problem, int64_t tokens,
                  const AttentionArgs& args) noexcept {
  const char* from = "the problem and the plan";
  const ExpectedTensor q{{tokens, problem.q_heads, problem.key.head_size}, from, problem.q_dtype};
  const ExpectedTensor out{{tokens, problem.q_heads, problem.v_head_size}, from, problem.out_dtype};
  if (Status s = check_tensor("attend", "q", args.q, q); !s.is_ok()) return s;
  if (Status s = check_tensor("attend", "out", args.out, out); !s.is_ok()) return s;
  if (Status s = check_places("attend", "out", args.out); !s.is_ok()) return s;
  if (Status s = check_view("key", args.key, problem.key); !s.is_ok()) return s;
  if (!problem.value_in_key) {
    if (Status s = check_view("value", args.value, problem.value); !s.is_ok()) return s;
    if (args.value.num_pages != args.key.num_pages)
      return fail(Errc::invalid_argument, "attend: value.num_pages is {}, expected {} (from key)",
                  args.value.num_pages, args.key.num_pages);
  }
  if (args.key_tail.data != nullptr)
    return fail(Errc::invalid_argument,
                "attend: key_tail is given, but the problem was created without it");
  if (tokens > 0) {
    if (Status s =
            check_optional("attend: sink_logits", args.sink_logits != nullptr, problem.sink_logits);
        !s.is_ok())
      return s;
    if (Status s =
            check_optional("attend: alibi_slopes", args.alibi_slopes != nullptr, problem.alibi);
        !s.is_ok())
      return s;
  }
  if (Status s = check_floats(args); !s.is_ok()) return s;
  if (Status s = check_bias(problem, tokens, args.bias); !s.is_ok()) return s;
  return check_reaches(problem, args);
}

}  // namespace folio::inline v1
