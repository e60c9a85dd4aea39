// SPDX-License-Identifier: Apache-2.0
/// folio/core/any_tensor.h: tensors whose element type is known at run time: activations that
/// leave folio (`AnyTensor`) and those that enter it (`ConstTensor`).
///
/// Type-erased, therefore strides in bytes. The last dimension is contiguous (its stride is the
/// element's size).
#pragma once

#include <cstdint>
#include <type_traits>

#include "folio/core/dtype.h"

namespace folio::inline v1 {

/// What is only read.
template <int Rank>
struct ConstTensor {
  const void* data = nullptr;
  DType dtype = DType::invalid;
  int64_t extent[Rank] = {};
  int64_t stride_bytes[Rank] = {};
};

/// What is written; it serves wherever a tensor is read.
template <int Rank>
struct AnyTensor {
  void* data = nullptr;
  DType dtype = DType::invalid;
  int64_t extent[Rank] = {};
  int64_t stride_bytes[Rank] = {};

  // NOLINTNEXTLINE(google-explicit-constructor): as a pointer to const follows from a pointer
  constexpr operator ConstTensor<Rank>() const noexcept {
    ConstTensor<Rank> tensor;
    tensor.data = data;
    tensor.dtype = dtype;
    for (int i = 0; i < Rank; ++i) {
      tensor.extent[i] = extent[i];
      tensor.stride_bytes[i] = stride_bytes[i];
    }
    return tensor;
  }
};

/// A densely packed row-major tensor over `data`.
template <int Rank>
constexpr AnyTensor<Rank> dense_tensor(void* data, DType dtype, const int64_t (&extent)[Rank]) {
  AnyTensor<Rank> t;
  t.data = data;
  t.dtype = dtype;
  int64_t stride = bit_width(dtype) / 8;
  for (int i = Rank - 1; i >= 0; --i) {
    t.extent[i] = extent[i];
    t.stride_bytes[i] = stride;
    stride *= extent[i];
  }
  return t;
}

/// The same over memory that is only read.
template <int Rank, class T>
  requires std::is_const_v<T>
constexpr ConstTensor<Rank> dense_tensor(T* data, DType dtype, const int64_t (&extent)[Rank]) {
  ConstTensor<Rank> t = dense_tensor<Rank>(nullptr, dtype, extent);
  t.data = data;
  return t;
}

}  // namespace folio::inline v1
