// SPDX-License-Identifier: Apache-2.0
/// python/src/array.h: Python's arrays as memory, without a copy.
///
/// Whatever speaks DLPack is taken: torch's tensors by DLPack's table of C functions (a few
/// nanoseconds), others by `__dlpack__` or the buffer protocol; arrays of ml_dtypes, which numpy
/// does not hand out, through a view of their bytes.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <vector>

#include "errors.h"
#include "folio/core/any_tensor.h"
#include "folio/core/buffer.h"
#include "folio/core/dtype.h"

namespace folio::python {

/// The memory of one array, and what keeps it alive. Strides in elements.
struct Array {
  static constexpr int max_ndim = 6;

  const char* name = "";  ///< of the argument, for messages
  void* data = nullptr;
  nb::dlpack::dtype type = {};
  DType dtype = DType::invalid;  ///< invalid where folio has no such element
  int ndim = 0;
  bool is_writable = true;
  int64_t extent[max_ndim] = {};
  int64_t stride[max_ndim] = {};
  nb::object owner = {};
  nb::ndarray<nb::ro> imported = {};

  [[nodiscard]] int64_t item_bytes() const { return type.bits / 8; }
  /// "float32[3, 4]"
  [[nodiscard]] std::string description() const;
};

/// The array `object`, which is argument `name`. Throws Error for what is no array, lies on another
/// device, or has more than Array::max_ndim dimensions.
Array array_of(nb::handle object, const char* name);
/// As `array_of`; a read-only array is an error.
Array writable_array_of(nb::handle object, const char* name);

/// Checks the number of dimensions.
void expect_ndim(const Array& array, int ndim, const char* shape);

/// `array` as [rows, heads, dim]; the last dimension must be contiguous. `rows`: only the first so
/// many, where the array has more; negative: all.
ConstTensor<3> tensor_of(const Array& array, int64_t rows = -1);
AnyTensor<3> writable_tensor_of(const Array& array, int64_t rows = -1);

/// Contiguous float32 with the given extents, or more rows of several dimensions; null for None.
/// `keep` holds what must stay alive.
const float* floats_of(nb::handle object, const char* name, std::initializer_list<int64_t> extents,
                       Array& keep);

/// Integers as a copy, checked to fit: a list, or an array of int32, int64 or uint32 of one
/// dimension.
std::vector<int32_t> int32_of(nb::handle object, const char* name);
std::vector<int64_t> int64_of(nb::handle object, const char* name);

/// An uninitialised array of the library that `like` is from: torch gives torch, numpy numpy.
nb::object empty_like(nb::handle like, const Array& array, std::initializer_list<int64_t> extents,
                      DType dtype);
nb::object empty_like(nb::handle like, const Array& array, std::initializer_list<int64_t> extents,
                      nb::dlpack::dtype type);

/// DLPack's word for one of folio's elements, and back.
nb::dlpack::dtype dlpack_of(DType dtype);
DType dtype_of_dlpack(nb::dlpack::dtype type);

/// A dtype as people write it: "bf16", "bfloat16", "fp8", torch.bfloat16, numpy.float32.
DType dtype_of(nb::handle object, const char* name);

}  // namespace folio::python
