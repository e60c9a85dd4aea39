// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_view.cpp: the border checks of planes and of their scales.
#include "cache/check_view.h"

#include "cache/check_reach.h"

namespace folio::inline v1 {
namespace {

Status check_blocks(const char* function, const char* plane, const PagedKVView& view) {
  const int32_t elements = block_elements(view.dtype);
  if (view.head_size % elements != 0)
    return fail(Errc::invalid_argument, "{}: {}.head_size is {}, expected a multiple of {} ({})",
                function, plane, view.head_size, elements, view.dtype);
  if (elements == 1 || (view.scales.data == nullptr && view.scales.dtype == DType::invalid))
    return {};
  return fail(Errc::invalid_argument,
              "{}: {}.scales are given, expected none: those of {} lie in its blocks", function,
              plane, view.dtype);
}

}  // namespace

Status check_form(const char* function, const char* plane, const PagedKVView& view) noexcept {
  const struct {
    const char* name;
    int64_t value;
  } extents[] = {
      {"num_heads", view.num_heads}, {"head_size", view.head_size}, {"page_size", view.page_size}};
  for (const auto& extent : extents) {
    if (extent.value >= 1) continue;
    return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected at least 1", function, plane,
                extent.name, extent.value);
  }
  if (Status s = check_blocks(function, plane, view); !s.is_ok()) return s;
  const Stride strides[] = {{"page_stride_bytes", view.page_stride_bytes},
                            {"slot_stride_bytes", view.slot_stride_bytes},
                            {"head_stride_bytes", view.head_stride_bytes}};
  if (Status s = check_strides(function, plane, strides, natural_alignment(view.dtype)); !s.is_ok())
    return s;
  if (view.page_size != unbounded_page_size || view.num_pages <= 1 ||
      view.page_stride_bytes == view.slot_stride_bytes)
    return {};
  return fail(Errc::invalid_argument,
              "{}: {}.page_stride_bytes is {}, expected {} (the slot stride: pages are unbounded, "
              "page ids are row numbers)",
              function, plane, view.page_stride_bytes, view.slot_stride_bytes);
}

Status check_form(const char* function, const char* plane, const ScaleView& scales) noexcept {
  if (!detail::is_scale_dtype(scales.dtype))
    return fail(Errc::invalid_argument,
                "{}: {}.scales.dtype is {}, expected f32, f16, bf16, f8_e8m0 or f8_e4m3", function,
                plane, scales.dtype);
  if (scales.granularity < 1)
    return fail(Errc::invalid_argument, "{}: {}.scales.granularity is {}, expected at least 1",
                function, plane, scales.granularity);
  const Stride strides[] = {{"scales.page_stride_bytes", scales.page_stride_bytes},
                            {"scales.slot_stride_bytes", scales.slot_stride_bytes},
                            {"scales.head_stride_bytes", scales.head_stride_bytes},
                            {"scales.granule_stride_bytes", scales.granule_stride_bytes}};
  return check_strides(function, plane, strides, natural_alignment(scales.dtype));
}

Status check_memory(const char* function, const char* plane, const PagedKVView& view) noexcept {
  if (view.num_pages < 0 || view.num_pages > 0xffffffff)
    return fail(Errc::invalid_argument,
                "{}: {}.num_pages is {}, expected 0 to 2^32 - 1 (page ids are uint32)", function,
                plane, view.num_pages);
  if (view.num_pages > 0 && view.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected the memory of {} pages",
                function, plane, view.num_pages);
  return check_aligned(function, plane, ".data", view.data, natural_alignment(view.dtype));
}

Status check_memory(const char* function, const char* plane, const ScaleView& scales) noexcept {
  if (Status s = check_aligned(function, plane, ".scales.data", scales.data,
                               natural_alignment(scales.dtype));
      !s.is_ok())
    return s;
  return check_aligned(function, plane, ".scales.tensor_scale", scales.tensor_scale,
                       natural_alignment(DType::f32));
}

Status check_alignment(const char* function, const char* plane, const PagedKVView& view,
                       const Alignment& alignment) noexcept {
  const Stride strides[] = {{"page_stride_bytes", view.page_stride_bytes},
                            {"slot_stride_bytes", view.slot_stride_bytes},
                            {"head_stride_bytes", view.head_stride_bytes}};
  if (Status s = check_strides(function, plane, strides, alignment); !s.is_ok()) return s;
  return check_aligned(function, plane, ".data", view.data, alignment);
}

Status check_places(const char* function, const char* plane, const PagedKVView& view) noexcept {
  const struct {
    const char* name;
    int64_t stride;
    int64_t extent;
  } dims[] = {{"head_stride_bytes", view.head_stride_bytes, view.num_heads},
              {"slot_stride_bytes", view.slot_stride_bytes, view.page_size},
              {"page_stride_bytes", view.page_stride_bytes, view.num_pages}};
  for (const auto& dim : dims) {
    if (dim.stride != 0 || dim.extent <= 1) continue;
    return fail(Errc::invalid_argument,
                "{}: {}.{} is 0 over {} elements, expected a place for each", function, plane,
                dim.name, dim.extent);
  }
  return {};
}

Status check_view(const char* function, const char* plane, const PagedKVView& view,
                  PlaneTypes types) noexcept {
  if (view.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected the plane's memory",
                function, plane);
  const bool is_taken = types == PlaneTypes::with_blocks && detail::is_block(view.dtype);
  if (!is_taken && !detail::is_plane_dtype(view.dtype))
    return fail(Errc::invalid_argument,
                types == PlaneTypes::with_blocks
                    ? "{}: {} has dtype {}, expected f32, bf16, f16, f8_e4m3, f8_e5m2, i8 or a "
                      "block format"
                    : "{}: {} has dtype {}, expected f32, bf16, f16, f8_e4m3, f8_e5m2 or i8",
                function, plane, view.dtype);
  if (Status s = check_form(function, plane, view); !s.is_ok()) return s;
  if (Status s = check_memory(function, plane, view); !s.is_ok()) return s;
  if (view.scales.data != nullptr) {
    if (Status s = check_form(function, plane, view.scales); !s.is_ok()) return s;
    if (Status s = check_memory(function, plane, view.scales); !s.is_ok()) return s;
  }
  return check_reach(function, plane, view, view.num_pages);
}

}  // namespace folio::inline v1
