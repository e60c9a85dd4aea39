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

/// Whether a function takes planes of blocks beside those of elements.
enum class PlaneTypes : uint8_t { elements, with_blocks };

/// Elements of one head that have a scale of their own.
constexpr int64_t granules_of(int32_t head_size, int32_t granularity) {
  return (static_cast<int64_t>(head_size) + granularity - 1) / granularity;
}

/// Slots of a page: page_size, or 1 where a page is a row of an unbounded plane.
constexpr int64_t slots_per_page(const PagedKVView& view) {
  return view.page_size == unbounded_page_size ? 1 : view.page_size;
}

/// A plane's form, whatever memory it lies in: extents of at least 1, strides that keep the natural
/// alignment of an element, page stride = slot stride over several unbounded pages. Any dtype;
/// heads of blocks are whole blocks, and have no scales beside.
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
