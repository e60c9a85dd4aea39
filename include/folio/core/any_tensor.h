// SPDX-License-Identifier: Apache-2.0
/// folio/core/any_tensor.h: a tensor whose element type is known at run time: activations that
/// enter and leave folio.
///
/// Type-erased, therefore strides in bytes. The last dimension is contiguous (its stride is the
/// element's size).
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::inline v1 {

template <int Rank>
struct AnyTensor {
  void* data = nullptr;
  DType dtype = DType::invalid;
  int64_t extent[Rank] = {};
  int64_t stride_bytes[Rank] = {};
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

}  // namespace folio::inline v1
