// SPDX-License-Identifier: Apache-2.0
/// src/cpu/pages/bounds.h: bounds of a page widened by rows of keys.
///
/// Floats are compared as integers in the same order: of those below 0 all bits but the sign are
/// flipped. NaN becomes the outermost integer, which is the pattern of a NaN, too: it stays. So no
/// bit depends on the order of rows, on how many come at once, or on the width of registers.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <limits>

#include "cpu/convert/small_floats.h"
#include "cpu/pages/pages.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::pages {

/// N patterns of floats as integers; T has their size.
template <class T, int N>
struct Ordered {
  typedef T S __attribute__((vector_size(N * sizeof(T))));  // NOLINT(modernize-use-using)
  static constexpr T first = std::numeric_limits<T>::min(), last = std::numeric_limits<T>::max();
  static constexpr int64_t bytes = sizeof(S);
  static constexpr int64_t element_bytes = sizeof(T);

  FOLIO_ALWAYS_INLINE static S splat(T x) { return S{} + x; }
  /// From patterns to integers in their order, and back.
  FOLIO_ALWAYS_INLINE static S flip(S pattern) {
    return pattern ^ ((pattern >> (8 * static_cast<int>(sizeof(T)) - 1)) & splat(last));
  }
  FOLIO_ALWAYS_INLINE static S load(const std::byte* from, int64_t size) {
    S v = {};
    __builtin_memcpy(&v, from, static_cast<size_t>(size));
    return v;
  }
  FOLIO_ALWAYS_INLINE static void store(std::byte* to, S v, int64_t size) {
    __builtin_memcpy(to, &v, static_cast<size_t>(size));
  }
};

/// Integers below and above others.
template <class O>
struct Extremes {
  using S = typename O::S;
  S low = O::splat(O::last);
  S high = O::splat(O::first);

  FOLIO_ALWAYS_INLINE void widen(S below, S above) {
    low = below < low ? below : low;
    high = above > high ? above : high;
  }
  template <class T>
  FOLIO_ALWAYS_INLINE void widen_by(S pattern, T infinity) {
    const auto is_nan = (pattern & O::splat(O::last)) > O::splat(infinity);
    const S x = O::flip(pattern);
    widen(is_nan ? O::splat(O::first) : x, is_nan ? O::splat(O::last) : x);
  }
};

template <class I>
class Bounds {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;
  using Words = Ordered<int32_t, W>;
  using Halves = Ordered<int16_t, 2 * W>;
  using FewHalves = Ordered<int16_t, W>;  // of one register of floats

  static constexpr int32_t infinity = 0x7f800000;
  static constexpr int16_t bf16_infinity = 0x7f80, f16_infinity = 0x7c00;

 public:
  static void begin(const BoundRows& to) noexcept {
    if (to.dtype == DType::f32) return begin_as<Words>(to, infinity);
    begin_as<Halves>(to, to.dtype == DType::bf16 ? bf16_infinity : f16_infinity);
  }

  static void widen(const BoundRows& to, const KeyRows& rows) noexcept {
    const bool is_rounded = rows.dtype != to.dtype;
    if (to.dtype == DType::bf16)
      return is_rounded ? widen_in<Rounded<DType::bf16>>(to, rows)
                        : widen_in<Same<Halves, bf16_infinity>>(to, rows);
    if (to.dtype == DType::f16)
      return is_rounded ? widen_in<Rounded<DType::f16>>(to, rows)
                        : widen_in<Same<Halves, f16_infinity>>(to, rows);
    widen_in<Same<Words, infinity>>(to, rows);
  }

 private:
  template <class O, class T>
  static void begin_as(const BoundRows& to, T above) {
    const auto high = O::splat(above), low = high | O::splat(O::first);
    const int64_t end = to.n * O::element_bytes;
    for (int64_t at = 0; at < end; at += O::bytes) {
      const int64_t size = end - at < O::bytes ? end - at : O::bytes;
      O::store(to.low + at, high, size);
      O::store(to.high + at, low, size);
    }
  }

  /// Some rows at a time: bounds are loaded and stored once for all of them.
  template <class How>
  static void widen_in(const BoundRows& to, const KeyRows& rows) {
    constexpr int at_once = 4;
    KeyRows left = rows;
    for (; left.count >= at_once; left.count -= at_once, left.data += at_once * left.stride_bytes)
      widen_by<How, at_once>(to, left);
    for (; left.count > 0; --left.count, left.data += left.stride_bytes) widen_by<How, 1>(to, left);
  }
  template <class How, int Count>
  static void widen_by(const BoundRows& to, const KeyRows& rows) {
    const int64_t end = to.n;
    int64_t d = 0;
    for (; d + How::width <= end; d += How::width)
      How::template widen<Count>(to, rows, d, int64_t{How::width});
    if (d < end) How::template widen<Count>(to, rows, d, end - d);
  }

  /// Rows of the bounds' own type.
  template <class O, auto Infinity>
  struct Same {
    static constexpr int width = O::bytes / O::element_bytes;

    template <int Count>
    FOLIO_ALWAYS_INLINE static void widen(const BoundRows& to, const KeyRows& rows, int64_t d,
                                          int64_t n) {
      const int64_t at = d * O::element_bytes, size = n * O::element_bytes;
      Extremes<O> all{O::flip(O::load(to.low + at, size)), O::flip(O::load(to.high + at, size))};
      for (int i = 0; i < Count; ++i)
        all.widen_by(O::load(rows.data + i * rows.stride_bytes + at, size), Infinity);
      O::store(to.low + at, O::flip(all.low), size);
      O::store(to.high + at, O::flip(all.high), size);
    }
  };

  /// Rows of floats, rounded outward to bf16 or f16.
  template <DType D>
  struct Rounded {
    static constexpr int width = W;

    template <int Count>
    FOLIO_ALWAYS_INLINE static void widen(const BoundRows& to, const KeyRows& rows, int64_t d,
                                          int64_t n) {
      Extremes<Words> some;
      for (int i = 0; i < Count; ++i)
        some.widen_by(Words::load(rows.data + i * rows.stride_bytes + d * 4, n * 4), infinity);
      using O = FewHalves;
      const int64_t at = d * 2, size = n * 2;
      Extremes<O> all{O::flip(O::load(to.low + at, size)), O::flip(O::load(to.high + at, size))};
      all.widen(O::flip(halves(down(Words::flip(some.low)))),
                O::flip(halves(up(Words::flip(some.high)))));
      O::store(to.low + at, O::flip(all.low), size);
      O::store(to.high + at, O::flip(all.high), size);
    }

   private:
    using S = typename Words::S;

    FOLIO_ALWAYS_INLINE static typename FewHalves::S halves(const U& x) {
      return reinterpret_cast<typename FewHalves::S>(__builtin_convertvector(x, typename V::U16));
    }
    FOLIO_ALWAYS_INLINE static U down(const S& pattern) {
      const U x = reinterpret_cast<U>(pattern);
      if constexpr (D == DType::bf16) return to_bf16<1u>(x);
      return f16_up(V::floats(x ^ V::splat(0x80000000u))) ^ V::splat(0x8000u);
    }
    FOLIO_ALWAYS_INLINE static U up(const S& pattern) {
      const U x = reinterpret_cast<U>(pattern);
      if constexpr (D == DType::bf16) return to_bf16<0u>(x);
      return f16_up(V::floats(x));
    }
  };

  /// Away from 0 where the sign is `Away`, else towards it. A NaN becomes quiet.
  template <uint32_t Away>
  FOLIO_ALWAYS_INLINE static U to_bf16(const U& x) {
    const U goes_out = (x >> 31) == V::splat(Away) ? V::splat(0xffffu) : U{};
    const U rounded = (x + goes_out) >> 16;
    const U magnitude = x & V::splat(0x7fffffffu);
    return magnitude > V::splat(0x7f800000u) ? (x >> 16) | V::splat(0x40u) : rounded;
  }
  /// The nearest, or the one above it.
  FOLIO_ALWAYS_INLINE static U f16_up(const F& x) {
    const U nearest = SmallFloats<I>::to_f16(V::bits(x));
    const U above_magnitude = nearest + V::splat(1u), below_magnitude = nearest - V::splat(1u);
    U above = nearest >= V::splat(0x8000u) ? below_magnitude : above_magnitude;
    above = nearest == V::splat(0x8000u) ? V::splat(1u) : above;  // -0
    return SmallFloats<I>::from_f16(nearest) < x ? above : nearest;
  }
};

}  // namespace folio::inline v1::pages
