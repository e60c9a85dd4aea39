// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_view.cpp: the border check of one plane.
#include "cache/check_view.h"

#include <span>

#include "cache/check_reach.h"

namespace folio::inline v1 {
namespace {

struct Number {
  const char* name;
  int64_t value;
};

Status check_alignment(const char* function, const char* plane, const char* member,
                       const void* data, std::span<const Number> strides, int64_t element) {
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(element) != 0) {
    return fail(Errc::invalid_argument, "{}: {}.{} is not aligned, expected a multiple of {} bytes",
                function, plane, member, element);
  }
  for (const Number& stride : strides) {
    if (stride.value % element == 0) continue;
    return fail(Errc::invalid_argument,
                "{}: {}.{} is {}, expected a multiple of the element's {} bytes", function, plane,
                stride.name, stride.value, element);
  }
  return {};
}

Status check_scales(const char* function, const char* plane, const ScaleView& scales) {
  if (!detail::is_scale_dtype(scales.dtype)) {
    return fail(Errc::invalid_argument,
                "{}: {}.scales.dtype is {}, expected f32, f16, bf16, f8_e8m0 or f8_e4m3", function,
                plane, scales.dtype);
  }
  if (scales.granularity < 1) {
    return fail(Errc::invalid_argument, "{}: {}.scales.granularity is {}, expected at least 1",
                function, plane, scales.granularity);
  }
  if (reinterpret_cast<uintptr_t>(scales.tensor_scale) % alignof(float) != 0) {
    return fail(Errc::invalid_argument,
                "{}: {}.scales.tensor_scale is not aligned, expected a multiple of 4 bytes",
                function, plane);
  }
  const Number strides[] = {{"scales.page_stride_bytes", scales.page_stride_bytes},
                            {"scales.slot_stride_bytes", scales.slot_stride_bytes},
                            {"scales.head_stride_bytes", scales.head_stride_bytes},
                            {"scales.granule_stride_bytes", scales.granule_stride_bytes}};
  return check_alignment(function, plane, "scales.data", scales.data, strides,
                         bit_width(scales.dtype) / 8);
}

}  // namespace

Status check_view(const char* function, const char* plane, const PagedKVView& view) noexcept {
  if (view.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected the plane's memory",
                function, plane);
  if (!is_plane_dtype(view.dtype)) {
    return fail(Errc::invalid_argument,
                "{}: {} has dtype {}, expected f32, bf16, f16, f8_e4m3, f8_e5m2 or i8", function,
                plane, view.dtype);
  }
  const Number extents[] = {
      {"num_heads", view.num_heads}, {"head_size", view.head_size}, {"page_size", view.page_size}};
  for (const Number& extent : extents) {
    if (extent.value >= 1) continue;
    return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected at least 1", function, plane,
                extent.name, extent.value);
  }
  if (view.num_pages < 0 || view.num_pages > 0xffffffff) {
    return fail(Errc::invalid_argument,
                "{}: {}.num_pages is {}, expected 0 to 2^32 - 1 (page ids are uint32)", function,
                plane, view.num_pages);
  }
  const Number strides[] = {{"page_stride_bytes", view.page_stride_bytes},
                            {"slot_stride_bytes", view.slot_stride_bytes},
                            {"head_stride_bytes", view.head_stride_bytes}};
  if (Status s =
          check_alignment(function, plane, "data", view.data, strides, bit_width(view.dtype) / 8);
      !s.is_ok())
    return s;
  if (view.scales.data != nullptr) {
    if (Status s = check_scales(function, plane, view.scales); !s.is_ok()) return s;
  }
  return check_reach(function, plane, view, view.num_pages);
}

}  // namespace folio::inline v1
