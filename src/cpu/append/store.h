// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/store.h: rows of floats become stored elements, divided by a scale where the
/// plane has scales.
///
/// Stored is from_float(x / divisor), the quotient rounded to float. Where the instruction set
/// fuses, the quotient comes from the reciprocal y, correctly rounded, and one step of correction:
/// q = x y, q - (q divisor - x) y, which is the rounded quotient (Markstein 1990) as long as
/// nothing under- or overflows; that is what `is_plain_divisor` makes sure of where it could show
/// in 8 bits.
#pragma once

#include "cpu/append/elements.h"
#include "cpu/append/granules.h"
#include "cpu/append/layout.h"
#include "cpu/append/rows.h"

namespace folio::inline v1::rows {

/// `From`: how the rows are read (layout.h).
template <class I, class From>
struct Store {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using E = Elements<I>;
  using Order = typename From::Order;
  static constexpr int W = V::W;
  static constexpr int block = E::block, half = block / 2;

  /// Granules are mostly divided in one way: then types and ways are looked at once. Without
  /// divisors nothing is divided.
  static void narrow(const Conversion& conversion, const Granules& granules,
                     const Divisors* divisors) {
    const DType dtype = conversion.target.dtype;
    const Way way{conversion.streams, conversion.fetches_near,
                  bit_width(conversion.source.dtype) / 8 * block};
    if (divisors == nullptr) return narrow_as(dtype, granules, no_divisor, Division::none, way);
    if (divisors->is_uniform) {
      return narrow_as(dtype, granules, {divisors->value, divisors->reciprocal}, divisors->how[0],
                       way);
    }
    for (int64_t i = 0; i < granules.count(); ++i) {
      const Granules one = granules.one(i / granules.per_head, i % granules.per_head);
      narrow_as(dtype, one, {divisors->value + i, divisors->reciprocal + i}, divisors->how[i], way);
    }
  }

 private:
  /// Of each granule.
  struct Divisor {
    const float* value;
    const float* reciprocal;
  };
  struct Way {
    bool streams;  ///< past the caches: whole, aligned registers
    bool fetches_near;
    int64_t ahead_bytes;  ///< of the source, behind a block
  };
  static constexpr Divisor no_divisor{nullptr, nullptr};

  static void narrow_as(DType dtype, const Granules& granules, Divisor divisor, Division how,
                        Way way) {
    constexpr uint64_t line = W * sizeof(float);
    const auto to = reinterpret_cast<uintptr_t>(granules.to.first);
    const auto strides =
        static_cast<uint64_t>(granules.to.head_stride_bytes | granules.to.granule_stride_bytes);
    const bool is_aligned = to % line == 0 && (granules.count() == 1 || strides % line == 0);
    way.streams = way.streams && is_aligned;
    static_assert(folio::detail::num_plane_dtypes == 6);
    switch (dtype) {
      case DType::f32: return wide<F32>(granules, divisor, how, way);
      case DType::bf16: return wide<Bf16>(granules, divisor, how, way);
      case DType::f16: return wide<F16>(granules, divisor, how, way);
      case DType::f8_e4m3: return narrow8<F8<E4m3>>(granules, divisor, how, way);
      case DType::f8_e5m2: return narrow8<F8<E5m2>>(granules, divisor, how, way);
      default: return narrow8<I8>(granules, divisor, how, way);
    }
  }

  FOLIO_ALWAYS_INLINE static void put(std::byte* to, U v, bool streams) {
    if (streams) {
      I::stream(to, v);
    } else {
      __builtin_memcpy(to, &v, sizeof v);
    }
  }

  struct NoNumbers {};
  // A type of elements: its size, what is kept in registers for it, and a block of floats stored.
  struct F32 {
    static constexpr int bytes = 4;
    using Numbers = NoNumbers;
    template <Range R>
    FOLIO_ALWAYS_INLINE static void store(Numbers, const F (&x)[4], std::byte* to, bool streams) {
      for (int i = 0; i < 4; i += 2) {
        put(to + i * W * 4, V::bits(Order::first(x[i], x[i + 1])), streams);
        put(to + (i + 1) * W * 4, V::bits(Order::second(x[i], x[i + 1])), streams);
      }
    }
  };
  struct Bf16 {
    static constexpr int bytes = 2;
    using Numbers = NoNumbers;
    template <Range R>
    FOLIO_ALWAYS_INLINE static void store(Numbers, const F (&x)[4], std::byte* to, bool streams) {
      U rounded[4];
      for (int i = 0; i < 4; ++i) rounded[i] = E::to_bf16(x[i]);
      if (I::has_nan(x)) {
        for (int i = 0; i < 4; ++i) rounded[i] = E::nan_to_bf16(x[i], rounded[i]);
      }
      put(to, Order::high_words(rounded[0], rounded[1]), streams);
      put(to + W * 4, Order::high_words(rounded[2], rounded[3]), streams);
    }
  };
  struct F16 {
    static constexpr int bytes = 2;
    using Numbers = NoNumbers;
    template <Range R>
    FOLIO_ALWAYS_INLINE static void store(Numbers, const F (&x)[4], std::byte* to, bool streams) {
      put(to, Order::low_words(E::to_f16(x[0]), E::to_f16(x[1])), streams);
      put(to + W * 4, Order::low_words(E::to_f16(x[2]), E::to_f16(x[3])), streams);
    }
  };
  template <class T>
  struct F8 {
    static constexpr int bytes = 1;
    using Numbers = typename E::template F8Numbers<T>;
    template <Range R>
    FOLIO_ALWAYS_INLINE static void store(const Numbers& with, const F (&x)[4], std::byte* to,
                                          bool streams) {
      U sum[4], words[2];
      for (int i = 0; i < 4; ++i) sum[i] = E::template f8_sum<T, R>(with, x[i]);
      if (R == Range::any && I::has_nan(x)) {
        for (int i = 0; i < 4; ++i) sum[i] = E::template nan_sum<T>(x[i], sum[i]);
      }
      for (int i = 0; i < 2; ++i)
        words[i] = E::template codes_of_f8<T>(with, Order::low_words(sum[2 * i], sum[2 * i + 1]),
                                              Order::high_words(sum[2 * i], sum[2 * i + 1]));
      put(to, I::pack8(words[0], words[1]), streams);
    }
  };
  struct I8 {
    static constexpr int bytes = 1;
    using Numbers = NoNumbers;
    template <Range R>
    FOLIO_ALWAYS_INLINE static void store(Numbers, const F (&x)[4], std::byte* to, bool streams) {
      U whole[4];
      for (int i = 0; i < 4; ++i) whole[i] = E::template to_i8<R>(x[i]);
      if (R == Range::any && I::has_nan(x)) {
        for (int i = 0; i < 4; ++i) whole[i] = x[i] == x[i] ? whole[i] : U{};
      }
      put(to,
          I::pack8_signed(Order::low_words(whole[0], whole[1]),
                          Order::low_words(whole[2], whole[3])),
          streams);
    }
  };

  FOLIO_ALWAYS_INLINE static void fetch_block(const std::byte* ahead, const Way& way) {
    for (int64_t i = 0; i < block * From::source_bytes; i += 64) fetch(ahead + i, way.fetches_near);
  }

  template <class T>
  static void wide(const Granules& granules, Divisor divisor, Division how, const Way& way) {
    if (how == Division::none) return each<T, Division::none>(granules, divisor, way);
    return each<T, Division::exact>(granules, divisor, way);
  }
  template <class T>
  static void narrow8(const Granules& granules, Divisor divisor, Division how, const Way& way) {
    if constexpr (I::has_fma) {
      if (how == Division::bounded) return each<T, Division::bounded>(granules, divisor, way);
      if (how == Division::corrected) return each<T, Division::corrected>(granules, divisor, way);
    }
    return wide<T>(granules, divisor, how, way);
  }

  template <class T, Division How>
  static void each(const Granules& granules, Divisor divisor, const Way& way) {
    const typename T::Numbers with;
    if (has_runs<How>(granules)) return each_run<T, How>(with, granules, divisor, way);
    for (int64_t h = 0; h < granules.heads; ++h) {
      for (int64_t g = 0; g < granules.per_head; ++g) {
        store_granule<T, How>(with, granules.from.at(h, g), granules.length_of(g),
                              granules.to.at(h, g), divisor, granules.ahead.at(h, g), way);
      }
    }
  }

  /// Whether a head is whole blocks, and every half of a block has one divisor.
  template <Division How>
  static bool has_runs(const Granules& granules) {
    const bool has_halves =
        How == Division::none || (granules.length % half == 0 && granules.last_length % half == 0);
    return has_halves && granules.head_length() % block == 0;
  }
  /// A head, or all heads if they follow one another, without looking at granules but for their
  /// divisors.
  template <class T, Division How>
  static void each_run(const typename T::Numbers& with, const Granules& granules, Divisor divisor,
                       const Way& way) {
    const int64_t length = granules.head_length();
    const bool is_one = granules.last_length == granules.length &&
                        granules.from.head_stride_bytes == length * From::bytes &&
                        granules.to.head_stride_bytes == length * T::bytes &&
                        granules.ahead.head_stride_bytes * block == length * way.ahead_bytes;
    const int64_t heads = is_one ? 1 : granules.heads,
                  run = is_one ? length * granules.heads : length;
    for (int64_t h = 0; h < heads; ++h) {
      store_run<T, How>(with, granules.from.at(h), run, granules.to.at(h), divisor,
                        granules.length / half, granules.ahead.at(h), way);
      if constexpr (How != Division::none)
        divisor.value += granules.per_head, divisor.reciprocal += granules.per_head;
    }
  }
  /// `granule`: of halves of a block.
  template <class T, Division How>
  FOLIO_ALWAYS_INLINE static void store_run(const typename T::Numbers& with, const std::byte* from,
                                            int64_t n, std::byte* to, Divisor divisor,
                                            int64_t granule, const std::byte* ahead,
                                            const Way& way) {
    int64_t left = granule;
    for (; n > 0; n -= block, from += block * From::bytes, to += block * T::bytes,
                  ahead += way.ahead_bytes) {
      fetch_block(ahead, way);
      F x[4];
      From::load(from, x[0], x[1]);
      From::load(from + 2 * W * From::bytes, x[2], x[3]);
      for (int i = 0; i < 4 && How != Division::none; i += 2) {
        const F value = V::splat(*divisor.value), reciprocal = V::splat(*divisor.reciprocal);
        x[i] = divided<How>(x[i], value, reciprocal);
        x[i + 1] = divided<How>(x[i + 1], value, reciprocal);
        --left;
        const int64_t step = left == 0 ? 1 : 0;
        left = left == 0 ? granule : left;
        divisor.value += step, divisor.reciprocal += step;
      }
      T::template store<How == Division::bounded ? Range::bounded : Range::any>(with, x, to,
                                                                                way.streams);
    }
  }
  template <class T, Division How>
  FOLIO_ALWAYS_INLINE static void store_granule(const typename T::Numbers& with,
                                                const std::byte* from, int64_t n, std::byte* to,
                                                Divisor& divisor, const std::byte* ahead,
                                                const Way& way) {
    F value{}, reciprocal{};
    if constexpr (How != Division::none)
      value = V::splat(*divisor.value++), reciprocal = V::splat(*divisor.reciprocal++);
    for (; n >= block; n -= block, from += block * From::bytes, to += block * T::bytes,
                       ahead += way.ahead_bytes) {
      fetch_block(ahead, way);
      store_block<T, How>(with, from, to, value, reciprocal, way.streams);
    }
    if (n > 0) store_rest<T, How>(from, n, to, value, reciprocal);
  }
  template <class T, Division How>
  [[gnu::noinline]] static void store_rest(const std::byte* from, int64_t n, std::byte* to, F value,
                                           F reciprocal) {
    std::byte some[block * From::bytes] = {}, rest[block * T::bytes];
    __builtin_memcpy(some, from, static_cast<size_t>(n) * From::bytes);
    store_block<T, How>(typename T::Numbers(), some, rest, value, reciprocal, false);
    __builtin_memcpy(to, rest, static_cast<size_t>(n) * T::bytes);
  }
  template <class T, Division How>
  FOLIO_ALWAYS_INLINE static void store_block(const typename T::Numbers& with,
                                              const std::byte* from, std::byte* to, F value,
                                              F reciprocal, bool streams) {
    F x[4];
    From::load(from, x[0], x[1]);
    From::load(from + 2 * W * From::bytes, x[2], x[3]);
    for (F& quotient : x) quotient = divided<How>(quotient, value, reciprocal);
    T::template store<How == Division::bounded ? Range::bounded : Range::any>(with, x, to, streams);
  }

  /// Corrected: in this form a zero keeps its sign.
  template <Division How>
  FOLIO_ALWAYS_INLINE static F divided(F x, F value, F reciprocal) {
    if constexpr (How == Division::none) return x;
    if constexpr (How == Division::exact) return x / value;
    const F first = x * reciprocal;
    const F q = V::fma(-V::fma(first, value, -x), reciprocal, first);
    if constexpr (How == Division::bounded) return q;
    return q == q ? q : x;  // infinities, and quotients that are beyond float, leave NaN behind
  }
};

}  // namespace folio::inline v1::rows
