// SPDX-License-Identifier: Apache-2.0
/// python/src/plane_array.cpp: planes as other libraries see them.
#include "plane_array.h"

#include "pages.h"

namespace folio::python {
namespace {

/// What a row of a plane is to other libraries: elements, or the bytes that hold them.
struct Row {
  nb::dlpack::dtype type;
  int64_t extent, item_bytes;
};

Row row_of(const PagedKVView& view) {
  if (block_elements(view.dtype) > 1)
    return {nb::dtype<uint8_t>(), row_bytes(view.dtype, view.head_size), 1};
  return {dlpack_of(view.dtype), view.head_size, bit_width(view.dtype) / 8};
}

}  // namespace

nb::object plane_array(nb::handle pages, const PagedKVView& view) {
  if (view.data == nullptr) return nb::none();
  const Row row = row_of(view);
  const bool is_ragged = view.page_size == unbounded_page_size;
  const size_t shape[4] = {static_cast<size_t>(view.num_pages),
                           is_ragged ? 1 : static_cast<size_t>(view.page_size),
                           static_cast<size_t>(view.num_heads), static_cast<size_t>(row.extent)};
  const int64_t strides[4] = {view.page_stride_bytes / row.item_bytes,
                              view.slot_stride_bytes / row.item_bytes,
                              view.head_stride_bytes / row.item_bytes, 1};
  if (!nb::cast<const Pages&>(pages).is_writable())
    return nb::cast(nb::ndarray<nb::array_api, nb::ro>(view.data, 4, shape, pages, strides,
                                                       row.type, nb::device::cpu::value));
  return nb::cast(nb::ndarray<nb::array_api>(view.data, 4, shape, pages, strides, row.type,
                                             nb::device::cpu::value));
}

}  // namespace folio::python
