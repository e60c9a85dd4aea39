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
  float value;
  float reciprocal;
  Division how;
};
inline constexpr Divisor no_divisor{1.0f, 1.0f, Division::none};

/// Elements that share a divisor, and where they go. Not initialised: arrays of them are made for every token.
struct Run {
  const float* from;  ///< with room for reading a block more
  int64_t n;
  std::byte* to;
  Divisor divisor;
  const std::byte* ahead;  ///< source of the same elements of the next token: fetched evenly meanwhile
};

/// Quotients below 2^-22 are 0 in every 8-bit type, so a remainder that underflows is never seen.
inline constexpr float plain_divisor_min = 0x1p-80f, plain_divisor_max = 0x1p80f;
FOLIO_ALWAYS_INLINE bool is_plain_divisor(float x) { return x >= plain_divisor_min && x <= plain_divisor_max; }

template <class I>
struct Store {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  using E = Elements<I>;
  static constexpr int W = V::W;
  static constexpr int block = E::block;

  /// Runs of one call are mostly divided in one way: then types and ways are looked at once.
  /// `source_bytes`: of an element of the source.
  static void narrow(DType dtype, const Run* runs, int count, bool streams, int64_t source_bytes) {
    bool lines = streams, is_uniform = true;
    for (int i = 0; i < count; ++i) {
      lines = lines && reinterpret_cast<uintptr_t>(runs[i].to) % (W * sizeof(float)) == 0;
      is_uniform = is_uniform && runs[i].divisor.how == runs[0].divisor.how;
    }
    const int step = is_uniform ? count : 1;
    for (int i = 0; i < count; i += step) {
      if (lines) {
        narrow_to<true>(dtype, runs + i, step, source_bytes * block);
      } else {
        narrow_to<false>(dtype, runs + i, step, source_bytes * block);
      }
    }
  }

 private:
  template <bool Stream>
  static void narrow_to(DType dtype, const Run* runs, int count, int64_t ahead_bytes) {
    switch (dtype) {
      case DType::f32: return wide<Stream, F32>(runs, count, ahead_bytes);
      case DType::bf16: return wide<Stream, Bf16>(runs, count, ahead_bytes);
      case DType::f16: return wide<Stream, F16>(runs, count, ahead_bytes);
      case DType::f8_e4m3: return narrow8<Stream, F8<E4m3>>(runs, count, ahead_bytes);
      case DType::f8_e5m2: return narrow8<Stream, F8<E5m2>>(runs, count, ahead_bytes);
      default: return narrow8<Stream, I8>(runs, count, ahead_bytes);
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
    FOLIO_ALWAYS_INLINE static void store(const F (&x)[4], std::byte* to) {
      for (int i = 0; i < 4; ++i) put<Stream>(to + i * W * 4, V::bits(x[i]));
    }
  };
  struct Bf16 {
    static constexpr int bytes = 2;
    template <bool Stream, Range R>
    FOLIO_ALWAYS_INLINE static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack16(E::to_bf16(x[0]), E::to_bf16(x[1])));
      put<Stream>(to + W * 4, I::pack16(E::to_bf16(x[2]), E::to_bf16(x[3])));
    }
  };
  struct F16 {
    static constexpr int bytes = 2;
    template <bool Stream, Range R>
    FOLIO_ALWAYS_INLINE static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack16(E::to_f16(x[0]), E::to_f16(x[1])));
      put<Stream>(to + W * 4, I::pack16(E::to_f16(x[2]), E::to_f16(x[3])));
    }
  };
  template <class T>
  struct F8 {
    static constexpr int bytes = 1;
    template <bool Stream, Range R>
    FOLIO_ALWAYS_INLINE static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack8(E::template to_f8<T, R>(x[0]), E::template to_f8<T, R>(x[1]), E::template to_f8<T, R>(x[2]),
                               E::template to_f8<T, R>(x[3])));
    }
  };
  struct I8 {
    static constexpr int bytes = 1;
    template <bool Stream, Range R>
    FOLIO_ALWAYS_INLINE static void store(const F (&x)[4], std::byte* to) {
      put<Stream>(to, I::pack8_signed(E::template to_i8<R>(x[0]), E::template to_i8<R>(x[1]), E::template to_i8<R>(x[2]),
                                      E::template to_i8<R>(x[3])));
    }
  };

  template <bool Stream, class T>
  static void wide(const Run* runs, int count, int64_t ahead_bytes) {
    if (runs[0].divisor.how == Division::none) return each<Stream, T, Division::none>(runs, count, ahead_bytes);
    return each<Stream, T, Division::exact>(runs, count, ahead_bytes);
  }
  template <bool Stream, class T>
  static void narrow8(const Run* runs, int count, int64_t ahead_bytes) {
    if constexpr (I::has_fma) {
      if (runs[0].divisor.how == Division::bounded) return each<Stream, T, Division::bounded>(runs, count, ahead_bytes);
      if (runs[0].divisor.how == Division::corrected) return each<Stream, T, Division::corrected>(runs, count, ahead_bytes);
    }
    return wide<Stream, T>(runs, count, ahead_bytes);
  }

  template <bool Stream, class T, Division How>
  static void each(const Run* runs, int count, int64_t ahead_bytes) {
    for (const Run* run = runs; run != runs + count; ++run) {
      const F value = V::splat(run->divisor.value), reciprocal = V::splat(run->divisor.reciprocal);
      const float* from = run->from;
      std::byte* to = run->to;
      const std::byte* ahead = run->ahead;
      int64_t left = run->n;
      for (; left >= block; left -= block, from += block, to += block * T::bytes, ahead += ahead_bytes) {
        for (int64_t i = 0; i < ahead_bytes; i += 64) __builtin_prefetch(ahead + i);
        store_block<Stream, T, How>(from, to, value, reciprocal);
      }
      if (left == 0) continue;
      std::byte rest[block * T::bytes];
      store_block<false, T, How>(from, rest, value, reciprocal);
      __builtin_memcpy(to, rest, static_cast<size_t>(left) * T::bytes);
    }
  }
  template <bool Stream, class T, Division How>
  FOLIO_ALWAYS_INLINE static void store_block(const float* from, std::byte* to, F value, F reciprocal) {
    const F x[4] = {quotient<How>(V::load(from), value, reciprocal), quotient<How>(V::load(from + W), value, reciprocal),
                    quotient<How>(V::load(from + 2 * W), value, reciprocal),
                    quotient<How>(V::load(from + 3 * W), value, reciprocal)};
    T::template store<Stream, How == Division::bounded ? Range::bounded : Range::any>(x, to);
  }

  /// Corrected: in this form a zero keeps its sign.
  template <Division How>
  FOLIO_ALWAYS_INLINE static F quotient(F x, F value, F reciprocal) {
    if constexpr (How == Division::none) return x;
    if constexpr (How == Division::exact) return x / value;
    const F first = x * reciprocal;
    const F q = V::fma(-V::fma(first, value, -x), reciprocal, first);
    if constexpr (How == Division::bounded) return q;
    return q == q ? q : x;  // infinities, and quotients that are beyond float, leave NaN behind
  }
};

}  // namespace rows
}  // namespace v1
}  // namespace folio
