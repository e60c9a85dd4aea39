// SPDX-License-Identifier: Apache-2.0
/// src/attention/validate_strides.cpp: the checks of the strides that a call of attend brings.
#include <algorithm>
#include <span>
#include <string_view>

#include "attention/validate.h"

namespace folio::inline v1 {
namespace {

struct Stride {
  const char* name;
  int64_t bytes;
  int64_t count;  // elements that it parts
};

/// The strides of values or of scales: multiples of `element` bytes that reach no further than an
/// offset can say.
Status check_reach(const char* plane, std::span<const Stride> strides, int64_t element,
                   std::string_view reason) {
  int64_t reach = 0;
  for (const Stride& stride : strides) {
    if (stride.bytes % element != 0)
      return fail(Errc::invalid_argument,
                  "attend: {}.{} is {} bytes, expected a multiple of {} ({})", plane, stride.name,
                  stride.bytes, element, reason);
    int64_t far = 0;
    const int64_t steps = std::max<int64_t>(stride.count, 1) - 1;
    const bool is_far = __builtin_mul_overflow(stride.bytes, steps, &far) || far == INT64_MIN ||
                        __builtin_add_overflow(reach, far < 0 ? -far : far, &reach);
    if (is_far)
      return fail(Errc::invalid_argument,
                  "attend: {}.{} is {} bytes over {} elements, expected a plane below 2^63 bytes",
                  plane, stride.name, stride.bytes, stride.count);
  }
  return {};
}

Status check_plane(const Kernel& kernel, const char* name, const PagedKVView& view, int64_t context,
                   Feature granules) {
  const int64_t slots = std::min<int64_t>(view.page_size, context);
  const Stride values[] = {{"page_stride_bytes", view.page_stride_bytes, view.num_pages},
                           {"slot_stride_bytes", view.slot_stride_bytes, slots},
                           {"head_stride_bytes", view.head_stride_bytes, view.num_heads}};
  if (Status s = check_reach(name, values, bit_width(view.dtype) / 8, "the size of its elements");
      !s.is_ok())
    return s;
  const int64_t alignment = kernel.supports.plane_alignment;
  if (Status s = check_reach(name, values, alignment, kernel.name); !s.is_ok()) return s;
  if (static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) %
                           static_cast<uintptr_t>(alignment)) != 0)
    return fail(Errc::invalid_argument,
                "attend: {}.data is not aligned, expected a multiple of {} ({})", name, alignment,
                kernel.name);
  const ScaleView& scales = view.scales;
  if (scales.dtype == DType::invalid) return {};
  const int64_t per_head = (int64_t{view.head_size} + scales.granularity - 1) / scales.granularity;
  const Stride of_scales[] = {
      {"scales.page_stride_bytes", scales.page_stride_bytes, view.num_pages},
      {"scales.slot_stride_bytes", scales.slot_stride_bytes, slots},
      {"scales.head_stride_bytes", scales.head_stride_bytes, view.num_heads},
      {"scales.granule_stride_bytes", scales.granule_stride_bytes, per_head}};
  if (Status s = check_reach(name, of_scales, bit_width(scales.dtype) / 8, "the size of a scale");
      !s.is_ok())
    return s;
  if (!has_granules(view) || kernel.supports.features.has(granules)) return {};
  return fail(Errc::invalid_argument,
              "attend: {}.scales.granule_stride_bytes is {}, expected 0: {} was selected for one "
              "scale per token and head (from the problem)",
              name, scales.granule_stride_bytes, kernel.name);
}

}  // namespace

Status check_strides(const Kernel& kernel, const Attention& attention,
                     const AttentionArgs& args) noexcept {
  const int64_t context = attention.limits().context;
  if (Status s = check_plane(kernel, "key", args.key, context, Feature::key_granules); !s.is_ok())
    return s;
  if (attention.problem().value_in_key) return {};
  return check_plane(kernel, "value", args.value, context, Feature::value_granules);
}

}  // namespace folio::inline v1
