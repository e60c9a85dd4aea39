// SPDX-License-Identifier: Apache-2.0
/// src/cuda/copy/kernels.cpp: pairs of planes in a kernel's argument, the widest access that fits
/// each.
#include "cuda/copy/kernels.h"

#include <algorithm>

#include "cuda/copy/copy_lists.h"

namespace folio::cuda {
namespace {

constexpr int64_t warps_of_block = 8;
constexpr int64_t blocks_per_processor = 2;
static_assert(CopyLists<PageCopy>::threads == 32 * warps_of_block);

PagedKVView form_of(PagedKVView view) {
  if (view.scales.data == nullptr) view.scales = {};
  view.data = nullptr;
  view.scales.data = nullptr;
  view.scales.tensor_scale = nullptr;
  view.num_pages = 0;
  return view;
}

/// Zero bits below the lowest one that any address of a row has.
uint64_t low_bits(const PagedKVView& view) {
  uint64_t bits = reinterpret_cast<uintptr_t>(view.data) |
                  static_cast<uint64_t>(view.page_stride_bytes) |
                  static_cast<uint64_t>(view.head_size * int64_t{bit_width(view.dtype) / 8});
  if (view.page_size > 1) bits |= static_cast<uint64_t>(view.slot_stride_bytes);
  if (view.num_heads > 1) bits |= static_cast<uint64_t>(view.head_stride_bytes);
  return bits;
}

int32_t width_of(const PagedKVView& from, const PagedKVView& to) {
  const uint64_t bits = low_bits(from) | low_bits(to);
  for (const int32_t width : {16, 4, 2}) {
    if (bits % static_cast<uint64_t>(width) == 0) return width;
  }
  return 1;
}

CopyPlane plane_of(const PagedKVView& from, const PagedKVView& to) {
  CopyPlane plane;
  plane.from = static_cast<const std::byte*>(from.data);
  plane.to = static_cast<std::byte*>(to.data);
  plane.from_scales = static_cast<const std::byte*>(from.scales.data);
  plane.to_scales = static_cast<std::byte*>(to.scales.data);
  if (from.scales.data != nullptr) plane.from_tensor_scale = from.scales.tensor_scale;
  if (to.scales.data != nullptr) plane.to_tensor_scale = to.scales.tensor_scale;
  plane.width = width_of(from, to);
  return plane;
}

/// Warps' work of a pair: of both ways, where the device decides.
int64_t parts_of(const CopyForm& form, const CopyPlane& plane, bool of_pages) {
  const CopyShape shape = CopyShape::of(form, of_pages, plane.width);
  const int64_t converting = shape.converting_parts(form.from.num_heads);
  if (!form.moves) return converting;
  if (plane.from_tensor_scale == plane.to_tensor_scale) return shape.moving_parts();
  return std::max(converting, shape.moving_parts());
}

}  // namespace

CopyLaunch::CopyLaunch(const CopyListView& list) noexcept : of_pages_(list.of_pages) {
  call_.copies = list.copies;
  call_.num_copies = list.size;
  call_.from_limit = list.from_limit;
  call_.to_limit = list.to_limit;
}

bool CopyLaunch::add(const PagedKVView& from, const PagedKVView& to, bool moves,
                     bool scales_move) noexcept {
  const CopyForm form = {form_of(from), form_of(to), moves, scales_move};
  CopyForm* const end = call_.forms + call_.num_forms;
  CopyForm* const found = std::find(call_.forms, end, form);
  if (call_.num_planes == CopyCall::planes_max ||
      (found == end && call_.num_forms == CopyCall::forms_max))
    return false;
  if (found == end) call_.forms[call_.num_forms++] = form;
  CopyPlane& plane = call_.planes[call_.num_planes++];
  plane = plane_of(from, to);
  plane.form = static_cast<int32_t>(found - call_.forms);
  call_.parts = std::max(call_.parts, parts_of(form, plane, of_pages_));
  return true;
}

int64_t CopyLaunch::blocks(int32_t processors) const noexcept {
  const int64_t parts = call_.num_planes * call_.parts;
  return std::min(processors * blocks_per_processor, (parts + warps_of_block - 1) / warps_of_block);
}

}  // namespace folio::cuda
