// SPDX-License-Identifier: Apache-2.0
/// tier/page_parts.cpp: the first and the last byte of a page, by its strides.
#include "tier/page_parts.h"

#include <initializer_list>

#include "cache/check_view.h"
#include "folio/cache/page_walk.h"

namespace folio::inline v1::tier {
namespace {

struct Axis {
  int64_t count, stride_bytes;
};

PagePart part_of(std::byte* first, int64_t bytes, std::initializer_list<Axis> axes) {
  PagePart part{first, first + bytes};
  for (const Axis& axis : axes)
    (axis.stride_bytes < 0 ? part.begin : part.end) += (axis.count - 1) * axis.stride_bytes;
  return part;
}

}  // namespace

PagePart part_of_rows(const PagedKVView& view, int64_t page) noexcept {
  return part_of(
      detail::row_of(view, page, 0, 0), row_bytes(view.dtype, view.head_size),
      {{slots_per_page(view), view.slot_stride_bytes}, {view.num_heads, view.head_stride_bytes}});
}

PagePart part_of_granules(const PagedKVView& view, int64_t page,
                          const GranuleBytes::Run& run) noexcept {
  const ScaleView& scales = view.scales;
  return part_of(
      static_cast<std::byte*>(scales.data) + run.offset +
          detail::scale_offset_bytes(scales, page, 0, 0, 0),
      run.bytes,
      {{slots_per_page(view), scales.slot_stride_bytes},
       {view.num_heads, scales.head_stride_bytes},
       {scales.granule_stride_bytes == 0 ? 1 : granules_of(view.head_size, scales.granularity),
        scales.granule_stride_bytes}});
}

}  // namespace folio::inline v1::tier
