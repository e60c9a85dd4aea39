// SPDX-License-Identifier: Apache-2.0
/// python/src/new_array.cpp: makes an array of the library that another array is from.
#include <nanobind/stl/string.h>

#include <memory>

#include "array.h"
#include "exchange.h"

namespace folio::python {
namespace {

void set_error(void* context, const char*, const char* message) {
  *static_cast<std::string*>(context) = message;
}

nb::object allocate(const DLPackExchangeApi& api, int ndim, int64_t* shape,
                    nb::dlpack::dtype type) {
  nb::dlpack::dltensor prototype;
  prototype.device = {nb::device::cpu::value, 0};
  prototype.ndim = ndim;
  prototype.dtype = type;
  prototype.shape = shape;
  DLManagedTensorVersioned* managed = nullptr;
  std::string message;
  void* object = nullptr;
  if (api.allocate(&prototype, &managed, &message, set_error) != 0)
    throw Error(fail(Errc::out_of_memory, "out: {}", message));
  if (api.object_from_managed(managed, &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

/// Memory of folio's as an array that owns it.
nb::object own_array(int ndim, const int64_t* shape, nb::dlpack::dtype type) {
  size_t extents[Array::max_ndim];
  int64_t bytes = type.bits / 8;
  for (int i = 0; i < ndim; ++i) {
    extents[i] = static_cast<size_t>(shape[i]);
    bytes *= shape[i];
  }
  auto buffer = std::make_unique<Buffer>(take(Buffer::allocate(bytes)));
  void* data = buffer->data();
  const nb::capsule owner(buffer.release(),
                          [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  return nb::cast(nb::ndarray<nb::array_api>(data, static_cast<size_t>(ndim), extents, owner,
                                             nullptr, type, nb::device::cpu::value));
}

}  // namespace

nb::object empty_like(nb::handle like, const Array& array, std::initializer_list<int64_t> extents,
                      DType dtype) {
  return empty_like(like, array, extents, dlpack_of(dtype));
}

nb::object empty_like(nb::handle like, const Array& array, std::initializer_list<int64_t> extents,
                      nb::dlpack::dtype type) {
  int64_t shape[Array::max_ndim] = {};
  std::copy(extents.begin(), extents.end(), shape);
  const int ndim = static_cast<int>(extents.size());
  if (const DLPackExchangeApi* api = exchange_api_of(like))
    return allocate(*api, ndim, shape, type);
  if (nb::hasattr(like, "__array_namespace__") || nb::hasattr(like, "__array_interface__")) {
    nb::list list;
    for (const int64_t e : extents) list.append(e);
    const nb::module_ numpy = nb::module_::import_("numpy");
    const bool is_numpy = nb::isinstance(like, numpy.attr("ndarray"));
    if (is_numpy)  // which has bf16 from others alone: they come as they are
      return numpy.attr("empty")(nb::tuple(list),
                                 type == array.type
                                     ? nb::object(like.attr("dtype"))
                                     : nb::str(type == nb::dtype<int32_t>() ? "int32" : "float32"));
    const nb::object space = like.attr("__array_namespace__")();
    return space.attr("from_dlpack")(own_array(ndim, shape, type));
  }
  return own_array(ndim, shape, type);
}

}  // namespace folio::python
