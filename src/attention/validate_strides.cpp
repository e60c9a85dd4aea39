// SPDX-License-Identifier: Apache-2.0
/// src/attention/validate_strides.cpp: the checks of the strides that a call of attend brings.
#include <span>
#include <string_view>

#include "attention/validate.h"

namespace folio::inline v1 {
namespace {

struct Stride {
  const char* name;
  int64_t bytes;
};

/// The strides of values or of scales: multiples of `element` bytes.
Status check_multiples(const char* plane, std::span<const Stride> strides, int64_t element,
                       std::string_view reason) {
  for (const Stride& stride : strides) {
    if (stride.bytes % element == 0) continue;
    return fail(Errc::invalid_argument, "attend: {}.{} is {} bytes, expected a multiple of {} ({})",
                plane, stride.name, stride.bytes, element, reason);
  }
  return {};
}

Status check_plane(const Kernel& kernel, const char* name, const PagedKVView& view,
                   Feature granules) {
  const Stride values[] = {{"page_stride_bytes", view.page_stride_bytes},
                           {"slot_stride_bytes", view.slot_stride_bytes},
                           {"head_stride_bytes", view.head_stride_bytes}};
  if (Status s =
          check_multiples(name, values, bit_width(view.dtype) / 8, "the size of its elements");
      !s.is_ok())
    return s;
  const int64_t alignment = kernel.supports.plane_alignment;
  if (Status s = check_multiples(name, values, alignment, kernel.name); !s.is_ok()) return s;
  if (static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) %
                           static_cast<uintptr_t>(alignment)) != 0)
    return fail(Errc::invalid_argument,
                "attend: {}.data is not aligned, expected a multiple of {} ({})", name, alignment,
                kernel.name);
  const ScaleView& scales = view.scales;
  if (scales.dtype == DType::invalid) return {};
  const Stride of_scales[] = {{"scales.page_stride_bytes", scales.page_stride_bytes},
                              {"scales.slot_stride_bytes", scales.slot_stride_bytes},
                              {"scales.head_stride_bytes", scales.head_stride_bytes},
                              {"scales.granule_stride_bytes", scales.granule_stride_bytes}};
  if (Status s =
          check_multiples(name, of_scales, bit_width(scales.dtype) / 8, "the size of a scale");
      !s.is_ok())
    return s;
  if (!has_granules(view) || kernel.supports.features.has(granules)) return {};
  return fail(Errc::invalid_argument,
              "attend: {}.scales.granule_stride_bytes is {}, expected 0: {} was selected for one "
              "scale per token and head (from the problem)",
              name, scales.granule_stride_bytes, kernel.name);
}

}  // namespace

Status check_strides(const Kernel& kernel, const AttentionProblem& problem,
                     const AttentionArgs& args) noexcept {
  if (Status s = check_plane(kernel, "key", args.key, Feature::key_granules); !s.is_ok()) return s;
  if (problem.value_in_key) return {};
  return check_plane(kernel, "value", args.value, Feature::value_granules);
}

}  // namespace folio::inline v1
