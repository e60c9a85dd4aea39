// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/rows.h: rows of stored elements to float and back: the one place of a kernel
/// that knows element types.
///
/// Widening is exact for every pattern but for a block's minimum, which is added with one rounding;
/// it does not depend on the host's rounding and flush modes. Narrowing rounds to nearest even.
#pragma once

#include "cpu/convert/blocks.h"
#include "cpu/convert/elements.h"
#include "cpu/convert/operands.h"
#include "cpu/convert/packed.h"
#include "cpu/convert/small_floats.h"
#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"

namespace folio::inline v1 {

template <class I>
struct Rows {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;

  /// One row of `n` elements as floats, or as bf16 that products take: rounded to nearest even,
  /// subnormals perhaps to 0. Of blocks n is a multiple of theirs; of packed rows the values are
  /// those before zero points. Nothing behind the row is read, nothing behind `to + n` written; no
  /// alignment required.
  template <class To>
  using Row = void (*)(const std::byte* from, To* to, int n);
  template <class To>
  static Row<To> row_to(DType dtype) {
    return detail::visit_plane(dtype,
                               [](auto type) -> Row<To> { return row<decltype(type)::value, To>; });
  }

  /// `count` rows to rows of floats, `stride` floats apart; a null row becomes zeros.
  static void widen(DType dtype, const std::byte* const* from, int count, float* to, int stride,
                    int n) {
    const Row<float> widen_one = row_to<float>(dtype);
    for (int i = 0; i < count; ++i, to += stride) {
      if (from[i] != nullptr) {
        widen_one(from[i], to, n);
      } else if (I::mutant != Mutant::value_tail_not_zeroed) {
        for (int d = 0; d < n; ++d) to[d] = 0.0f;
      }
    }
  }

  /// `n` floats to elements of f32, bf16 or f16.
  static void narrow(DType dtype, const float* from, void* to, int n) {
    static_assert(detail::num_activation_dtypes == 3);
    switch (dtype) {
      case DType::f32: __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); return;
      case DType::bf16: return narrow_as(from, to, n, [](U bits) { return O::to_bf16(bits); });
      default: return narrow_as(from, to, n, [](U bits) { return SmallFloats<I>::to_f16(bits); });
    }
  }

 private:
  using O = Operands<I>;

  template <DType D, class To>
  static void row(const std::byte* from, To* to, int n) {
    if constexpr (detail::is_packed(D)) {
      using Lanes = Packed<I, D>;
      int i = 0;
      for (; i + W <= n; i += W) O::put(to + i, Lanes::load(from, i));
      if (i < n) put_some(Lanes::load_end(from, i, n - i), to + i, n - i);
    } else if constexpr (detail::is_block(D)) {
      using Block = Blocks<I, D>;
      for (int i = 0; i < n; i += Block::elements, from += row_bytes(D, Block::elements)) {
        F values[Block::elements / W];
        Block::for_each(from, [&values](int element, F v) { values[element / W] = v; });
        for (int v = 0; v < Block::elements / W; v += 2)
          O::put(to + i + v * W, values[v], values[v + 1]);
      }
    } else if constexpr (requires { I::template bytes_to_bf16<D>(from, to, n); } &&
                         bit_width(D) == 8) {
      I::template bytes_to_bf16<D>(from, to, n);
    } else {
      using Element = StoredLanes<I, D>;
      int i = 0;
      for (; i + W <= n; i += W)
        O::put(to + i, Element::load(from + static_cast<ptrdiff_t>(i) * Element::bytes));
      if (i < n) end_of_row<D>(from + static_cast<ptrdiff_t>(i) * Element::bytes, to + i, n - i);
    }
  }

  /// Fewer elements than a vector has go through buffers.
  template <DType D, class To>
  [[gnu::noinline]] static void end_of_row(const std::byte* from, To* to, int n) {
    using Element = StoredLanes<I, D>;
    unsigned char elements[W * Element::bytes] = {};
    __builtin_memcpy(elements, from, static_cast<size_t>(n) * Element::bytes);
    put_some(Element::load(elements), to, n);
  }
  template <class To>
  static void put_some(const F& v, To* to, int n) {
    To values[W];
    O::put(values, v);
    __builtin_memcpy(static_cast<void*>(to), values, static_cast<size_t>(n) * sizeof(To));
  }

  template <class Narrow>
  static void narrow_as(const float* from, void* to, int n, Narrow narrow_bits) {
    auto* const target = static_cast<unsigned char*>(to);
    const auto narrowed = [&narrow_bits](const float* at) {
      return __builtin_convertvector(narrow_bits(V::bits(V::load(at))), typename V::U16);
    };
    int i = 0;
    for (; i + W <= n; i += W) {
      const auto halves = narrowed(from + i);
      __builtin_memcpy(target + static_cast<ptrdiff_t>(i) * 2, &halves, sizeof halves);
    }
    if (i == n) return;
    float tail[W] = {};
    __builtin_memcpy(tail, from + i, static_cast<size_t>(n - i) * sizeof(float));
    const auto halves = narrowed(tail);
    __builtin_memcpy(target + static_cast<ptrdiff_t>(i) * 2, &halves,
                     static_cast<size_t>(n - i) * 2);
  }
};

}  // namespace folio::inline v1
