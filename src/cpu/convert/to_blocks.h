// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/to_blocks.h: 32 floats become a block of folio/core/dtype.h: one rule per
/// format, as attention/append.h states it; the way back is blocks.h.
///
/// Every operation is one IEEE operation of float32 in one order, whatever the width of a register,
/// so all instruction sets write the same bytes. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/blocks.h"
#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// What d is taken from.
enum class BlockReach : uint8_t {
  magnitude,  ///< the largest magnitude
  extreme,    ///< the element of largest magnitude, with its sign; of several, the first
  range       ///< the largest element less the smallest, which is m
};

/// d = reach / steps; the pattern is x / d (or (x - m) / d) + offset, cut to an integer in
/// [0, last].
struct BlockRule {
  BlockReach reach = BlockReach::magnitude;
  float steps = 0.0f;
  float offset = 0.0f;
  float last = 0.0f;
};

template <DType D>
inline constexpr BlockRule block_rule;
template <>
inline constexpr BlockRule block_rule<DType::q8_0> = {BlockReach::magnitude, 127.0f};
template <>
inline constexpr BlockRule block_rule<DType::q4_0> = {BlockReach::extreme, -8.0f, 8.5f, 15.0f};
template <>
inline constexpr BlockRule block_rule<DType::q4_1> = {BlockReach::range, 15.0f, 0.5f, 15.0f};
template <>
inline constexpr BlockRule block_rule<DType::q5_0> = {BlockReach::extreme, -16.0f, 16.5f, 31.0f};
template <>
inline constexpr BlockRule block_rule<DType::q5_1> = {BlockReach::range, 31.0f, 0.5f, 31.0f};
template <>
inline constexpr BlockRule block_rule<DType::iq4_nl> = {BlockReach::extreme, -127.0f};

template <class I, DType D>
struct ToBlocks {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;
  static constexpr int elements = block_elements(D), registers = elements / W;
  static constexpr int64_t bytes = row_bytes(D, elements);
  static constexpr BlockLayout layout = block_layout<D>;
  static constexpr BlockRule rule = block_rule<D>;

  /// The block of `x`, which is in the order of memory; no alignment required.
  FOLIO_ALWAYS_INLINE static void store(F (&x)[registers], std::byte* to) {
    const Bounds bounds = bounds_of(x);
    F d = limited(reach_of(x, bounds) / V::splat(rule.steps));
    const F smallest = V::splat(0x1p-126f);
    // of what is stored as d = 0 nothing can be divided
    const S vanishes = (d < smallest) & (d > -smallest);
    const F inverse = vanishes ? F{} : V::splat(1.0f) / d;
    F zero = {};
    if constexpr (layout.minimum != 0) {
      zero = limited(bounds.low);
      put_f16(zero, to + layout.minimum);
    }
    U patterns[registers];
    if constexpr (D == DType::iq4_nl) {
      d = limited(d * fit(x, inverse, patterns));
    } else {
      for (int i = 0; i < registers; ++i) patterns[i] = pattern_of((x[i] - zero) * inverse);
    }
    put_f16(d, to);
    put_patterns(patterns, to);
  }

 private:
  static_assert(elements == 32 && registers % 2 == 0);

  /// Of the finite elements, in every lane. Others become finite then: 0 for NaN, the largest
  /// floats for infinities.
  struct Bounds {
    F low;
    F high;
  };
  FOLIO_ALWAYS_INLINE static Bounds bounds_of(F (&x)[registers]) {
    F low[registers], high[registers];
    S special = {};
    for (int i = 0; i < registers; ++i) {
      low[i] = high[i] = x[i];
      special |= is_special(x[i]);
    }
    if (V::any(special)) [[unlikely]] {
      for (int i = 0; i < registers; ++i) {
        const F largest = V::splat(largest_float);
        low[i] = is_special(x[i]) ? largest : x[i];
        high[i] = is_special(x[i]) ? -largest : x[i];
        x[i] = x[i] == x[i] ? x[i] : F{};
        x[i] = x[i] < largest ? x[i] : largest;
        x[i] = x[i] > -largest ? x[i] : -largest;
      }
    }
    const F smallest = reduced(low, [](F a, F b) { return a < b ? a : b; }),
            largest = reduced(high, [](F a, F b) { return a > b ? a : b; });
    const S is_empty = smallest > largest;
    // a sum with 0 has one zero only
    return {(is_empty ? F{} : smallest) + 0.0f, (is_empty ? F{} : largest) + 0.0f};
  }
  FOLIO_ALWAYS_INLINE static S is_special(F x) {
    return (V::bits(x) & V::splat(0x7fffffffu)) >= V::splat(0x7f800000u);
  }

  FOLIO_ALWAYS_INLINE static F reach_of(const F (&x)[registers], const Bounds& bounds) {
    const auto& [low, high] = bounds;
    if constexpr (rule.reach == BlockReach::range) return high - low;
    if constexpr (rule.reach == BlockReach::magnitude) return high > -low ? high : 0.0f - low;
    if (V::any(high == -low)) [[unlikely]]
      return first_is_high(x, bounds) ? high : low;
    return high > -low ? high : low;
  }
  /// Whether the largest element comes before the smallest, its negative.
  static bool first_is_high(const F (&x)[registers], const Bounds& bounds) {
    for (int i = 0; i < registers; ++i) {
      const auto high = static_cast<uint32_t>(I::signs(S(x[i] == bounds.high))),
                 low = static_cast<uint32_t>(I::signs(S(x[i] == bounds.low)));
      if ((high | low) != 0) return (high & (0u - high)) - 1 < (low & (0u - low)) - 1;
    }
    return true;
  }

  /// Within f16.
  FOLIO_ALWAYS_INLINE static F limited(F x) {
    const F largest = V::splat(65504.0f);
    x = x < largest ? x : largest;
    return x > -largest ? x : -largest;
  }

  FOLIO_ALWAYS_INLINE static U pattern_of(F x) {
    if constexpr (D == DType::q8_0) {
      x = x < V::splat(127.0f) ? x : V::splat(127.0f);
      x = x > V::splat(-127.0f) ? x : V::splat(-127.0f);
      // the float below 1/2 makes cutting the nearest integer, halves away from zero
      const U half = V::splat(0x3effffffu) | (V::bits(x) & V::splat(0x80000000u));
      return reinterpret_cast<U>(__builtin_convertvector(x + V::floats(half), S));
    } else {
      x = x + V::splat(rule.offset);
      x = x > F{} ? x : F{};
      return reinterpret_cast<U>(
          __builtin_convertvector(x < V::splat(rule.last) ? x : V::splat(rule.last), S));
    }
  }

  /// Patterns of the values nearest to x / d; returns what d is to be multiplied by so that squares
  /// of errors, weighted by squares of elements, are least.
  FOLIO_ALWAYS_INLINE static F fit(const F (&x)[registers], F inverse, U (&patterns)[registers]) {
    F products[registers], squares[registers];
    for (int i = 0; i < registers; ++i) {
      F a = x[i] * inverse;
      a = a < V::splat(127.0f) ? a : V::splat(127.0f);
      a = a > V::splat(-127.0f) ? a : V::splat(-127.0f);
      patterns[i] = nearest_of(a);
      const F value = I::template pick16<F>(table.values, patterns[i]);
      const F weighted = a * a * value;
      products[i] = weighted * a;
      squares[i] = weighted * value;
    }
    const auto sum = [](F a, F b) { return a + b; };
    const F all = reduced(squares, sum);
    return all > F{} ? reduced(products, sum) / all : V::splat(1.0f);
  }
  /// The value of iq4_nl that is nearest, the larger of two.
  FOLIO_ALWAYS_INLINE static U nearest_of(F x) {
    U pattern = {};
    for (uint32_t step = 8; step > 0; step /= 2) {
      const F middle = I::template pick16<F>(table.middles, pattern + (step - 1));
      pattern += reinterpret_cast<U>(x >= middle) & V::splat(step);
    }
    return pattern;
  }

  /// Over all elements, in every lane: i and i + 16 first, then i and i + 8, and so on.
  template <class Op>
  FOLIO_ALWAYS_INLINE static F reduced(F (&x)[registers], Op op) {
    for (int n = registers / 2; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) x[i] = op(x[i], x[i + n]);
    return reduced_lanes<W / 2>(x[0], op);
  }
  template <int Distance, class Op>
  FOLIO_ALWAYS_INLINE static F reduced_lanes(F x, Op op) {
    if constexpr (Distance == 0) {
      return x;
    } else {
      const F other = exchanged<Distance>(x, std::make_integer_sequence<int, W>{});
      return reduced_lanes<Distance / 2>(op(x, other), op);
    }
  }
  template <int Distance, int... L>
  FOLIO_ALWAYS_INLINE static F exchanged(F x, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(x, x, (L ^ Distance)...);
  }

  FOLIO_ALWAYS_INLINE static void put_f16(F x, std::byte* to) {
    const auto bits = static_cast<uint16_t>(SmallFloats<I>::to_f16(V::bits(x))[0]);
    __builtin_memcpy(to, &bits, sizeof bits);
  }
  FOLIO_ALWAYS_INLINE static void put_patterns(const U (&patterns)[registers], std::byte* to) {
    std::byte* const at = to + layout.patterns;
    if constexpr (D == DType::q8_0) {
      for (int i = 0; i < registers; ++i) put_bytes(patterns[i], at + i * W);
    } else {
      constexpr int half = registers / 2;
      for (int i = 0; i < half; ++i)
        put_bytes((patterns[i] & V::splat(15u)) | patterns[i + half] << 4, at + i * W);
    }
    if constexpr (layout.fifth_bits != 0) {
      uint32_t bits = 0;
      for (int i = 0; i < registers; ++i)
        bits |= static_cast<uint32_t>(I::signs(reinterpret_cast<S>(patterns[i] << 27))) << i * W;
      __builtin_memcpy(to + layout.fifth_bits, &bits, sizeof bits);
    }
  }
  /// The lowest byte of each lane.
  FOLIO_ALWAYS_INLINE static void put_bytes(U lanes, std::byte* to) {
    typedef uint8_t Bytes __attribute__((vector_size(W)));  // NOLINT(modernize-use-using)
    const Bytes narrowed = __builtin_convertvector(lanes, Bytes);
    __builtin_memcpy(to, &narrowed, sizeof narrowed);
  }

  static constexpr float largest_float = 0x1.fffffep127f;
  struct Table {
    alignas(64) float values[16];
    alignas(64) float middles[16];  ///< between a value and the next
  };
  static consteval Table iq4_nl_table() {
    Table floats = {};
    for (int i = 0; i < 16; ++i) {
      floats.values[i] = detail::iq4_nl_values[i];
      if (i < 15)
        floats.middles[i] =
            static_cast<float>(detail::iq4_nl_values[i] + detail::iq4_nl_values[i + 1]) * 0.5f;
    }
    return floats;
  }
  static constexpr Table table = iq4_nl_table();  // of no other instruction set
};

}  // namespace folio::inline v1
