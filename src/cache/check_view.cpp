// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_view.cpp: the border checks of planes and of their scales.
#include "cache/check_view.h"

#include "cache/check_reach.h"
#include "cache/granule_bytes.h"

namespace folio::inline v1 {
namespace {

/// Heads that are whole blocks, or bytes; scales beside packed rows, and none beside blocks.
Status check_elements(const char* function, const char* plane, const PagedKVView& view) {
  const int32_t elements = block_elements(view.dtype);
  if (view.head_size % elements != 0)
    return fail(Errc::invalid_argument, "{}: {}.head_size is {}, expected a multiple of {} ({})",
                function, plane, view.head_size, elements, view.dtype);
  const bool has_scales = view.scales.data != nullptr || view.scales.dtype != DType::invalid;
  if (detail::is_packed(view.dtype) && !has_scales)
    return fail(Errc::invalid_argument, "{}: {}.scales are missing, expected those of {}", function,
                plane, view.dtype);
  if (!detail::is_block(view.dtype) || !has_scales) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.scales are given, expected none: those of {} lie in its blocks", function,
              plane, view.dtype);
}

Status check_types(const char* function, const char* plane, const PagedKVView& view,
                   PlaneTypes types) {
  const bool is_any = types == PlaneTypes::any;
  if (is_any ? !detail::is_row_dtype(view.dtype) : !detail::is_plane_dtype(view.dtype))
    return fail(Errc::invalid_argument,
                is_any ? "{}: {} has dtype {}, expected f32, bf16, f16, f8_e4m3, f8_e5m2, i8, a "
                         "packed or a block format"
                       : "{}: {} has dtype {}, expected f32, bf16, f16, f8_e4m3, f8_e5m2 or i8",
                function, plane, view.dtype);
  if (is_any || (view.hadamard == Hadamard{} && !view.has_channel_scales)) return {};
  return fail(Errc::invalid_argument,
              "{}: {} has {}, expected rows as they are: only CPUs turn and scale them", function,
              plane, view.has_channel_scales ? "channel_scales" : "a hadamard rotation");
}

/// Beside the scale, not within it; 0 where there is no such zero point.
Status check_zero_offset(const char* function, const char* plane, const ScaleView& scales) {
  const int64_t zero = zero_point_bytes(scales), at = scales.zero_offset_bytes;
  if (zero == 0) {
    if (at == 0) return {};
    return fail(
        Errc::invalid_argument,
        "{}: {}.scales.zero_offset_bytes is {}, expected 0: no zero points lie beside these "
        "scales (scales.zeros)",
        function, plane, at);
  }
  const int64_t element = bit_width(scales.dtype) / 8;
  if (at <= -zero || at >= element) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.scales.zero_offset_bytes is {}, expected at least {} or at most {}: beside "
              "the scale",
              function, plane, at, element, -zero);
}

}  // namespace

Status check_zeros(const char* function, const char* owner, const char* member, DType dtype,
                   DType scale_dtype, Zeros zeros) noexcept {
  if (can_have_zeros(dtype, scale_dtype, zeros)) return {};
  if (zeros > Zeros::in_scale)
    return fail(Errc::invalid_argument, "{}: {}.{} is {}, expected a value of Zeros", function,
                owner, member, static_cast<int>(zeros));
  if (dtype != DType::u4 && dtype != DType::u4_halves)
    return fail(Errc::invalid_argument,
                "{}: {}.{} are given, expected none: {} has no zero points, u4 has", function,
                owner, member, dtype);
  if (zeros == Zeros::in_scale && scale_dtype != DType::f32)
    return fail(
        Errc::invalid_argument,
        "{}: {}.{} are in_scale beside scales of {}, expected f32, whose last bits they are",
        function, owner, member, scale_dtype);
  return fail(
      Errc::invalid_argument,
      "{}: {}.{} are minimum beside scales of {}, expected f32, f16 or bf16, as which they are "
      "stored",
      function, owner, member, scale_dtype);
}

Status check_hadamard(const char* function, const char* owner, const Hadamard& hadamard,
                      int32_t head_size) noexcept {
  if (can_be_turned(hadamard, head_size)) return {};
  return fail(Errc::invalid_argument,
              "{}: {}.hadamard.block is {}, expected a power of two from 16 to 512 that divides "
              "head_size {}",
              function, owner, hadamard.block, head_size);
}

Status check_channel_scales(const char* function, const char* plane,
                            const PagedKVView& view) noexcept {
  if ((view.channel_scales != nullptr) != view.has_channel_scales)
    return fail(Errc::invalid_argument,
                "{}: {}.channel_scales are {}, expected {} (has_channel_scales)", function, plane,
                view.has_channel_scales ? "null" : "given",
                view.has_channel_scales ? "factors of all columns" : "none");
  return check_aligned(function, plane, ".channel_scales", view.channel_scales,
                       natural_alignment(DType::f32));
}

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
  if (Status s = check_elements(function, plane, view); !s.is_ok()) return s;
  const ScaleView& scales = view.scales;
  if (Status s =
          check_zeros(function, plane, "scales.zeros", view.dtype, scales.dtype, scales.zeros);
      !s.is_ok())
    return s;
  if (Status s = check_hadamard(function, plane, view.hadamard, view.head_size); !s.is_ok())
    return s;
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
  const Stride strides[] = {
      {"scales.page_stride_bytes", scales.page_stride_bytes},
      {"scales.slot_stride_bytes", scales.slot_stride_bytes},
      {"scales.head_stride_bytes", scales.head_stride_bytes},
      {"scales.granule_stride_bytes", scales.granule_stride_bytes},
      {"scales.zero_offset_bytes", scales.zeros == Zeros::minimum ? scales.zero_offset_bytes : 0}};
  if (Status s = check_strides(function, plane, strides, natural_alignment(scales.dtype));
      !s.is_ok())
    return s;
  return check_zero_offset(function, plane, scales);
}

Status check_memory(const char* function, const char* plane, const PagedKVView& view) noexcept {
  if (view.num_pages < 0 || view.num_pages > 0xffffffff)
    return fail(Errc::invalid_argument,
                "{}: {}.num_pages is {}, expected 0 to 2^32 - 1 (page ids are uint32)", function,
                plane, view.num_pages);
  if (view.num_pages > 0 && view.data == nullptr)
    return fail(Errc::invalid_argument, "{}: {}.data is null, expected the memory of {} pages",
                function, plane, view.num_pages);
  if (Status s = check_channel_scales(function, plane, view); !s.is_ok()) return s;
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
  if (Status s = check_types(function, plane, view, types); !s.is_ok()) return s;
  if (Status s = check_form(function, plane, view); !s.is_ok()) return s;
  if (Status s = check_memory(function, plane, view); !s.is_ok()) return s;
  if (view.scales.data != nullptr) {
    if (Status s = check_form(function, plane, view.scales); !s.is_ok()) return s;
    if (Status s = check_memory(function, plane, view.scales); !s.is_ok()) return s;
  } else if (detail::is_packed(view.dtype)) {
    return fail(Errc::invalid_argument, "{}: {}.scales.data is null, expected the scales of {}",
                function, plane, view.dtype);
  }
  return check_reach(function, plane, view, view.num_pages);
}

}  // namespace folio::inline v1
