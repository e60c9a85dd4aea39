// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/rows.h: rows of stored elements to float and back: the one place of a kernel
/// that knows element types.
///
/// Widening is exact for every pattern but for a block's minimum, which is added with one rounding;
/// it does not depend on the host's rounding and flush modes. Narrowing rounds to nearest even.
#pragma once

#include "cpu/convert/blocks.h"
#include "cpu/convert/elements.h"
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

  /// One row of `n` elements to floats; of blocks n is a multiple of theirs. Nothing behind the row
  /// is read, nothing behind `to + n` written; no alignment required.
  using WidenRow = void (*)(const std::byte* from, float* to, int n);
  static WidenRow widen_row_of(DType dtype) {
    switch (dtype) {
      case DType::f32: return widen_row<DType::f32>;
      case DType::bf16: return widen_row<DType::bf16>;
      case DType::f16: return widen_row<DType::f16>;
      case DType::f8_e4m3: return widen_row<DType::f8_e4m3>;
      case DType::f8_e5m2: return widen_row<DType::f8_e5m2>;
      case DType::q8_0: return widen_row<DType::q8_0>;
      case DType::q4_0: return widen_row<DType::q4_0>;
      case DType::q4_1: return widen_row<DType::q4_1>;
      case DType::q5_0: return widen_row<DType::q5_0>;
      case DType::q5_1: return widen_row<DType::q5_1>;
      case DType::iq4_nl: return widen_row<DType::iq4_nl>;
      default: return widen_row<DType::i8>;
    }
  }

  /// `count` rows to rows of floats, `stride` floats apart; a null row becomes zeros.
  static void widen(DType dtype, const std::byte* const* from, int count, float* to, int stride,
                    int n) {
    const WidenRow widen_one = widen_row_of(dtype);
    for (int i = 0; i < count; ++i, to += stride) {
      if (from[i] != nullptr) {
        widen_one(from[i], to, n);
      } else if (I::mutant != Mutant::value_tail_not_zeroed) {
        for (int d = 0; d < n; ++d) to[d] = 0.0f;
      }
    }
  }

  /// A row of a type that is known.
  template <DType D>
  static void widen_row(const std::byte* from, float* to, int n) {
    if constexpr (block_elements(D) > 1) {
      using Block = Blocks<I, D>;
      for (int i = 0; i < n; i += Block::elements, from += row_bytes(D, Block::elements))
        Block::widen(from, to + i);
    } else {
      using Element = Elements<I, D>;
      int i = 0;
      for (; i + W <= n; i += W)
        V::store(to + i, Element::load(from + static_cast<ptrdiff_t>(i) * Element::bytes));
      if (i == n) return;
      // the last, partial vector goes through a buffer
      unsigned char tail[W * Element::bytes] = {};
      float values[W];
      __builtin_memcpy(tail, from + static_cast<ptrdiff_t>(i) * Element::bytes,
                       static_cast<size_t>(n - i) * Element::bytes);
      V::store(values, Element::load(tail));
      __builtin_memcpy(to + i, values, static_cast<size_t>(n - i) * sizeof(float));
    }
  }

  /// `n` floats to elements of f32, bf16 or f16.
  static void narrow(DType dtype, const float* from, void* to, int n) {
    switch (dtype) {
      case DType::f32: __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); return;
      case DType::bf16: return narrow_as(from, to, n, [](U bits) { return to_bf16(bits); });
      default: return narrow_as(from, to, n, [](U bits) { return SmallFloats<I>::to_f16(bits); });
    }
  }

 private:
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

  static U to_bf16(U x) {
    const U magnitude = x & V::splat(0x7fffffffu);
    const U rounded = (x + V::splat(0x7fffu) + ((x >> 16) & V::splat(1u))) >> 16;
    return magnitude > V::splat(0x7f800000u) ? (x >> 16) | V::splat(0x40u) : rounded;
  }
};

}  // namespace folio::inline v1
