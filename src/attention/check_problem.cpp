// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_problem.cpp: the checks of problems and limits.
#include <cmath>

#include "attention/check.h"
#include "attention/schedule.h"
#include "cache/check_reach.h"
#include "cache/check_tensor.h"
#include "cache/check_view.h"

namespace folio::inline v1 {
namespace {

constexpr int32_t heads_max = 65536;

/// Any dtype that there is: which of them a plane may have is for the kernels to say.
Status check_described(const char* plane, const PagedKVView& view) {
  constexpr auto function = "Attention::create";
  if (!detail::is_dtype(view.dtype))
    return fail(Errc::invalid_argument, "{}: {}.dtype is {}, expected a DType other than invalid",
                function, plane, static_cast<int>(view.dtype));
  if (Status s = check_form(function, plane, view); !s.is_ok()) return s;
  if (view.num_heads > heads_max)
    return fail(Errc::invalid_argument, "{}: {}.num_heads is {}, expected at most {}", function,
                plane, view.num_heads, heads_max);
  const ScaleView& scales = view.scales;
  if (scales.dtype == DType::invalid && scales.data == nullptr) return {};
  return check_form(function, plane, scales);
}

Status check_values(const AttentionProblem& p) {
  if (p.value_in_key) {
    if (p.v_head_size % block_elements(p.key.dtype) != 0)
      return fail(Errc::invalid_argument,
                  "Attention::create: v_head_size is {}, expected a multiple of {} (key.dtype {})",
                  p.v_head_size, block_elements(p.key.dtype), p.key.dtype);
    const int32_t block = p.key.hadamard.block;
    if (block != 0 && p.v_head_size % block != 0)
      return fail(Errc::invalid_argument,
                  "Attention::create: v_head_size is {}, expected a multiple of {} "
                  "(key.hadamard.block)",
                  p.v_head_size, block);
    if (p.v_head_size >= 1 && p.v_head_size <= p.key.head_size) return {};
    return fail(
        Errc::invalid_argument,
        "Attention::create: v_head_size is {}, expected 1 to key.head_size = {} with value_in_key",
        p.v_head_size, p.key.head_size);
  }
  if (Status s = check_described("value", p.value); !s.is_ok()) return s;
  if (p.value.num_heads != p.key.num_heads)
    return fail(Errc::invalid_argument,
                "Attention::create: value.num_heads is {}, expected {} (from key)",
                p.value.num_heads, p.key.num_heads);
  if (p.value.page_size != p.key.page_size)
    return fail(Errc::invalid_argument,
                "Attention::create: value.page_size is {}, expected {} (from key)",
                p.value.page_size, p.key.page_size);
  if (p.v_head_size != 0 && p.v_head_size != p.value.head_size)
    return fail(Errc::invalid_argument,
                "Attention::create: v_head_size is {}, expected 0 or value.head_size = {}",
                p.v_head_size, p.value.head_size);
  return {};
}

/// Problems of one geometry are equal, whatever memory they were described with.
void forget_memory(PagedKVView& view) {
  view.data = nullptr;
  view.num_pages = 0;
  view.scales.data = nullptr;
  view.scales.tensor_scale = nullptr;
  view.channel_scales = nullptr;
}

/// How many pages there are comes with the calls: two tell the stride.
Status check_reaches(const AttentionProblem& p) {
  if (Status s = check_reach("Attention::create", "key", p.key, 2); !s.is_ok()) return s;
  return p.value_in_key ? Status() : check_reach("Attention::create", "value", p.value, 2);
}

/// The forms of sink logits, bias and ALiBi: each belongs to a term that is asked for.
Status check_terms(const AttentionProblem& p) {
  const struct {
    const char* name;
    bool is_given;
    const char* term;
    bool has_term;
  } forms[] = {{"selection_per_head", p.selection_per_head, "selection", p.selection},
               {"sink_per_query", p.sink_per_query, "sink_logits", p.sink_logits},
               {"sink_dtype", p.sink_dtype != DType::f32, "sink_logits", p.sink_logits},
               {"bias_per_sequence", p.bias_per_sequence, "bias", p.bias},
               {"bias_dtype", p.bias_dtype != DType::f32, "bias", p.bias},
               {"alibi_positions", p.alibi_positions, "alibi", p.alibi}};
  for (const auto& form : forms)
    if (form.is_given && !form.has_term)
      return fail(Errc::invalid_argument, "Attention::create: {} is set, expected {} with it",
                  form.name, form.term);
  if (is_activation_dtype(p.sink_dtype) && is_activation_dtype(p.bias_dtype)) return {};
  return fail(Errc::invalid_argument,
              "Attention::create: sink_dtype is {} and bias_dtype {}, expected f32, bf16 or f16",
              p.sink_dtype, p.bias_dtype);
}

}  // namespace

Result<AttentionProblem> resolve(const AttentionProblem& problem) noexcept {
  AttentionProblem p = problem;
  if (Status s = check_described("key", p.key); !s.is_ok()) return s;
  if (Status s = check_values(p); !s.is_ok()) return s;
  if (Status s = check_reaches(p); !s.is_ok()) return s;
  if (p.q_heads < 1 || p.q_heads > heads_max || p.q_heads % p.key.num_heads != 0)
    return fail(
        Errc::invalid_argument,
        "Attention::create: q_heads is {}, expected a multiple of key.num_heads = {} up to 65536",
        p.q_heads, p.key.num_heads);
  if (!detail::is_dtype(p.q_dtype) || !detail::is_dtype(p.out_dtype))
    return fail(
        Errc::invalid_argument,
        "Attention::create: q_dtype is {} and out_dtype {}, expected types other than invalid",
        p.q_dtype, p.out_dtype);
  if (Status s = check_mask("Attention::create", p.mask); !s.is_ok()) return s;
  if (Status s = check_terms(p); !s.is_ok()) return s;
  if (!std::isfinite(p.scale))
    return fail(Errc::invalid_argument, "Attention::create: scale is {}, expected a finite number",
                p.scale);
  if (!std::isfinite(p.softcap) || p.softcap < 0.0f)
    return fail(Errc::invalid_argument,
                "Attention::create: softcap is {}, expected 0 (none) or a positive number",
                p.softcap);
  if (p.reproducible > Reproducible::per_query)
    return fail(Errc::invalid_argument,
                "Attention::create: reproducible is {}, expected a level of Reproducible",
                static_cast<int>(p.reproducible));
  if (p.scale == 0.0f) p.scale = 1.0f / std::sqrt(static_cast<float>(p.key.head_size));
  if (p.value_in_key) p.value = PagedKVView();
  if (!p.value_in_key) p.v_head_size = p.value.head_size;
  for (PagedKVView* view : {&p.key, &p.value, &p.key_tail}) forget_memory(*view);
  return p;
}

Status check_mask(const char* function, const Mask& mask) noexcept {
  const auto bad = [function](const char* field, int32_t got, const char* expected) {
    return fail(Errc::invalid_argument, "{}: mask.{} is {}, expected {}", function, field, got,
                expected);
  };
  if (mask.left < -1) return bad("left", mask.left, "-1 (unlimited) or more");
  if (mask.right < -1) return bad("right", mask.right, "-1 (unlimited) or more");
  if (mask.chunk < 0) return bad("chunk", mask.chunk, "0 (none) or more");
  if (mask.sink_tokens < 0) return bad("sink_tokens", mask.sink_tokens, "0 or more");
  return {};
}

Status check_limits(const char* function, const AttentionProblem& problem,
                    const AttentionLimits& limits) noexcept {
  const auto bad = [function](const char* field, int64_t got) {
    return fail(Errc::invalid_argument, "{}: limits.{} is {}, expected at least 1", function, field,
                got);
  };
  if (limits.parallelism > parallelism_max)
    return fail(Errc::invalid_argument, "{}: limits.parallelism is {}, expected at most {}",
                function, limits.parallelism, parallelism_max);
  if (limits.batch < 1) return bad("batch", limits.batch);
  if (limits.batch == INT32_MAX)  // offsets are one more
    return fail(Errc::invalid_argument, "{}: limits.batch is {}, expected at most 2^31 - 2",
                function, limits.batch);
  if (limits.tokens < 1) return bad("tokens", limits.tokens);
  if (limits.context < 1) return bad("context", limits.context);
  if (limits.parallelism < 0)
    return fail(
        Errc::invalid_argument,
        "{}: limits.parallelism is {}, expected at least 1, or 0 (what the default executor "
        "offers)",
        function, limits.parallelism);
  if (limits.shared_levels < 0 || limits.shared_levels > shared_levels_max)
    return fail(Errc::invalid_argument, "{}: limits.shared_levels is {}, expected 0 to {}",
                function, limits.shared_levels, shared_levels_max);
  if (static_cast<int64_t>(limits.tokens) * problem.q_heads > INT32_MAX)
    return fail(Errc::invalid_argument,
                "{}: limits.tokens * q_heads is {} * {}, expected a product below 2^31", function,
                limits.tokens, problem.q_heads);
  return {};
}

}  // namespace folio::inline v1
