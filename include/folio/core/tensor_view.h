// SPDX-License-Identifier: Apache-2.0
/// folio/core/tensor_view.h: a typed view of strided memory whose extents and strides are known
/// partly at compile time.
///
///   IntTuple<-1, 16, 8, 128>          extents or strides; -1 = known at run time only
///   Layout<Shape, Strides>            stores the run-time values, nothing else; strides in
///                                     elements
///   TensorView<T, Layout>             {data, layout}: the seeds' TileTensor; view(i, j, ...) is a
///                                     reference
///
/// Views own nothing, are trivially copyable, check nothing and compile for host and device. A view
/// whose element type is known at run time only is an AnyTensor.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// Marks an extent or a stride that is known at run time only; the seeds' UNKNOWN_VALUE.
inline constexpr int64_t unknown_value = -1;

template <int64_t... V>
struct IntTuple {
  static_assert(((V >= unknown_value) && ...),
                "IntTuple: values are >= 0, or -1 for a run-time value");
  static constexpr int rank = static_cast<int>(sizeof...(V));
  static constexpr int num_unknown = ((V == unknown_value ? 1 : 0) + ... + 0);

  /// Value i as written, so -1 for a run-time value; 0 <= i < rank.
  FOLIO_HOST_DEVICE static constexpr int64_t at(int i) {
    int64_t value = unknown_value;
    int k = 0;
    ((value = k++ == i ? V : value), ...);
    return value;
  }
  /// How many run-time values stand in front of value i.
  FOLIO_HOST_DEVICE static constexpr int unknown_before(int i) {
    int count = 0;
    int k = 0;
    ((count += k++ < i && V == unknown_value ? 1 : 0), ...);
    return count;
  }
};

namespace detail {

template <int Count>
struct RunTimeValues {
  int64_t value[Count] = {};
  FOLIO_HOST_DEVICE constexpr int64_t get(int i) const { return value[i]; }
  FOLIO_HOST_DEVICE constexpr void set(int i, int64_t x) { value[i] = x; }
};
template <>
struct RunTimeValues<0> {
  FOLIO_HOST_DEVICE constexpr int64_t get(int) const { return unknown_value; }
  FOLIO_HOST_DEVICE constexpr void set(int, int64_t) {}
};

/// Stride of dimension i of a packed row-major tensor: unknown as soon as a later extent is.
template <class Shape>
FOLIO_HOST_DEVICE constexpr int64_t row_major_stride(int i) {
  int64_t stride = 1;
  for (int k = Shape::rank - 1; k > i; --k) {
    if (Shape::at(k) == unknown_value) return unknown_value;
    stride *= Shape::at(k);
  }
  return stride;
}

template <class Shape, class Dims = std::make_integer_sequence<int, Shape::rank>>
struct row_major_strides;
template <class Shape, int... I>
struct row_major_strides<Shape, std::integer_sequence<int, I...>> {
  using type = IntTuple<row_major_stride<Shape>(I)...>;
};

/// Strides of a packed row-major tensor of this shape.
template <class Shape>
using row_major_strides_t = typename row_major_strides<Shape>::type;

}  // namespace detail

/// Extents and strides, in elements. Its size is 8 bytes per run-time value; a fully static layout
/// is empty.
template <class Shape, class Strides = detail::row_major_strides_t<Shape>>
struct Layout {
  static_assert(Shape::rank >= 1 && Shape::rank == Strides::rank,
                "Layout: one stride for each extent");
  using shape_type = Shape;
  using strides_type = Strides;
  static constexpr int rank = Shape::rank;
  static constexpr int num_run_time_values = Shape::num_unknown + Strides::num_unknown;

  constexpr Layout() = default;
  /// The run-time extents in order of dimensions, then the run-time strides in order of dimensions.
  template <class... I>
    requires(sizeof...(I) == num_run_time_values && sizeof...(I) > 0 &&
             (std::is_integral_v<I> && ...))
  FOLIO_HOST_DEVICE constexpr explicit Layout(I... values) {
    int k = 0;
    (run_time_values_.set(k++, static_cast<int64_t>(values)), ...);
  }

  FOLIO_HOST_DEVICE constexpr int64_t extent(int i) const {
    const int64_t known = Shape::at(i);
    return known != unknown_value ? known : run_time_values_.get(Shape::unknown_before(i));
  }
  FOLIO_HOST_DEVICE constexpr int64_t stride(int i) const {
    const int64_t known = Strides::at(i);
    return known != unknown_value
               ? known
               : run_time_values_.get(Shape::num_unknown + Strides::unknown_before(i));
  }
  /// Elements from the first element to the one at these indices.
  template <class... I>
    requires(sizeof...(I) == rank && (std::is_integral_v<I> && ...))
  FOLIO_HOST_DEVICE constexpr int64_t operator()(I... indices) const {
    int64_t offset = 0;
    int k = 0;
    ((offset += static_cast<int64_t>(indices) * stride(k++)), ...);
    return offset;
  }
  /// Product of the extents.
  FOLIO_HOST_DEVICE constexpr int64_t size() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= extent(i);
    return product;
  }

 private:
  template <class S, class... I>
  friend constexpr Layout<S> row_major(I... extents);

  /// Sets the run-time strides of dimensions 0 .. Dim of a packed layout; `stride` is that of Dim.
  /// Indices are constants, so that gcc sees no store out of bounds where there is none.
  template <int Dim>
  FOLIO_HOST_DEVICE constexpr void set_row_major_strides(int64_t stride) {
    if constexpr (Strides::at(Dim) == unknown_value) {
      constexpr int slot = Shape::num_unknown + Strides::unknown_before(Dim);
      run_time_values_.set(slot, stride);
    }
    if constexpr (Dim > 0) set_row_major_strides<Dim - 1>(stride * extent(Dim));
  }

  [[no_unique_address]] detail::RunTimeValues<num_run_time_values> run_time_values_ = {};
};

/// A packed row-major layout; `extents` are the run-time extents of `Shape` in order:
/// row_major<IntTuple<-1, 4>>(n).
template <class Shape, class... I>
FOLIO_HOST_DEVICE constexpr Layout<Shape> row_major(I... extents) {
  static_assert(sizeof...(I) == Shape::num_unknown && (std::is_integral_v<I> && ...),
                "row_major: one value for each -1");
  Layout<Shape> layout;
  int k = 0;
  (layout.run_time_values_.set(k++, static_cast<int64_t>(extents)), ...);
  layout.template set_row_major_strides<Shape::rank - 1>(1);
  return layout;
}

/// Elements of type T at `data`, addressed through `layout`. `T` may be const.
template <class T, class L>
struct TensorView {
  using value_type = T;
  using layout_type = L;
  static constexpr int rank = L::rank;

  T* data = nullptr;
  [[no_unique_address]] L layout = {};

  FOLIO_HOST_DEVICE constexpr int64_t extent(int i) const { return layout.extent(i); }
  FOLIO_HOST_DEVICE constexpr int64_t stride(int i) const { return layout.stride(i); }
  FOLIO_HOST_DEVICE constexpr int64_t size() const { return layout.size(); }

  /// The address of an element; also of one past the end.
  template <class... I>
  FOLIO_HOST_DEVICE constexpr T* pointer(I... indices) const {
    return data + layout(indices...);
  }
  template <class... I>
  FOLIO_HOST_DEVICE constexpr T& operator()(I... indices) const {
    return data[layout(indices...)];
  }
  /// The same view, read-only.
  template <class U>
    requires(std::is_same_v<U, const T> && !std::is_const_v<T>)
  // NOLINTNEXTLINE(google-explicit-constructor)
  FOLIO_HOST_DEVICE constexpr operator TensorView<U, L>() const {
    return {data, layout};
  }
};

}  // namespace folio::inline v1
