// SPDX-License-Identifier: Apache-2.0
/// folio/core/visit_dtype.h: from a DType known at run time to the C++ type of its elements.
#pragma once

#include <concepts>
#include <type_traits>

#include "folio/core/element.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

namespace detail {

/// What visit_dtype returns where its function returns R.
template <class R>
struct visit_answer {
  using type = Result<R>;
};
template <>
struct visit_answer<void> {
  using type = Status;
};
template <>
struct visit_answer<Status> {
  using type = Status;
};
template <class T>
struct visit_answer<Result<T>> {
  using type = Result<T>;
};

inline Status no_element_type(DType dtype) noexcept {
  constexpr const char* expected = "f32, f16, bf16, f8_e4m3, f8_e5m2, f8_e8m0 or i8";
  if (is_dtype(dtype))
    return fail(Errc::unsupported,
                "visit_dtype: dtype is {}, whose elements have no C++ type, expected {}", dtype,
                expected);
  return fail(Errc::invalid_argument, "visit_dtype: dtype is {}, which is none, expected {}",
              static_cast<int>(dtype), expected);
}

}  // namespace detail

/// Calls `f(std::type_identity<T>{})` once, T being the element type of `dtype`: float, f16, bf16,
/// f8_e4m3, f8_e5m2, f8_e8m0 or int8_t. sizeof(T) is bit_width(dtype) / 8, dtype_of<T> is `dtype`.
///
///     Status s = visit_dtype(x.dtype, [&]<class T>(std::type_identity<T>) {
///       std::fill_n(static_cast<T*>(x.data), count, from_float<T>(1.0f));
///     });
///
/// Returns: a Status where f returns nothing or a Status, which is handed on; a Result<R> where f
///          returns an R or a Result<R>, the same for each T
/// Errors:  invalid_argument for a value that is no dtype: `invalid`, or a number outside the
///          enumeration; unsupported for dtypes whose elements have no C++ type: f4_e2m1, i4 and
///          block formats. f is not called then. What f throws passes through
/// Thread safety: keeps nothing; f runs on the caller's thread
template <class F>
auto visit_dtype(DType dtype, F&& f) {
  using R = std::invoke_result_t<F&, std::type_identity<float>>;
  using Answer = typename detail::visit_answer<R>::type;
  return detail::visit_dtype(dtype, [&]<class T>(std::type_identity<T> tag) -> Answer {
    if constexpr (!Element<T>) {
      return detail::no_element_type(dtype);
    } else {
      static_assert(std::same_as<std::invoke_result_t<F&, std::type_identity<T>>, R>,
                    "visit_dtype: f returns the same type for each element type");
      if constexpr (std::is_void_v<R>) {
        f(tag);
        return Status();
      } else {
        return f(tag);
      }
    }
  });
}

}  // namespace folio::inline v1
