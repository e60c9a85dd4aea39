// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/rows.h: rows of stored elements to float and back: the one place of a kernel
/// that knows element types.
///
/// Widening is exact for every pattern, by integer arithmetic alone (no denormal is ever an
/// operand, so the host's rounding and flush modes do not matter). Narrowing rounds to nearest
/// even.
#pragma once

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

  /// `count` rows of `n` elements of `dtype` to rows of floats, `stride` floats apart; a null row
  /// becomes zeros. Any n; natural alignment not required. The type is looked at once for all rows.
  static void widen(DType dtype, const std::byte* const* from, int count, float* to, int stride,
                    int n) {
    switch (dtype) {
      case DType::f32:
        return widen_rows<4>(from, count, to, stride, n,
                             [](const void* p) { return V::template load_as<F>(p); });
      case DType::bf16:
        return widen_rows<2>(from, count, to, stride, n,
                             [](const void* p) { return V::floats(load16(p) << 16); });
      case DType::f16:
        return widen_rows<2>(from, count, to, stride, n,
                             [](const void* p) { return from_f16(load16(p)); });
      case DType::f8_e4m3:
        return widen_rows<1>(from, count, to, stride, n,
                             [](const void* p) { return SmallFloats<I>::from_e4m3(load8(p)); });
      case DType::f8_e5m2:
        return widen_rows<1>(from, count, to, stride, n,
                             [](const void* p) { return from_f16(load8(p) << 8); });
      default:
        return widen_rows<1>(from, count, to, stride, n, [](const void* p) {
          return __builtin_convertvector(reinterpret_cast<typename V::S>(load8(p) << 24) >> 24, F);
        });
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
  static U load16(const void* p) { return I::template widen16<U>(p); }
  static U load8(const void* p) { return I::template widen8<U>(p); }

  template <int Bytes, class Load>
  static void widen_rows(const std::byte* const* from, int count, float* to, int stride, int n,
                         Load load) {
    for (int i = 0; i < count; ++i, to += stride) {
      if (from[i] != nullptr) {
        widen_row<Bytes>(from[i], to, n, load);
      } else if (I::mutant != Mutant::value_tail_not_zeroed) {
        for (int d = 0; d < n; ++d) to[d] = 0.0f;
      }
    }
  }

  /// The last, partial vector goes through a buffer, so that nothing behind the row is read.
  template <int Bytes, class Load>
  static void widen_row(const std::byte* source, float* to, int n, Load load) {
    int i = 0;
    for (; i + W <= n; i += W) V::store(to + i, load(source + static_cast<ptrdiff_t>(i) * Bytes));
    if (i == n) return;
    unsigned char tail[W * Bytes] = {};
    float values[W];
    __builtin_memcpy(tail, source + static_cast<ptrdiff_t>(i) * Bytes,
                     static_cast<size_t>(n - i) * Bytes);
    V::store(values, load(tail));
    __builtin_memcpy(to + i, values, static_cast<size_t>(n - i) * sizeof(float));
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

  /// IEEE binary16 in the low half of each lane.
  static F from_f16(U x) {
    const U sign = (x & V::splat(0x8000u)) << 16;
    const U magnitude = (x & V::splat(0x7fffu)) << 13;
    const F normal = V::floats(magnitude + V::splat(112u << 23));
    // 2^-14
    const F subnormal = V::floats(magnitude + V::splat(113u << 23)) - V::splat(6.103515625e-5f);
    F value = magnitude < V::splat(1u << 23) ? subnormal : normal;
    value = magnitude >= V::splat(31u << 23) ? V::floats(magnitude | V::splat(0x7f800000u)) : value;
    return V::floats(V::bits(value) | sign);
  }

  static U to_bf16(U x) {
    const U magnitude = x & V::splat(0x7fffffffu);
    const U rounded = (x + V::splat(0x7fffu) + ((x >> 16) & V::splat(1u))) >> 16;
    return magnitude > V::splat(0x7f800000u) ? (x >> 16) | V::splat(0x40u) : rounded;
  }
};

}  // namespace folio::inline v1
