// SPDX-License-Identifier: Apache-2.0
/// folio/core/vec.h: a fixed number of elements passed by value, the seeds' SIMD[T, w].
#pragma once

#include "folio/core/convert.h"
#include "folio/core/element.h"

namespace folio::inline v1 {

/// `W` elements; index with []. The loads and stores of the cache types speak in it.
template <class T, int W>
struct Vec {
  static_assert(W >= 1, "Vec: the width must be at least 1");
  static constexpr int width = W;
  using value_type = T;

  T lane[W] = {};

  FOLIO_HOST_DEVICE constexpr T& operator[](int i) { return lane[i]; }
  FOLIO_HOST_DEVICE constexpr const T& operator[](int i) const { return lane[i]; }
  FOLIO_HOST_DEVICE static constexpr Vec splat(T x) {
    Vec v;
    for (int i = 0; i < W; ++i) v.lane[i] = x;
    return v;
  }
  bool operator==(const Vec&) const = default;
};

/// Each lane through float: exact widening, then round to nearest even with the target type's
/// overflow rule. In pairs, which devices convert at once.
template <class To, class From, int W>
FOLIO_HOST_DEVICE constexpr Vec<To, W> cast(const Vec<From, W>& from) {
  Vec<To, W> to;
  for (int i = 0; i < W; i += 2) {
    const int next = i + 1 < W ? i + 1 : i;
    float values[2] = {};
    To elements[2] = {};
    detail::floats_of(from.lane[i], from.lane[next], values);
    detail::elements_of(values[0], values[1], elements);
    to.lane[i] = elements[0];
    to.lane[next] = elements[next - i];
  }
  return to;
}

}  // namespace folio::inline v1
