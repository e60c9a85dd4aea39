// SPDX-License-Identifier: Apache-2.0
/// python/src/pages.cpp: arrays as planes.
#include "pages.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <utility>

#include "plane_array.h"

namespace folio::python {
namespace {

/// Where the dimensions of an array of one order stand.
struct Axes {
  int slot, head;
};

Axes axes_of(const std::string& order) {
  if (order == "NHD") return {1, 2};
  if (order == "HND") return {2, 1};
  refuse_argument(
      "order: expected \"NHD\" ([pages, slots, heads, dim]) or \"HND\" ([pages, heads, slots, "
      "dim]), got \"{}\"",
      order);
}

int32_t narrow(const Array& array, int axis) {
  if (!std::in_range<int32_t>(array.extent[axis]))
    refuse_argument("{}: dimension {} has {} elements, expected at most 2^31 - 1", array.name, axis,
                    array.extent[axis]);
  return static_cast<int32_t>(array.extent[axis]);
}

void expect_contiguous(const Array& array) {
  const int last = array.ndim - 1;
  if (array.extent[last] > 1 && array.stride[last] != 1)
    refuse_argument("{}: expected a contiguous last dimension, got a stride of {} elements",
                    array.name, array.stride[last]);
}

/// The dtype of the elements: as the array says, or `given` for bytes that hold something else.
DType element_dtype(const Array& array, DType given) {
  if (given == DType::invalid) {
    if (array.dtype == DType::invalid)
      refuse_argument("{}: expected f32, f16, bf16, f8_e4m3, f8_e5m2 or i8, got {}", array.name,
                      array.description());
    return array.dtype;
  }
  if (block_elements(given) > 1) {
    if (array.type.bits != 8)
      refuse_argument("dtype: {} is stored as bytes, the elements of {} have {} bits", given,
                      array.name, static_cast<int>(array.type.bits));
    return given;
  }
  if (bit_width(given) != array.type.bits)
    refuse_argument("dtype: {} has {} bits, the elements of {} have {}", given, bit_width(given),
                    array.name, static_cast<int>(array.type.bits));
  return given;
}

/// Elements of a head whose row is the array's last dimension.
int32_t head_size_of(const Array& array, DType dtype) {
  const int axis = array.ndim - 1;
  const int32_t elements = block_elements(dtype);
  if (elements == 1) return narrow(array, axis);
  const int64_t bytes = row_bytes(dtype, elements);
  if (array.extent[axis] % bytes != 0)
    refuse_argument("{}: rows have {} bytes, expected a multiple of {} ({})", array.name,
                    array.extent[axis], bytes, dtype);
  if (!std::in_range<int32_t>(array.extent[axis] / bytes * elements))
    refuse_argument("{}: rows have {} bytes, expected less than 2^31 elements of {}", array.name,
                    array.extent[axis], dtype);
  return static_cast<int32_t>(array.extent[axis] / bytes * elements);
}

PagedKVView paged_view(const Array& array, const std::string& order, DType given) {
  const Axes axes = axes_of(order);
  if (array.ndim != 4 && array.ndim != 3)
    refuse_argument(
        "{}: expected 4 dimensions in order {}, or 3 [slots, heads, dim] (pages of one token), got "
        "{}",
        array.name, order, array.description());
  expect_contiguous(array);
  const bool one_token = array.ndim == 3;
  const int head = one_token ? 1 : axes.head, slot = one_token ? 0 : axes.slot;
  PagedKVView view;
  view.data = array.data;
  view.dtype = element_dtype(array, given);
  view.num_heads = narrow(array, head);
  view.head_size = head_size_of(array, view.dtype);
  view.page_size = one_token ? 1 : narrow(array, axes.slot);
  if (view.page_size < 1 || view.page_size == unbounded_page_size)
    refuse_argument("{}: expected pages of 1 to 2^31 - 2 slots, got {}", array.name,
                    array.description());
  view.num_pages = array.extent[0];
  view.page_stride_bytes = array.stride[0] * array.item_bytes();
  view.slot_stride_bytes = array.stride[slot] * array.item_bytes();
  view.head_stride_bytes = array.stride[head] * array.item_bytes();
  return view;
}

PagedKVView ragged_view(const Array& array) {
  expect_ndim(array, 3, "[rows, heads, dim]");
  expect_contiguous(array);
  const int64_t row = array.stride[0] * array.item_bytes();
  return {array.data,
          element_dtype(array, DType::invalid),
          narrow(array, 1),
          narrow(array, 2),
          unbounded_page_size,
          array.extent[0],
          row,
          row,
          array.stride[1] * array.item_bytes(),
          {}};
}

/// One number for the whole plane.
void add_number(PagedKVView& view, std::optional<float> number, Pages::Scales& memory) {
  if (!number) return;
  memory.number = std::make_unique<float>(*number);
  view.scales = {memory.number.get(), DType::f32, view.head_size, 0, 0, 0, 0, nullptr};
}

void add_scales(PagedKVView& view, nb::handle given, const std::string& order, const char* name,
                Pages::Scales& memory) {
  if (given.is_none()) return;
  double number = 0.0;
  if (nb::try_cast(given, number)) return add_number(view, static_cast<float>(number), memory);
  memory.array = array_of(given, name);
  const Array& a = memory.array;
  const Axes axes = axes_of(order);
  expect_ndim(a, 4, "[pages, slots, heads, granules] in the order of the values");
  const int64_t full[4] = {view.num_pages, axes.slot == 1 ? view.page_size : view.num_heads,
                           axes.slot == 1 ? view.num_heads : view.page_size, view.head_size};
  for (int i = 0; i < 4; ++i) {
    const bool fits = a.extent[i] == 1 || (i < 3 ? a.extent[i] == full[i]
                                                 : a.extent[i] > 0 && full[i] % a.extent[i] == 0);
    if (!fits)
      refuse_argument("{}: dimension {} has {} elements, expected 1 or {}{}", name, i, a.extent[i],
                      i < 3 ? "" : "a divisor of ", full[i]);
  }
  const auto stride = [&](int i) { return a.extent[i] == 1 ? 0 : a.stride[i] * a.item_bytes(); };
  view.scales = {a.data,
                 element_dtype(a, DType::invalid),
                 static_cast<int32_t>(view.head_size / a.extent[3]),
                 stride(0),
                 stride(axes.slot),
                 stride(axes.head),
                 stride(3),
                 nullptr};
}

/// Scales of a page or a slot are written with it; those of the whole plane are only read.
bool may_be_written(const ScaleView& view, const Pages::Scales& scales) {
  return scales.array.is_writable || (view.page_stride_bytes == 0 && view.slot_stride_bytes == 0);
}

/// An entry of a table is a page of both.
void expect_equal_counts(const KVPlanes& planes) {
  if (planes.key.num_pages != planes.value.num_pages)
    refuse_argument("value: expected as many pages as key, {}, got {}", planes.key.num_pages,
                    planes.value.num_pages);
}

void make_pages(Pages* self, nb::handle key, nb::handle value, const std::string& order,
                nb::handle key_scales, nb::handle value_scales, nb::handle dtype,
                nb::handle v_dtype) {
  const DType given = dtype.is_none() ? DType::invalid : dtype_of(dtype, "dtype");
  const DType given_v = v_dtype.is_none() ? given : dtype_of(v_dtype, "v_dtype");
  auto memory = std::make_shared<Pages::Memory>();
  memory->key = array_of(key, "key");
  KVPlanes planes;
  planes.key = paged_view(memory->key, order, given);
  add_scales(planes.key, key_scales, order, "key_scales", memory->key_scales);
  if (!value.is_none()) {
    memory->value = array_of(value, "value");
    planes.value = paged_view(memory->value, order, given_v);
    expect_equal_counts(planes);
    add_scales(planes.value, value_scales, order, "value_scales", memory->value_scales);
  } else if (!value_scales.is_none()) {
    refuse_argument("value_scales: given without value");
  } else if (!v_dtype.is_none()) {
    refuse_argument("v_dtype: given without value");
  }
  const bool writable = memory->key.is_writable && memory->value.is_writable &&
                        may_be_written(planes.key.scales, memory->key_scales) &&
                        may_be_written(planes.value.scales, memory->value_scales);
  new (self) Pages(planes, std::move(memory), writable);
}

Pages ragged_pages(nb::handle key, nb::handle value, std::optional<float> key_scales,
                   std::optional<float> value_scales) {
  auto memory = std::make_shared<Pages::Memory>();
  memory->key = array_of(key, "key");
  KVPlanes planes{.key = ragged_view(memory->key), .value = {}};
  add_number(planes.key, key_scales, memory->key_scales);
  if (!value.is_none()) {
    memory->value = array_of(value, "value");
    planes.value = ragged_view(memory->value);
    expect_equal_counts(planes);
    add_number(planes.value, value_scales, memory->value_scales);
  } else if (value_scales) {
    refuse_argument("value_scales: given without value");
  }
  const bool writable = memory->key.is_writable && memory->value.is_writable;
  return {planes, std::move(memory), writable};
}

int64_t alignment_of(int64_t stride) {
  return stride == 0 ? 0 : std::min<int64_t>(stride & -stride, 64);
}

}  // namespace

PagedKVView selection_of(const PagedKVView& view) {
  PagedKVView s = view;
  s.data = nullptr;
  s.num_pages = 0;
  s.scales.data = nullptr;
  s.scales.tensor_scale = nullptr;
  const bool heads_apart = std::abs(view.head_stride_bytes) > std::abs(view.slot_stride_bytes);
  s.page_stride_bytes = alignment_of(view.page_stride_bytes);
  s.slot_stride_bytes = alignment_of(view.slot_stride_bytes);
  s.head_stride_bytes = alignment_of(view.head_stride_bytes) + (heads_apart ? 4096 : 0);
  return s;
}

Pages::Pages(KVPlanes planes, std::shared_ptr<const Memory> memory, bool is_writable)
    : planes_(planes),
      selection_{selection_of(planes.key), selection_of(planes.value)},
      memory_(std::move(memory)),
      is_writable_(is_writable) {}

void Pages::expect_writable(const char* function) const {
  if (!is_writable_)
    refuse_argument("{}: pages: expected arrays that can be written, got a read-only one",
                    function);
}

std::vector<KVPlanes> planes_of(const nb::sequence& layers, const char* name, bool are_written) {
  std::vector<KVPlanes> planes;
  for (const nb::handle layer : layers) {
    if (!nb::isinstance<Pages>(layer))
      refuse_argument("{}[{}]: expected Pages", name, planes.size());
    const auto& pages = nb::cast<const Pages&>(layer);
    if (are_written) pages.expect_writable(name);
    planes.push_back(pages.planes());
  }
  return planes;
}

void bind_pages(nb::module_& m) {
  nb::class_<Pages>(m, "Pages",
                    "K and V of one layer: a view of arrays, to which it holds references.")
      .def("__init__", &make_pages, nb::arg("key"), nb::arg("value").none() = nb::none(),
           nb::kw_only(), nb::arg("order") = "NHD", nb::arg("key_scales").none() = nb::none(),
           nb::arg("value_scales").none() = nb::none(), nb::arg("dtype").none() = nb::none(),
           nb::arg("v_dtype").none() = nb::none(),
           R"(Sees arrays as pages; nothing is copied.

key, value: [pages, slots, heads, dim] (order "NHD") or [pages, heads, slots, dim] ("HND"); with
    three dimensions [slots, heads, dim], pages of one token. The last dimension is contiguous,
    every other stride is free: K and V may be slices of one array. Without value: a latent (MLA)
    cache, whose V lies inside K's rows.
key_scales, value_scales: a number, calibrated for the whole plane, or an array of the same order
    with scales instead of elements in the last dimension; extents of 1 broadcast.
dtype, v_dtype: what the bytes are where the array cannot say it ("f8_e4m3" in uint8); v_dtype:
    dtype, unless given. Rows of llama.cpp's block formats ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1",
    "iq4_nl") are bytes: 34 for each 32 elements of q8_0. append quantises as ggml's
    reference does.

Raises Error for other shapes, strides and dtypes, and for arrays that are not on the CPU.)")
      .def_static("ragged", &ragged_pages, nb::arg("key"), nb::arg("value").none() = nb::none(),
                  nb::kw_only(), nb::arg("key_scales") = nb::none(),
                  nb::arg("value_scales") = nb::none(),
                  R"(Rows without pages: [rows, heads, dim].

The entry of a sequence in the batch's table is its first row. key_scales, value_scales: a number,
for all rows. Raises Error as Pages.)")
      .def_prop_ro("num_pages", [](const Pages& p) { return p.planes().key.num_pages; })
      .def_prop_ro("page_size", [](const Pages& p) { return p.planes().key.page_size; })
      .def_prop_ro("kv_heads", [](const Pages& p) { return p.planes().key.num_heads; })
      .def_prop_ro("head_size", [](const Pages& p) { return p.planes().key.head_size; })
      .def_prop_ro(
          "v_head_size", [](const Pages& p) { return p.planes().value.head_size; },
          "Elements of a head of V; 0 for a latent cache.")
      .def_prop_ro("dtype", [](const Pages& p) { return name(p.planes().key.dtype); })
      .def_prop_ro("v_dtype",
                   [](const Pages& p) {
                     return name(p.is_latent() ? p.planes().key.dtype : p.planes().value.dtype);
                   })
      .def_prop_ro("is_latent", &Pages::is_latent)
      .def_prop_ro(
          "key",
          [](nb::handle_t<Pages> self) {
            return plane_array(self, nb::cast<const Pages&>(self).planes().key);
          },
          "K as an array [pages, slots, heads, dim] (DLPack) over the same memory; rows of a block "
          "format as uint8.")
      .def_prop_ro(
          "value",
          [](nb::handle_t<Pages> self) {
            return plane_array(self, nb::cast<const Pages&>(self).planes().value);
          },
          "V as `key`; None for a latent cache.");
}

}  // namespace folio::python
