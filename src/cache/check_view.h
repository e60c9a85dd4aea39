// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_view.h: the border check of one plane, for every function that takes a
/// PagedKVView.
#pragma once

#include <cstdint>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// The types that planes store: f32, bf16, f16, f8_e4m3, f8_e5m2, i8.
constexpr bool is_plane_dtype(DType dtype) {
  return detail::is_supported(dtype) && dtype != DType::f8_e8m0;
}

/// Elements of one head that have a scale of their own.
constexpr int64_t granules_of(int32_t head_size, int32_t granularity) {
  return (static_cast<int64_t>(head_size) + granularity - 1) / granularity;
}

/// Slots of a page: page_size, or 1 where a page is a row of an unbounded plane.
constexpr int64_t slots_per_page(const PagedKVView& view) {
  return view.page_size == unbounded_page_size ? 1 : view.page_size;
}

/// Errors: invalid_argument, "<function>: <plane>...", for null data, a dtype that planes or scales
/// cannot have, extents < 1, a number of pages that page ids cannot reach, or a pointer or stride
/// that breaks the natural alignment of an element.
Status check_view(const char* function, const char* plane, const PagedKVView& view) noexcept;

}  // namespace folio::inline v1
