// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_view.h: the border checks of planes and of their scales, for every function that
/// takes a PagedKVView.
///
/// Compares of numbers: nothing that a view describes is read. Every error is invalid_argument and
/// begins with "<function>: <plane>", with the field, what came and what was expected. `check_view`
/// is all of them but `check_places`; who knows less of a plane, or more, calls the parts.
#pragma once

#include <cstdint>

#include "cache/check_alignment.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Whether a function takes all planes, or those alone whose rows are elements as they were given:
/// neither packed nor in blocks, neither rotated nor scaled by channels.
enum class PlaneTypes : uint8_t { elements, any };

/// Elements of one head that have a scale of their own.
constexpr int64_t granules_of(int32_t head_size, int32_t granularity) {
  return (static_cast<int64_t>(head_size) + granularity - 1) / granularity;
}

/// Slots of a page: page_size, or 1 where a page is a row of an unbounded plane.
constexpr int64_t slots_per_page(const PagedKVView& view) {
  return view.page_size == unbounded_page_size ? 1 : view.page_size;
}

/// Whether scales of `scale_dtype` beside elements of `dtype` can have such zero points.
constexpr bool can_have_zeros(DType dtype, DType scale_dtype, Zeros zeros) {
  const bool is_u4 = dtype == DType::u4 || dtype == DType::u4_halves;
  switch (zeros) {
    case Zeros::none: return true;
    case Zeros::patterns: return is_u4;
    case Zeros::minimum: return is_u4 && bit_width(scale_dtype) >= 16;
    case Zeros::in_scale: return is_u4 && scale_dtype == DType::f32;
  }
  return false;
}

/// Whether heads of `head_size` can be turned so. A block of 0 is no rotation, and has no signs.
constexpr bool can_be_turned(const Hadamard& hadamard, int32_t head_size) {
  const int32_t block = hadamard.block;
  if (block == 0) return hadamard.sign_seed == 0;
  return block >= 16 && block <= 512 && (block & (block - 1)) == 0 && head_size % block == 0;
}

/// Zero points that scales of `scale_dtype` beside elements of `dtype` can have. owner.member: what
/// says so.
[[nodiscard]] Status check_zeros(const char* function, const char* owner, const char* member,
                                 DType dtype, DType scale_dtype, Zeros zeros) noexcept;

/// A rotation that heads of `head_size` can have. `owner`: whose member `hadamard` is.
[[nodiscard]] Status check_hadamard(const char* function, const char* owner,
                                    const Hadamard& hadamard, int32_t head_size) noexcept;

/// Channel scales as has_channel_scales says, and aligned; what they are is not looked at.
[[nodiscard]] Status check_channel_scales(const char* function, const char* plane,
                                          const PagedKVView& view) noexcept;

/// A plane's form, whatever memory it lies in: extents of at least 1, strides that keep the natural
/// alignment of an element, page stride = slot stride over several unbounded pages. Any dtype;
/// heads are whole blocks, or bytes; packed rows have scales beside them, blocks have none; zero
/// points and a rotation that there can be.
[[nodiscard]] Status check_form(const char* function, const char* plane,
                                const PagedKVView& view) noexcept;

/// The form of scales that there are: dtype, granularity, strides.
[[nodiscard]] Status check_form(const char* function, const char* plane,
                                const ScaleView& scales) noexcept;

/// Where a plane lies: as many pages as ids can reach, data for them, aligned elements.
[[nodiscard]] Status check_memory(const char* function, const char* plane,
                                  const PagedKVView& view) noexcept;

/// Where scales lie: aligned elements, an aligned tensor_scale. Null is aligned.
[[nodiscard]] Status check_memory(const char* function, const char* plane,
                                  const ScaleView& scales) noexcept;

/// Values that are aligned beyond their elements: data and strides.
[[nodiscard]] Status check_alignment(const char* function, const char* plane,
                                     const PagedKVView& view, const Alignment& alignment) noexcept;

/// Of a plane that is written: each head, slot and page has a place of its own, no stride is 0 over
/// several.
[[nodiscard]] Status check_places(const char* function, const char* plane,
                                  const PagedKVView& view) noexcept;

/// A plane that is read or written: data, a dtype that planes have, form, memory and reach of
/// values, and of scales where they have data.
[[nodiscard]] Status check_view(const char* function, const char* plane, const PagedKVView& view,
                                PlaneTypes types = PlaneTypes::elements) noexcept;

}  // namespace folio::inline v1
