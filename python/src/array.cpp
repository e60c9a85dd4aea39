// SPDX-License-Identifier: Apache-2.0
/// python/src/array.cpp: reads arrays, with messages for everything that is none.
#include "array.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

#include "dtype_names.h"
#include "exchange.h"

namespace folio::python {
namespace {

constexpr int32_t cpu = nb::device::cpu::value, cuda_host = nb::device::cuda_host::value;

std::string python_type(nb::handle object) {
  return nb::cast<std::string>(
      nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__name__"));
}

/// The text of the Python exception that is set, which is cleared.
std::string take_python_error() {
  try {
    throw nb::python_error();
  } catch (const nb::python_error& e) {
    return nb::cast<std::string>(nb::str(e.value()));
  }
}

void fill(Array& array, const nb::dlpack::dltensor& t) {
  if (t.device.device_type != cpu && t.device.device_type != cuda_host)
    refuse_argument("{}: expected an array on the CPU, got one on DLPack device type {}",
                    array.name, t.device.device_type);
  if (t.ndim > Array::max_ndim)
    refuse_argument("{}: expected at most {} dimensions, got {}", array.name, Array::max_ndim,
                    t.ndim);
  array.data = static_cast<std::byte*>(t.data) + t.byte_offset;
  array.type = t.dtype;
  array.dtype = dtype_of_dlpack(t.dtype);
  array.ndim = t.ndim;
  int64_t dense = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    array.extent[i] = t.shape[i];
    array.stride[i] = t.strides != nullptr ? t.strides[i] : dense;
    dense *= std::max<int64_t>(t.shape[i], 1);
  }
  if (std::find(t.shape, t.shape + t.ndim, 0) == t.shape + t.ndim) return;
  // Of an array without elements, strides may be anything.
  dense = 1;
  for (int i = t.ndim - 1; i >= 0; --i) {
    array.stride[i] = dense;
    dense *= std::max<int64_t>(t.shape[i], 1);
  }
}

nb::dlpack::dltensor described(const nb::ndarray<nb::ro>& a) {
  nb::dlpack::dltensor t;
  t.data = a.data_handle();
  t.device = {a.device_type(), a.device_id()};
  t.ndim = static_cast<int32_t>(a.ndim());
  t.dtype = a.dtype();
  t.shape = const_cast<int64_t*>(a.shape_ptr());
  t.strides = const_cast<int64_t*>(a.stride_ptr());
  t.byte_offset = a.byte_offset();
  return t;
}

/// jax's arrays never change, which DLPack does not say of them.
bool is_immutable(nb::handle object) {
  const nb::object module =
      nb::getattr(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))), "__module__");
  std::string text;
  return nb::try_cast(module, text) && text.starts_with("jax");
}

/// An array by `__dlpack__` or the buffer protocol. False: `object` is no such array.
bool import(Array& array, nb::handle object) {
  nb::ndarray<> writable;
  if (nb::try_cast(object, writable, false)) {
    array.imported = nb::ndarray<nb::ro>(writable);
    array.is_writable = !is_immutable(object);
  } else if (nb::try_cast(object, array.imported, false)) {
    array.is_writable = false;
  } else {
    return false;
  }
  fill(array, described(array.imported));
  return true;
}

/// numpy's own elements, which it hands out itself unless their bytes or strides are unfit.
bool is_of_numpy(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::i8;
}

/// numpy's arrays of ml_dtypes: their bytes as integers, and the name of their dtype.
bool import_by_name(Array& array, nb::handle object) {
  if (!nb::hasattr(object, "view") || !nb::hasattr(object, "dtype")) return false;
  const nb::object type = object.attr("dtype");
  if (!nb::hasattr(type, "name") || !nb::hasattr(type, "isnative")) return false;
  if (!nb::cast<bool>(type.attr("isnative"))) return false;
  const DType dtype = dtype_named(nb::cast<std::string>(nb::str(type.attr("name"))));
  if (dtype == DType::invalid || is_of_numpy(dtype) || block_elements(dtype) > 1) return false;
  array.owner = object.attr("view")(bit_width(dtype) == 16 ? "uint16" : "uint8");
  if (!import(array, array.owner)) return false;
  array.dtype = dtype;
  array.type = dlpack_of(dtype);
  return true;
}

template <class Target, class Source>
void copy_ints(const Array& array, std::vector<Target>& out) {
  for (int64_t i = 0; i < array.extent[0]; ++i) {
    const Source x = static_cast<const Source*>(array.data)[i * array.stride[0]];
    if (!std::in_range<Target>(x))
      refuse_argument("{}[{}] is {}, expected a {}-bit integer", array.name, i,
                      static_cast<int64_t>(x), static_cast<int>(sizeof(Target) * 8));
    out[static_cast<size_t>(i)] = static_cast<Target>(x);
  }
}

template <class Target>
std::vector<Target> ints_of_list(nb::handle object, const char* name) {
  std::vector<Target> out;
  for (const nb::handle item : nb::borrow<nb::sequence>(object)) {
    // Whatever counts as an index: numpy's integers too, floats not.
    const nb::object number = nb::steal(PyNumber_Index(item.ptr()));
    const long long value = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
    const bool is_int = PyErr_Occurred() == nullptr;
    PyErr_Clear();
    if (!is_int || !std::in_range<Target>(value))
      refuse_argument("{}[{}] is {}, expected a {}-bit integer", name, out.size(),
                      nb::cast<std::string>(nb::repr(item)), static_cast<int>(sizeof(Target) * 8));
    out.push_back(static_cast<Target>(value));
  }
  return out;
}

template <class Target>
std::vector<Target> ints_of(nb::handle object, const char* name) {
  if (nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object))
    return ints_of_list<Target>(object, name);
  const Array array = array_of(object, name);
  expect_ndim(array, 1, "[n]");
  std::vector<Target> out(static_cast<size_t>(array.extent[0]));
  if (array.type == nb::dtype<int32_t>()) {
    copy_ints<Target, int32_t>(array, out);
  } else if (array.type == nb::dtype<int64_t>()) {
    copy_ints<Target, int64_t>(array, out);
  } else if (array.type == nb::dtype<uint32_t>()) {
    copy_ints<Target, uint32_t>(array, out);
  } else {
    refuse_argument("{}: expected int32, int64 or uint32, got {}", name, array.description());
  }
  return out;
}

template <class Tensor>
Tensor as_tensor(const Array& array, int64_t rows) {
  expect_ndim(array, 3, "[tokens, heads, dim]");
  if (array.dtype == DType::invalid)
    refuse_argument("{}: expected f32, bf16 or f16, got {}", array.name, array.description());
  if (array.extent[2] > 1 && array.stride[2] != 1)
    refuse_argument("{}: expected a contiguous last dimension, got a stride of {} elements",
                    array.name, array.stride[2]);
  Tensor tensor;
  tensor.data = array.data;
  tensor.dtype = array.dtype;
  for (int i = 0; i < 3; ++i) {
    tensor.extent[i] = array.extent[i];
    tensor.stride_bytes[i] = (i == 2 ? 1 : array.stride[i]) * array.item_bytes();
  }
  if (rows >= 0 && rows < tensor.extent[0]) tensor.extent[0] = rows;
  return tensor;
}

}  // namespace

std::string Array::description() const {
  std::string text(dtype != DType::invalid ? folio::name(dtype) : dlpack_name(type));
  text += '[';
  for (int i = 0; i < ndim; ++i) text += (i == 0 ? "" : ", ") + std::to_string(extent[i]);
  return text + ']';
}

Array array_of(nb::handle object, const char* name) {
  Array array;
  array.name = name;
  array.owner = nb::borrow(object);
  if (const DLPackExchangeApi* api = exchange_api_of(object)) {
    nb::dlpack::dltensor t;
    if (api->tensor_from_object(object.ptr(), &t) != 0)
      refuse_argument("{}: expected an array on the CPU: {}", name, take_python_error());
    fill(array, t);
    if (is_negated(object))
      refuse_argument(
          "{}: expected a tensor whose memory holds its elements, got one with the negative bit "
          "set (resolve_neg() makes a tensor without)",
          name);
    return array;
  }
  if (import(array, object) || import_by_name(array, object)) return array;
  if (nb::hasattr(object, "dtype")) {
    const nb::object type = object.attr("dtype");
    refuse_argument(
        "{}: expected an array on the CPU with strides of whole elements in the machine's byte "
        "order, got {} of {}",
        name, python_type(object), nb::cast<std::string>(nb::str(type)));
  }
  refuse_argument("{}: expected an array (DLPack or buffer) on the CPU, got {}", name,
                  python_type(object));
}

Array writable_array_of(nb::handle object, const char* name) {
  Array array = array_of(object, name);
  if (!array.is_writable)
    refuse_argument("{}: expected an array that can be written, got a read-only one", name);
  return array;
}

void expect_ndim(const Array& array, int ndim, const char* shape) {
  if (array.ndim != ndim)
    refuse_argument("{}: expected {} dimensions {}, got {}", array.name, ndim, shape,
                    array.description());
}

ConstTensor<3> tensor_of(const Array& array, int64_t rows) {
  return as_tensor<ConstTensor<3>>(array, rows);
}

AnyTensor<3> writable_tensor_of(const Array& array, int64_t rows) {
  return as_tensor<AnyTensor<3>>(array, rows);
}

const float* floats_of(nb::handle object, const char* name, std::initializer_list<int64_t> extents,
                       Array& keep) {
  if (object.is_none()) return nullptr;
  keep = array_of(object, name);
  bool is_expected = keep.dtype == DType::f32 && keep.ndim == static_cast<int>(extents.size());
  int64_t dense = 1;
  for (int i = keep.ndim - 1; is_expected && i >= 0; --i) {
    const int64_t extent = extents.begin()[i];
    const bool is_rows = i == 0 && keep.ndim > 1;  // which may be padded
    is_expected = (is_rows ? keep.extent[i] >= extent : keep.extent[i] == extent) &&
                  (keep.extent[i] <= 1 || keep.stride[i] == dense);
    dense *= keep.extent[i];
  }
  if (!is_expected) {
    std::string shape;
    for (const int64_t e : extents) shape += (shape.empty() ? "" : ", ") + std::to_string(e);
    refuse_argument("{}: expected contiguous f32[{}], got {}", name, shape, keep.description());
  }
  return static_cast<const float*>(keep.data);
}

std::vector<int32_t> int32_of(nb::handle object, const char* name) {
  return ints_of<int32_t>(object, name);
}

std::vector<int64_t> int64_of(nb::handle object, const char* name) {
  return ints_of<int64_t>(object, name);
}

}  // namespace folio::python
