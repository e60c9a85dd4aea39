// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/scaled_rows.h: rows of stored elements times scales along the row, in one pass:
/// each product is rounded to float32 once, then as Rows::row_to rounds.
///
/// Their factors: row_factors.h. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/elements.h"
#include "cpu/convert/operands.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"

namespace folio::inline v1 {

template <class I>
struct ScaledRows {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

  /// One row of `n` elements. Nothing behind the row is read, nothing behind `to + n` written; of
  /// factors whole registers are read. No alignment required.
  template <class To>
  using Row = void (*)(const std::byte* from, const float* factors, To* to, int n);
  template <class To>
  static Row<To> row_to(DType dtype, bool is_by_element) {
    return is_by_element ? row_to<To, true>(dtype) : row_to<To, false>(dtype);
  }

 private:
  using O = Operands<I>;

  template <class To, bool ByElement>
  static Row<To> row_to(DType dtype) {
    static_assert(detail::num_plane_dtypes == 6);
    switch (dtype) {
      case DType::f32: return row<DType::f32, ByElement, To>;
      case DType::bf16: return row<DType::bf16, ByElement, To>;
      case DType::f16: return row<DType::f16, ByElement, To>;
      case DType::f8_e4m3: return row<DType::f8_e4m3, ByElement, To>;
      case DType::f8_e5m2: return row<DType::f8_e5m2, ByElement, To>;
      default: return row<DType::i8, ByElement, To>;
    }
  }

  /// i8 is converted by two instructions.
  template <DType D>
  static constexpr bool is_looked_up = (D == DType::f8_e4m3 || D == DType::f8_e5m2) && requires {
    typename I::template BytesAsFloats<DType::f8_e4m3>;
  };

  /// Of the elements from column i on, a multiple of W.
  template <bool ByElement>
  FOLIO_ALWAYS_INLINE static F factor(const float* factors, int i) {
    if constexpr (ByElement) return V::load(factors + i);
    return V::splat(factors[i / W]);
  }

  template <DType D, bool ByElement, class To>
  static void row(const std::byte* from, const float* factors, To* to, int n) {
    using Element = StoredLanes<I, D>;
    const auto at = [from](int i) { return from + static_cast<ptrdiff_t>(i) * Element::bytes; };
    const auto times = [factors](const F& x, int i) { return x * factor<ByElement>(factors, i); };
    int i = 0;
    if constexpr (is_looked_up<D>) {
      const typename I::template BytesAsFloats<D> bytes;
      for (; i + 4 * W <= n; i += 4 * W) {
        F x[4];
        bytes.floats(at(i), x);
        O::put(to + i, times(x[0], i), times(x[1], i + W));
        O::put(to + i + 2 * W, times(x[2], i + 2 * W), times(x[3], i + 3 * W));
      }
    }
    for (; i + 2 * W <= n; i += 2 * W)
      O::put(to + i, times(Element::load(at(i)), i), times(Element::load(at(i + W)), i + W));
    for (; i + W <= n; i += W) O::put(to + i, times(Element::load(at(i)), i));
    if (i < n) end_of_row<D>(at(i), factor<ByElement>(factors, i), to + i, n - i);
  }

  /// Fewer elements than a register has go through buffers.
  template <DType D, class To>
  [[gnu::noinline]] static void end_of_row(const std::byte* from, const F& factors, To* to, int n) {
    using Element = StoredLanes<I, D>;
    unsigned char elements[W * Element::bytes] = {};
    To values[W];
    __builtin_memcpy(elements, from, static_cast<size_t>(n) * Element::bytes);
    O::put(values, Element::load(elements) * factors);
    __builtin_memcpy(static_cast<void*>(to), values, static_cast<size_t>(n) * sizeof(To));
  }
};

}  // namespace folio::inline v1
