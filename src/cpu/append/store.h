// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/store.h: rows of floats become stored elements, divided by a scale where the plane has scales.
///
/// Stored is from_float(x / divisor), the quotient rounded to float. Where the instruction set fuses, the quotient comes from the
/// reciprocal y, correctly rounded, and one step of correction: q = x y, q - (q divisor - x) y, which is the rounded quotient (Markstein
/// 1990) as long as nothing under- or overflows; that is what `is_plain_divisor` makes sure of where it could show in 8 bits.
#pragma once

#include "cpu/append/elements.h"
#include "cpu/append/rows.h"

namespace folio {
inline namespace v1 {
namespace rows {

/// How x is divided.
enum class Division : uint8_t {
  none,
  exact,      ///< by the division instruction; any x, any divisor
  corrected,  ///< by the reciprocal; any x
  bounded     ///< by the reciprocal; x finite, the quotient within the type
};

struct Divisor {
  float value = 1.0f;
  float reciprocal = 1.0f;
  Division how = Division::none;
};

/// Quotients below 2^-22 are 0 in every 8-bit type, so a remainder that underflows is never seen.
FOLIO_ALWAYS_INLINE bool is_plain_divisor(float x) { return x >= 0x1p-80f && x <= 0x1p80f; }

template <class I>
struct Store {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  using E = Elements<I>;
  static constexpr int W = V::W;
  static constexpr int block = E::block;

  /// `n` floats, with room for reading a block more, to elements of `dtype` at `to`.
  static void narrow(DType dtype, const float* from, int64_t n, std::byte* to, const Divisor& divisor, bool streams) {
    const bool lines = streams && reinterpret_cast<uintptr_t>(to) % (W * sizeof(float)) == 0;
    return lines ? narrow_to<true>(dtype, from, n, to, divisor) : narrow_to<false>(dtype, from, n, to, divisor);
  }

 private:
  template <bool Stream>
  static void narrow_to(DType dtype, const float* from, int64_t n, std::byte* to, const Divisor& divisor) {
    switch (dtype) {
      case DType::f32: return divide<Stream, F32>(from, n, to, divisor);
      case DType::bf16: return divide<Stream, Bf16>(from, n, to, divisor);
      case DType::f16: return divide<Stream, F16>(from, n, to, divisor);
      case DType::f8_e4m3: return divide<Stream, F8<E4m3>>(from, n, to, divisor);
      case DType::f8_e5m2: return divide<Stream, F8<E5m2>>(from, n, to, divisor);
      default: return divide<Stream, I8>(from, n, to, divisor);
    }
  }

  template <bool Stream>
  static void put(std::byte* to, U v) {
    if constexpr (Stream) {
      I::stream(to, v);
    } else {
      __builtin_memcpy(to, &v, sizeof v);
    }
  }

  // A type of elements: its size, and a block of floats stored.
  struct F32 {
    static constexpr int bytes = 4;
    template <bool Stream, Range R>
    static void store(const F (&x)[4], std::byte* to) {
      for (int i = 0; i < 4; ++i) put<Stream>(to + i * W * 4, V::bits(x[i]));
    }
  };
  struct Bf16 {
    static constexpr int bytes = 2;
    template <bool Stream, Range R>
    static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack16(E::to_bf16(x[0]), E::to_bf16(x[1])));
      put<Stream>(to + W * 4, I::pack16(E::to_bf16(x[2]), E::to_bf16(x[3])));
    }
  };
  struct F16 {
    static constexpr int bytes = 2;
    template <bool Stream, Range R>
    static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack16(E::to_f16(x[0]), E::to_f16(x[1])));
      put<Stream>(to + W * 4, I::pack16(E::to_f16(x[2]), E::to_f16(x[3])));
    }
  };
  template <class T>
  struct F8 {
    static constexpr int bytes = 1;
    template <bool Stream, Range R>
    static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack8(E::template to_f8<T, R>(x[0]), E::template to_f8<T, R>(x[1]), E::template to_f8<T, R>(x[2]),
                               E::template to_f8<T, R>(x[3])));
    }
  };
  struct I8 {
    static constexpr int bytes = 1;
    template <bool Stream, Range R>
    static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack8_signed(E::template to_i8<R>(x[0]), E::template to_i8<R>(x[1]), E::template to_i8<R>(x[2]),
                                      E::template to_i8<R>(x[3])));
    }
  };

  template <bool Stream, class T>
  static void divide(const float* from, int64_t n, std::byte* to, const Divisor& d) {
    const F value = V::splat(d.value), reciprocal = V::splat(d.reciprocal);
    if (d.how == Division::none) return blocks<Stream, T, Range::any>(from, n, to, [](F x) { return x; });
    if constexpr (I::has_fma) {
      const auto corrected = [=](F x) {  // in this form a zero keeps its sign
        const F q = x * reciprocal;
        return V::fma(-V::fma(q, value, -x), reciprocal, q);
      };
      if (d.how == Division::bounded) return blocks<Stream, T, Range::bounded>(from, n, to, corrected);
      if (d.how == Division::corrected) {
        return blocks<Stream, T, Range::any>(from, n, to, [=](F x) {
          const F q = corrected(x);
          return q == q ? q : x;  // infinities, and quotients that are beyond float, leave NaN behind
        });
      }
    }
    return blocks<Stream, T, Range::any>(from, n, to, [=](F x) { return x / value; });
  }

  template <bool Stream, class T, Range R, class Divide>
  static void blocks(const float* from, int64_t n, std::byte* to, Divide quotient) {
    int64_t i = 0;
    for (; i + block <= n; i += block) store_block<Stream, T, R>(from + i, to + i * T::bytes, quotient);
    if (i == n) return;
    std::byte tail[block * T::bytes];
    store_block<false, T, R>(from + i, tail, quotient);
    __builtin_memcpy(to + i * T::bytes, tail, static_cast<size_t>(n - i) * T::bytes);
  }
  template <bool Stream, class T, Range R, class Divide>
  FOLIO_ALWAYS_INLINE static void store_block(const float* from, std::byte* to, Divide quotient) {
    const F x[4] = {quotient(V::load(from)), quotient(V::load(from + W)), quotient(V::load(from + 2 * W)),
                    quotient(V::load(from + 3 * W))};
    T::template store<Stream, R>(x, to);
  }
};

}  // namespace rows
}  // namespace v1
}  // namespace folio
