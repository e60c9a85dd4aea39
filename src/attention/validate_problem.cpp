// SPDX-License-Identifier: Apache-2.0
/// src/attention/validate_problem.cpp: the checks of problems and limits.
#include <cmath>

#include "attention/schedule.h"
#include "attention/validate.h"
#include "cache/check_reach.h"

namespace folio::inline v1 {
namespace {

constexpr int32_t heads_max = 65536;

bool is_valid(DType dtype) { return dtype >= DType::f32 && dtype <= DType::i4; }

bool is_scale_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 ||
         dtype == DType::f8_e8m0 || dtype == DType::f8_e4m3;
}

Status check_alignment(const char* plane, const char* what, int64_t stride_bytes, DType dtype) {
  const int64_t element = bit_width(dtype) < 8 ? 1 : bit_width(dtype) / 8;
  if (stride_bytes % element == 0) return {};
  return fail(Errc::invalid_argument,
              "Attention::create: {}.{} is {} bytes, expected a multiple of {} (the size of {})",
              plane, what, stride_bytes, element, dtype);
}

Status check_plane(const char* plane, const PagedKVView& view) {
  const auto bad = [plane](const char* field, int64_t got, const char* expected) {
    return fail(Errc::invalid_argument, "Attention::create: {}.{} is {}, expected {}", plane, field,
                got, expected);
  };
  if (!is_valid(view.dtype))
    return bad("dtype", static_cast<int64_t>(view.dtype), "a DType other than invalid");
  if (view.num_heads < 1 || view.num_heads > heads_max)
    return bad("num_heads", view.num_heads, "1 to 65536");
  if (view.head_size < 1) return bad("head_size", view.head_size, "at least 1");
  if (view.page_size < 1) return bad("page_size", view.page_size, "at least 1");
  if (Status s = check_alignment(plane, "page_stride_bytes", view.page_stride_bytes, view.dtype);
      !s.is_ok())
    return s;
  if (Status s = check_alignment(plane, "slot_stride_bytes", view.slot_stride_bytes, view.dtype);
      !s.is_ok())
    return s;
  if (Status s = check_alignment(plane, "head_stride_bytes", view.head_stride_bytes, view.dtype);
      !s.is_ok())
    return s;
  const ScaleView& scales = view.scales;
  if (scales.dtype == DType::invalid) {
    if (scales.data == nullptr) return {};
    return fail(Errc::invalid_argument,
                "Attention::create: {}.scales.dtype is invalid, expected a type for scales.data",
                plane);
  }
  if (!is_scale_type(scales.dtype))
    return fail(
        Errc::invalid_argument,
        "Attention::create: {}.scales.dtype is {}, expected f32, f16, bf16, f8_e8m0 or f8_e4m3",
        plane, scales.dtype);
  if (scales.granularity < 1) return bad("scales.granularity", scales.granularity, "at least 1");
  if (Status s = check_alignment(plane, "scales.page_stride_bytes", scales.page_stride_bytes,
                                 scales.dtype);
      !s.is_ok())
    return s;
  if (Status s = check_alignment(plane, "scales.slot_stride_bytes", scales.slot_stride_bytes,
                                 scales.dtype);
      !s.is_ok())
    return s;
  if (Status s = check_alignment(plane, "scales.head_stride_bytes", scales.head_stride_bytes,
                                 scales.dtype);
      !s.is_ok())
    return s;
  return check_alignment(plane, "scales.granule_stride_bytes", scales.granule_stride_bytes,
                         scales.dtype);
}

Status check_values(const AttentionProblem& p) {
  if (p.value_in_key) {
    if (p.v_head_size >= 1 && p.v_head_size <= p.key.head_size) return {};
    return fail(
        Errc::invalid_argument,
        "Attention::create: v_head_size is {}, expected 1 to key.head_size = {} with value_in_key",
        p.v_head_size, p.key.head_size);
  }
  if (Status s = check_plane("value", p.value); !s.is_ok()) return s;
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
}

/// How many pages there are comes with the calls: two tell the stride.
Status check_reaches(const AttentionProblem& p) {
  if (Status s = check_reach("Attention::create", "key", p.key, 2); !s.is_ok()) return s;
  return p.value_in_key ? Status() : check_reach("Attention::create", "value", p.value, 2);
}

}  // namespace

Result<AttentionProblem> resolve(const AttentionProblem& problem) noexcept {
  AttentionProblem p = problem;
  if (Status s = check_plane("key", p.key); !s.is_ok()) return s;
  if (Status s = check_values(p); !s.is_ok()) return s;
  if (Status s = check_reaches(p); !s.is_ok()) return s;
  if (p.q_heads < 1 || p.q_heads > heads_max || p.q_heads % p.key.num_heads != 0)
    return fail(
        Errc::invalid_argument,
        "Attention::create: q_heads is {}, expected a multiple of key.num_heads = {} up to 65536",
        p.q_heads, p.key.num_heads);
  if (!is_valid(p.q_dtype) || !is_valid(p.out_dtype))
    return fail(
        Errc::invalid_argument,
        "Attention::create: q_dtype is {} and out_dtype {}, expected types other than invalid",
        p.q_dtype, p.out_dtype);
  if (Status s = check_mask("Attention::create", p.mask); !s.is_ok()) return s;
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
  if (static_cast<int64_t>(limits.tokens) * problem.q_heads > INT32_MAX)
    return fail(Errc::invalid_argument,
                "{}: limits.tokens * q_heads is {} * {}, expected a product below 2^31", function,
                limits.tokens, problem.q_heads);
  return {};
}

}  // namespace folio::inline v1
