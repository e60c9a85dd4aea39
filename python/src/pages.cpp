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

/// The dtype of the elements: as the array says, or `given`, by the argument `name`, for bytes that
/// hold something else.
DType element_dtype(const Array& array, DType given, const char* name = "dtype") {
  if (given == DType::invalid) {
    if (array.dtype == DType::invalid)
      refuse_argument("{}: expected f32, f16, bf16, f8_e4m3, f8_e5m2 or i8, got {}", array.name,
                      array.description());
    return array.dtype;
  }
  if (block_elements(given) > 1) {
    if (array.type.bits != 8)
      refuse_argument("{}: {} is stored as bytes, the elements of {} have {} bits", name, given,
                      array.name, static_cast<int>(array.type.bits));
    return given;
  }
  if (bit_width(given) != array.type.bits)
    refuse_argument("{}: {} has {} bits, the elements of {} have {}", name, given, bit_width(given),
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
  view.scales.data = memory.number.get();
  view.scales.dtype = DType::f32;
  view.scales.granularity = view.head_size;
}

/// The arguments that say where the scales of a plane are, and their names.
struct ScaleArguments {
  nb::handle scales, zeros;
  const char *name, *zeros_name;
};

/// Elements of a head for each of `granules` scales.
int32_t granularity_of(const PagedKVView& view, const Format* format, int64_t granules,
                       const char* name) {
  const int32_t head_size = view.head_size;
  if (granules == 1) return head_size;
  if (format == nullptr || !format->granularity) {
    if (granules < 1 || head_size % granules != 0)
      refuse_argument("{}: dimension 3 has {} elements, expected 1 or a divisor of {}", name,
                      granules, head_size);
    return static_cast<int32_t>(head_size / granules);
  }
  const int64_t granularity = *format->granularity;
  const int64_t expected = (head_size + granularity - 1) / granularity;
  if (granules != expected)
    refuse_argument("{}: dimension 3 has {} elements, expected 1 or {} (granules of {})", name,
                    granules, expected, granularity);
  return static_cast<int32_t>(granularity);
}

/// Bytes from index to index; 0 over a single one.
int64_t stride_bytes(const Array& a, int axis) {
  return a.extent[axis] == 1 ? 0 : a.stride[axis] * a.item_bytes();
}
/// The same of the slots of pages of `page_size`: a page of one slot has a scale of its own for it.
int64_t slot_stride_bytes(const Array& a, int axis, int64_t page_size) {
  return page_size == 1 ? a.item_bytes() : stride_bytes(a, axis);
}

/// Zero points beside scales: at one distance from each.
void add_zeros(PagedKVView& view, const ScaleArguments& arguments, Zeros zeros,
               Pages::Scales& memory) {
  view.scales.zeros = zeros;
  const bool is_beside = zeros == Zeros::patterns || zeros == Zeros::minimum;
  if (!is_beside && !arguments.zeros.is_none())
    refuse_argument("{}: given, the dtype has none beside its scales", arguments.zeros_name);
  if (!is_beside) return;
  const Array &scales = memory.array, &a = memory.zeros;
  if (arguments.zeros.is_none() || scales.data == nullptr)
    refuse_argument("{}: expected an array beside one of scales", arguments.zeros_name);
  memory.zeros = array_of(arguments.zeros, arguments.zeros_name);
  bool fits = a.ndim == scales.ndim && (zeros == Zeros::patterns ? a.type == nb::dtype<uint8_t>()
                                                                 : a.dtype == view.scales.dtype);
  for (int i = 0; fits && i < scales.ndim; ++i)
    fits = a.extent[i] == scales.extent[i] && stride_bytes(a, i) == stride_bytes(scales, i);
  if (!fits)
    refuse_argument("{}: expected {} of the shape and the byte strides of {}, {}, got {}",
                    arguments.zeros_name,
                    zeros == Zeros::patterns ? "uint8" : folio::name(view.scales.dtype),
                    arguments.name, scales.description(), a.description());
  view.scales.zero_offset_bytes =
      reinterpret_cast<intptr_t>(a.data) - reinterpret_cast<intptr_t>(scales.data);
}

void add_scale_array(PagedKVView& view, const Format* format, const std::string& order,
                     const ScaleArguments& arguments, Pages::Scales& memory) {
  memory.array = array_of(arguments.scales, arguments.name);
  const Array& a = memory.array;
  const Axes axes = axes_of(order);
  expect_ndim(a, 4, "[pages, slots, heads, granules] in the order of the values");
  const int64_t full[3] = {view.num_pages, axes.slot == 1 ? view.page_size : view.num_heads,
                           axes.slot == 1 ? view.num_heads : view.page_size};
  for (int i = 0; i < 3; ++i)
    if (a.extent[i] != 1 && a.extent[i] != full[i])
      refuse_argument("{}: dimension {} has {} elements, expected 1 or {}", arguments.name, i,
                      a.extent[i], full[i]);
  const DType given =
      format != nullptr ? format->scale_dtype.value_or(DType::invalid) : DType::invalid;
  if (given != DType::invalid && a.dtype != DType::invalid && a.dtype != given)
    refuse_argument("{}: expected {} (scale_dtype), got {}", arguments.name, given,
                    a.description());
  view.scales.data = a.data;
  view.scales.dtype = element_dtype(a, given, "scale_dtype");
  view.scales.granularity = granularity_of(view, format, a.extent[3], arguments.name);
  view.scales.page_stride_bytes = stride_bytes(a, 0);
  view.scales.slot_stride_bytes = slot_stride_bytes(a, axes.slot, view.page_size);
  view.scales.head_stride_bytes = stride_bytes(a, axes.head);
  view.scales.granule_stride_bytes = stride_bytes(a, 3);
}

/// What a plane has beside its elements. `dtype_name`: the argument that `format` is from.
void add_scales(PagedKVView& view, const Format* format, const char* dtype_name,
                const std::string& order, const ScaleArguments& arguments, Pages::Scales& memory) {
  double number = 0.0;
  if (arguments.scales.is_none()) {
    if (detail::is_packed(view.dtype))
      refuse_argument("{}: expected those of {}, got None", arguments.name, view.dtype);
  } else if (nb::try_cast(arguments.scales, number)) {
    add_number(view, static_cast<float>(number), memory);
  } else {
    add_scale_array(view, format, order, arguments, memory);
  }
  add_zeros(view, arguments, format != nullptr ? format->zeros : Zeros::none, memory);
  if (format == nullptr) return;
  if (!format->tensor_scales.empty() && view.scales.data == nullptr)
    refuse_argument("{}: expected scales beside tensor_scale, got None", arguments.name);
  format->put(view, dtype_name);
}

/// Scales of a page or a slot are written with it; those of the whole plane are only read.
bool may_be_written(const ScaleView& view, const Pages::Scales& scales) {
  return (scales.array.is_writable && scales.zeros.is_writable) ||
         (view.page_stride_bytes == 0 && view.slot_stride_bytes == 0);
}

/// An entry of a table is a page of both.
void expect_equal_counts(const KVPlanes& planes) {
  if (planes.key.num_pages != planes.value.num_pages)
    refuse_argument("value: expected as many pages as key, {}, got {}", planes.key.num_pages,
                    planes.value.num_pages);
}

void expect_none_without_value(std::initializer_list<std::pair<const char*, nb::handle>> given) {
  for (const auto& [name, argument] : given)
    if (!argument.is_none()) refuse_argument("{}: given without value", name);
}

DType dtype_of(const SharedFormat& format) {
  return format != nullptr ? format->dtype : DType::invalid;
}

/// dtype and v_dtype, of which both may be None: null, as the arrays say.
FormatPair formats_of_arrays(nb::handle dtype, nb::handle v_dtype, bool has_value) {
  if (!dtype.is_none()) return formats_of(dtype, v_dtype, has_value);
  return {nullptr, v_dtype.is_none() ? nullptr : format_of(v_dtype, "v_dtype")};
}

void make_pages(Pages* self, nb::handle key, nb::handle value, const std::string& order,
                nb::handle key_scales, nb::handle value_scales, nb::handle key_zeros,
                nb::handle value_zeros, nb::handle dtype, nb::handle v_dtype) {
  const bool has_value = !value.is_none();
  if (!has_value)
    expect_none_without_value(
        {{"value_scales", value_scales}, {"value_zeros", value_zeros}, {"v_dtype", v_dtype}});
  const FormatPair formats = formats_of_arrays(dtype, v_dtype, has_value);
  auto memory = std::make_shared<Pages::Memory>();
  memory->key_format = formats.key;
  memory->value_format = formats.value;
  memory->key = array_of(key, "key");
  KVPlanes planes;
  planes.key = paged_view(memory->key, order, dtype_of(formats.key));
  add_scales(planes.key, formats.key.get(), "dtype", order,
             {key_scales, key_zeros, "key_scales", "key_zeros"}, memory->key_scales);
  if (has_value) {
    memory->value = array_of(value, "value");
    planes.value = paged_view(memory->value, order, dtype_of(formats.value));
    expect_equal_counts(planes);
    add_scales(planes.value, formats.value.get(), v_dtype.is_none() ? "dtype" : "v_dtype", order,
               {value_scales, value_zeros, "value_scales", "value_zeros"}, memory->value_scales);
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
  s.scales.zero_offset_bytes = 0;
  s.channel_scales = nullptr;
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
           nb::arg("value_scales").none() = nb::none(), nb::arg("key_zeros").none() = nb::none(),
           nb::arg("value_zeros").none() = nb::none(), nb::arg("dtype").none() = nb::none(),
           nb::arg("v_dtype").none() = nb::none(),
           R"(Sees arrays as pages; nothing is copied.

key, value: [pages, slots, heads, dim] (order "NHD") or [pages, heads, slots, dim] ("HND"); with
    three dimensions [slots, heads, dim], pages of one token. The last dimension is contiguous,
    every other stride is free: K and V may be slices of one array. Without value: a latent (MLA)
    cache, whose V lies inside K's rows.
key_scales, value_scales: a number, calibrated for the whole plane, or an array of the same order
    with scales instead of elements in the last dimension; extents of 1 broadcast.
key_zeros, value_zeros: zero points, where a Format's zeros are "patterns" (uint8) or "minimum"
    (the scales' dtype): of the scales' shape and byte strides, as slices of one array are.
dtype, v_dtype: a Format, or a dtype's name: what the bytes are where the array cannot say it
    ("f8_e4m3" in uint8), and how rows are turned; v_dtype: dtype, unless given. Of a Format's
    scale_dtype and granularity counts what is given: the arrays say the rest. Rows of four bits are
    uint8, half as many as elements; rows of llama.cpp's block formats ("q8_0", "q4_0", "q4_1",
    "q5_0", "q5_1", "iq4_nl") are bytes, too: 34 for each 32 elements of q8_0. append quantises
    these as ggml's reference does.

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
          "K as an array [pages, slots, heads, dim] (DLPack) over the same memory; rows of four "
          "bits "
          "and of a block format as uint8.")
      .def_prop_ro(
          "value",
          [](nb::handle_t<Pages> self) {
            return plane_array(self, nb::cast<const Pages&>(self).planes().value);
          },
          "V as `key`; None for a latent cache.");
}

}  // namespace folio::python
