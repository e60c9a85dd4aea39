// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/store_packed.h: rows of floats become rows of four bits an element, divided by
/// the scales of their granules, as attention/append.h states.
///
/// Eight registers at a time become one of bytes: the elements that are low halves of bytes in four
/// of them, the high halves in four. Where granules are whole units of 16 elements and nothing is
/// special, quotients come from reciprocals (store.h); all else is divided element by element.
#pragma once

#include "cpu/append/elements.h"
#include "cpu/append/granules.h"
#include "cpu/append/layout.h"
#include "cpu/append/rows.h"
#include "cpu/append/store.h"
#include "cpu/append/zero_points.h"

namespace folio::inline v1::rows {

/// Elements that share a scale in each of the usual forms.
inline constexpr int64_t unit = 16;

/// The granule of each unit of the heads of a step.
struct UnitGranules {
  uint8_t of[head_size_max / unit + unit] = {};
  bool are_whole = false;

  UnitGranules(int64_t heads, int64_t head_size, int64_t granule, int64_t per_head)
      : are_whole(head_size % unit == 0 && (per_head == 1 || granule % unit == 0)) {
    int64_t u = 0;
    for (int64_t h = 0; h < heads && are_whole; ++h)
      for (int64_t i = 0; i < head_size; i += unit)
        of[u++] = static_cast<uint8_t>(h * per_head + i / granule);
    for (const uint8_t last = u > 0 ? of[u - 1] : uint8_t{0}; u < int64_t{sizeof of}; ++u)
      of[u] = last;
  }
};

/// `From`: how the rows are read (layout.h).
template <class I, class From>
class StorePacked {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;
  static constexpr int registers = 8;
  static constexpr int64_t piece = registers * W;  // elements

 public:
  static void narrow(const Conversion& conversion, const Granules& granules,
                     const UnitGranules& units, const Divisors& divisors, const Shifts& shifts) {
    const Call call{conversion, granules, units, divisors, shifts};
    switch (conversion.target.dtype) {
      case DType::f4_e2m1: return each<E2m1, SplitOrder<I>>(call);
      case DType::i4: return each<I4, SplitOrder<I>>(call);
      case DType::u4: return each<U4, SplitOrder<I>>(call);
      case DType::i4_halves: return each<I4, InOrder<I>>(call);
      default: return each<U4, InOrder<I>>(call);
    }
  }

 private:
  using SignedBytes = typename Bytes<I>::S;

  struct Call {
    const Conversion& conversion;
    const Granules& granules;
    const UnitGranules& units;
    const Divisors& divisors;
    const Shifts& shifts;
  };

  // ---- Types of elements: registers of quotients to bytes whose low halves are patterns

  /// Four registers of integers as bytes, in the instructions' own order.
  FOLIO_ALWAYS_INLINE static U narrowed(const S (&x)[4]) {
    return I::template saturated_bytes<U>(x[0], x[1], x[2], x[3]);
  }
  FOLIO_ALWAYS_INLINE static S nearest(F x) { return I::template to_integers<S>(x); }

  struct I4 {
    static constexpr bool has_shifts = false;
    static constexpr float lowest = -8.0f, highest = 7.0f;
    FOLIO_ALWAYS_INLINE static U patterns(const F (&q)[4], const S (&)[4]) {
      const S whole[4] = {nearest(q[0]), nearest(q[1]), nearest(q[2]), nearest(q[3])};
      const auto bytes = reinterpret_cast<SignedBytes>(narrowed(whole));
      return reinterpret_cast<U>(bytes < 7 ? bytes : SignedBytes{} + 7);
    }
  };
  struct U4 {
    static constexpr bool has_shifts = true;
    static constexpr float lowest = -32.0f, highest = 64.0f;
    FOLIO_ALWAYS_INLINE static U patterns(const F (&q)[4], const S (&zero)[4]) {
      S whole[4];
      for (int i = 0; i < 4; ++i) whole[i] = nearest(q[i]) + zero[i];
      const auto bytes = reinterpret_cast<SignedBytes>(narrowed(whole));
      const SignedBytes above = bytes > 0 ? bytes : SignedBytes{};
      return reinterpret_cast<U>(above < 15 ? above : SignedBytes{} + 15);
    }
  };
  /// Steps of 0.5 below 2, of 1 below 4, of 2 up to 6. With e the lower end of x's binade, but at
  /// least 1, the sum of x and 2^22 e counts them in its last bits, and its exponent those before;
  /// what both are above the code is a multiple of 16 if 6 steps are added, which leave ties as
  /// they are.
  struct E2m1 {
    static constexpr bool has_shifts = false;
    static constexpr float lowest = -6.0f, highest = 6.0f;
    FOLIO_ALWAYS_INLINE static U patterns(const F (&q)[4], const S (&)[4]) {
      S codes[4], signs[4];
      for (int i = 0; i < 4; ++i) {
        signs[i] = reinterpret_cast<S>(q[i]);
        const S x = signs[i] & 0x7fffffff, floored = x > 0x3f800000 ? x : S{} + 0x3f800000;
        const F binade = reinterpret_cast<F>(floored & 0x7f800000);
        const U sum = V::bits(V::fma(binade, V::splat(4194307.0f), reinterpret_cast<F>(x)));
        codes[i] = reinterpret_cast<S>((sum + (sum >> 22)) & V::splat(15u));
      }
      return narrowed(codes) | ((narrowed(signs) & V::splat(0x80808080u)) >> 4);
    }
  };

  // ---- Eight registers

  struct Piece {
    F x[registers];
    F minimum[registers];
    S zero[registers];
  };

  /// Whether register r holds low halves of bytes.
  template <class Order>
  static constexpr bool is_low(int r) {
    return Order::registers == 2 ? r % 2 == 0 : r * W % 32 < 16;
  }
  template <class Kind, class Order>
  FOLIO_ALWAYS_INLINE static U bytes_of(const Piece& p) {
    F low[4], high[4];
    S low_zero[4] = {}, high_zero[4] = {};
    for (int r = 0, l = 0, h = 0; r < registers; ++r) {
      if (is_low<Order>(r)) {
        low[l] = p.x[r];
        if constexpr (Kind::has_shifts) low_zero[l] = p.zero[r];
        ++l;
      } else {
        high[h] = p.x[r];
        if constexpr (Kind::has_shifts) high_zero[h] = p.zero[r];
        ++h;
      }
    }
    const U lows = Kind::patterns(low, low_zero), highs = Kind::patterns(high, high_zero) << 4;
    return I::in_byte_order(I::select(V::splat(0x0f0f0f0fu), lows, highs));
  }

  template <class Order>
  FOLIO_ALWAYS_INLINE static void load(const std::byte* from, F (&x)[registers]) {
    for (int r = 0; r < registers; r += 2)
      load_pair<I, From, Order>(from + r * W * From::bytes, x[r], x[r + 1]);
  }

  // ---- Whole units

  struct Run {
    const std::byte* from;
    std::byte* to;
    const std::byte* ahead;  ///< the same of a coming token
    const uint8_t* granule;  ///< of each unit
    int64_t elements;
  };

  template <class Kind, class Order>
  static void each(const Call& call) {
    if (!call.units.are_whole || !call.divisors.is_uniform ||
        call.divisors.how[0] != Division::bounded)
      return each_exact<Kind, Order>(call);
    const Granules& g = call.granules;
    const Conversion& conversion = call.conversion;
    const int64_t length = g.head_length(), to_bytes = row_bytes(conversion.target.dtype, length);
    const bool is_one = g.from.head_stride_bytes == length * From::bytes &&
                        g.to.head_stride_bytes == to_bytes &&
                        g.ahead.head_stride_bytes == row_bytes(conversion.source.dtype, length);
    const int64_t heads = is_one ? 1 : g.heads;
    for (int64_t h = 0; h < heads; ++h)
      store_run<Kind, Order>(
          call, {g.from.at(h), g.to.at(h), g.ahead.at(h), call.units.of + h * (length / unit),
                 is_one ? g.heads * length : length});
  }

  template <class Kind, class Order>
  static void store_run(const Call& call, const Run& run) {
    const bool streams =
        call.conversion.streams && reinterpret_cast<uintptr_t>(run.to) % sizeof(U) == 0;
    const bool near = call.conversion.fetches_near;
    const int64_t ahead_bytes = row_bytes(call.conversion.source.dtype, piece),
                  pieces = run.elements / piece;
    for (int64_t i = 0; i < pieces; ++i) {
      for (int64_t b = 0; b < piece * From::source_bytes; b += 64)
        fetch(run.ahead + i * ahead_bytes + b, near);
      const U bytes = store_piece<Kind, Order>(call, run.from + i * piece * From::bytes,
                                               run.granule + i * (piece / unit));
      std::byte* const to = run.to + i * int64_t{sizeof bytes};
      if (streams) {
        I::stream(to, bytes);
      } else {
        __builtin_memcpy(to, &bytes, sizeof bytes);
      }
    }
    if (run.elements % piece > 0) store_rest<Kind, Order>(call, run, pieces * piece);
  }
  /// Elements from `first` on.
  template <class Kind, class Order>
  [[gnu::noinline]] static void store_rest(const Call& call, const Run& run, int64_t first) {
    const auto left = static_cast<size_t>(run.elements - first);
    std::byte some[piece * From::bytes] = {};
    __builtin_memcpy(some, run.from + first * From::bytes, left * From::bytes);
    const U bytes = store_piece<Kind, Order>(call, some, run.granule + first / unit);
    __builtin_memcpy(run.to + first / 2, &bytes, left / 2);
  }

  template <class Kind, class Order>
  FOLIO_ALWAYS_INLINE static U store_piece(const Call& call, const std::byte* from,
                                           const uint8_t* granule) {
    Piece p;
    load<Order>(from, p.x);
    for (int r = 0; r < registers; ++r) {
      if constexpr (Kind::has_shifts) {
        p.zero[r] = of_units<Order, S>(call.shifts.zero, granule, r);
        p.x[r] = p.x[r] - of_units<Order, F>(call.shifts.minimum, granule, r);
      }
      p.x[r] = quotient(p.x[r], of_units<Order, F>(call.divisors.value, granule, r),
                        of_units<Order, F>(call.divisors.reciprocal, granule, r));
    }
    return bytes_of<Kind, Order>(p);
  }

  FOLIO_ALWAYS_INLINE static F quotient(F x, F value, F reciprocal) {
    if constexpr (!I::has_fma) return x / value;
    const F first = x * reciprocal;
    return V::fma(-V::fma(first, value, -x), reciprocal, first);
  }

  /// What lies beside the granules of register r's elements.
  template <class Order, class Lanes, class T>
  FOLIO_ALWAYS_INLINE static Lanes of_units(const T* of_granules, const uint8_t* granule, int r) {
    const auto splat = [of_granules, granule](int u) {
      return reinterpret_cast<Lanes>(
          V::splat(__builtin_bit_cast(uint32_t, of_granules[granule[u]])));
    };
    if constexpr (Order::registers * W <= unit) return splat(r * W / unit);
    // the halves of two registers that are split are of two units
    const int first = r / 2 * 2 * W / unit;
    const S is_second = V::lanes(~0u << (W / 2));
    return is_second ? splat(first + 1) : splat(first);
  }

  // ---- Any granules, any numbers

  /// What lies beside each element of a piece, in their order in memory.
  struct Beside {
    alignas(64) float value[piece];
    alignas(64) float minimum[piece];
    alignas(64) float zero[piece];
  };

  template <class Kind, class Order>
  [[gnu::noinline]] static void each_exact(const Call& call) {
    const Granules& g = call.granules;
    const int64_t length = g.head_length();
    for (int64_t h = 0; h < g.heads; ++h) {
      Beside beside;
      int64_t granule = h * g.per_head, left = g.length_of(0);
      for (int64_t first = 0; first < length; first += piece) {
        const int64_t n = length - first < piece ? length - first : piece;
        for (int64_t i = 0; i < piece; ++i, --left) {
          if (left == 0 && granule + 1 < (h + 1) * g.per_head) {
            ++granule;
            left = g.length_of(granule - h * g.per_head);
          }
          beside.value[i] = call.divisors.value[granule];
          beside.minimum[i] = call.shifts.minimum[granule];
          beside.zero[i] = static_cast<float>(call.shifts.zero[granule]);
        }
        std::byte some[piece * From::bytes] = {};
        __builtin_memcpy(some, g.from.at(h) + first * From::bytes,
                         static_cast<size_t>(n) * From::bytes);
        const U bytes = exact_piece<Kind, Order>(some, beside);
        __builtin_memcpy(g.to.at(h) + first / 2, &bytes, static_cast<size_t>(n) / 2);
      }
    }
  }

  template <class Kind, class Order>
  static U exact_piece(const std::byte* from, const Beside& beside) {
    Piece p;
    load<Order>(from, p.x);
    for (int r = 0; r < registers; r += 2) {
      F value[2], minimum[2], zero[2];
      const auto pair = [r](const float* of, F(&to)[2]) {
        load_pair<I, Floats<I>, Order>(reinterpret_cast<const std::byte*>(of + r * W), to[0],
                                       to[1]);
      };
      pair(beside.value, value);
      pair(beside.minimum, minimum);
      pair(beside.zero, zero);
      for (int i = 0; i < 2; ++i) {
        p.x[r + i] = limited<Kind>((p.x[r + i] - minimum[i]) / value[i]);
        p.zero[r + i] = nearest(zero[i]);
      }
    }
    return bytes_of<Kind, Order>(p);
  }
  /// A NaN is what 0 is.
  template <class Kind>
  static F limited(F x) {
    x = x == x ? x : F{};
    x = x < Kind::highest ? x : V::splat(Kind::highest);
    return x > Kind::lowest ? x : V::splat(Kind::lowest);
  }
};

}  // namespace folio::inline v1::rows
