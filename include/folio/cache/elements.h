// SPDX-License-Identifier: Apache-2.0
/// folio/cache/elements.h: how static caches read and write at an address that may be null, said
/// once.
#pragma once

#include "folio/core/dtype.h"
#include "folio/core/element.h"
#include "folio/core/host_device.h"
#include "folio/core/vec.h"

namespace folio::inline v1::detail {

/// The elements at `at`; zero bits where it is null: their page is unassigned.
template <int Width, class T>
FOLIO_HOST_DEVICE constexpr Vec<T, Width> load_elements(const T* at) {
  Vec<T, Width> out;
  if (at == nullptr) return out;
  for (int i = 0; i < Width; ++i) out[i] = at[i];
  return out;
}

/// Writes them at `at`, or nothing where it is null.
template <class T, int Width>
FOLIO_HOST_DEVICE constexpr void store_elements(T* at, const Vec<T, Width>& values) {
  if (at == nullptr) return;
  for (int i = 0; i < Width; ++i) at[i] = values[i];
}

/// Elements of type `From` as type `To`; of the same type bits, not values: a NaN keeps its
/// payload.
template <DType To, DType From, int Width>
FOLIO_HOST_DEVICE constexpr Vec<element_t<To>, Width> convert_elements(
    const Vec<element_t<From>, Width>& stored) {
  if constexpr (To == From) {
    return stored;
  } else {
    return cast<element_t<To>>(stored);
  }
}

}  // namespace folio::inline v1::detail
