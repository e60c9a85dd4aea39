// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/to_blocks.h: floats become blocks of folio/core/dtype.h: one rule per format, as
/// attention/append.h states it; the way back is blocks.h.
///
/// Eight blocks at a time: their bounds are found together, their d in one division.
///
/// Every operation is one IEEE operation of float32 in one order, whatever the width of a register,
/// so all instruction sets write the same bytes. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/block_bounds.h"
#include "cpu/convert/blocks.h"
#include "cpu/convert/lane_trees.h"
#include "cpu/convert/nonlinear.h"
#include "cpu/convert/put_patterns.h"
#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// d = reach / steps; the pattern is x / d (or (x - m) / d) + offset, cut to an integer in
/// [0, last].
struct BlockRule {
  BlockReach reach = BlockReach::magnitude;
  float steps = 0.0f;
  float offset = 0.0f;
  int16_t last = 0;
};

template <DType D>
inline constexpr BlockRule block_rule;
template <>
inline constexpr BlockRule block_rule<DType::q8_0> = {BlockReach::magnitude, 127.0f};
template <>
inline constexpr BlockRule block_rule<DType::q4_0> = {BlockReach::extreme, -8.0f, 8.5f, 15};
template <>
inline constexpr BlockRule block_rule<DType::q4_1> = {BlockReach::range, 15.0f, 0.5f, 15};
template <>
inline constexpr BlockRule block_rule<DType::q5_0> = {BlockReach::extreme, -16.0f, 16.5f, 31};
template <>
inline constexpr BlockRule block_rule<DType::q5_1> = {BlockReach::range, 31.0f, 0.5f, 31};
template <>
inline constexpr BlockRule block_rule<DType::iq4_nl> = {BlockReach::extreme, -127.0f};

template <class I, DType D>
class ToBlocks {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;
  static constexpr BlockLayout layout = block_layout<D>;
  static constexpr BlockRule rule = block_rule<D>;

 public:
  static constexpr int elements = block_elements(D), registers = elements / W;
  static constexpr int64_t bytes = row_bytes(D, elements);
  static constexpr int group = Eights::count;  ///< blocks

  static constexpr int groups_max = 4;  ///< that are written together

  /// `n` groups of blocks, `groups_max` at most, read[g] as BlockBounds reads it: ordered(k, x)
  /// gives block k in the order of memory, Read::low_words(a, b) the low halves of what `load`
  /// gave, in that order, prefetch(k) is called once for each. No alignment required.
  ///
  /// What is done with one group waits for a tree and two divisions, so each step is done with all
  /// groups before the next.
  template <class Read>
  static void store(const Read* read, int n, std::byte* to) {
    Bounds bounds[groups_max];
    Ints unusual = {};
    for (int g = 0; g < n; ++g) bounds[g].measure(read[g], unusual);
    if (Eights::any(unusual)) [[unlikely]]
      return store_any(read, n, to);
    put<Elements::usual>(read, n, bounds, to);
  }

 private:
  static_assert(elements == 32 && registers % 2 == 0);
  static_assert(rule.steps != 0.0f, "block_rule has every format");
  using Bounds = BlockBounds<I, rule.reach>;
  using Floats = Eights::F;
  using Ints = Eights::S;

  /// Usual ones are finite, and f16 reaches them.
  enum class Elements { usual, any };
  static constexpr float f16_max = 65504.0f;
  static constexpr float largest_float = 0x1.fffffep127f;

  /// Of each block.
  struct Divisors {
    Floats d, inverse;
  };

  template <class Read>
  [[gnu::noinline]] static void store_any(const Read* read, int n, std::byte* to) {
    Bounds bounds[groups_max];
    for (int g = 0; g < n; ++g) bounds[g].measure_finite(read[g]);
    put<Elements::any>(read, n, bounds, to);
  }

  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void put(const Read* read, int n, Bounds* bounds, std::byte* to) {
    Divisors divisors[groups_max];
    make_divisors<Are>(read, n, bounds, divisors);
    for (int g = 0; g < n; ++g, to += group * bytes) {
      if constexpr (D == DType::iq4_nl) {
        put_fitted<Are>(read[g], divisors[g], to);
      } else {
        float inverse[group], zero[group];
        __builtin_memcpy(inverse, &divisors[g].inverse, sizeof inverse);
        __builtin_memcpy(zero, &bounds[g].low, sizeof zero);
#pragma GCC unroll 8
        for (int k = 0; k < group; ++k)
          put_block<Are>(read[g], k, inverse[k], zero[k], to + k * bytes);
      }
      put_halves(divisors[g].d, to);
      if constexpr (layout.minimum != 0) put_halves(bounds[g].low, to + layout.minimum);
    }
  }

  /// d and 1 / d, m within f16.
  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void make_divisors(const Read* read, int n, Bounds* bounds,
                                                Divisors* to) {
    Ints has_two = {};  // signs that reach as far
    for (int g = 0; g < n; ++g) {
      const Floats low = bounds[g].low, high = bounds[g].high;
      to[g].d = rule.reach == BlockReach::magnitude ? high
                : rule.reach == BlockReach::range   ? high - low
                                                    : (high > -low ? high : low);
      has_two |= (high == -low) & (high > 0.0f);
    }
    if (rule.reach == BlockReach::extreme && Eights::any(has_two)) [[unlikely]] {
      for (int g = 0; g < n; ++g) choose_first(read[g], bounds[g], to[g].d);
    }
    for (int g = 0; g < n; ++g) {
      Floats& d = to[g].d;
      d /= rule.steps;
      if constexpr (Are == Elements::any) limit(d, f16_max);
      // of what is stored as d = 0 nothing can be divided
      const Ints vanishes = (d < 0x1p-126f) & (d > -0x1p-126f);
      to[g].inverse = vanishes ? Floats{} : 1.0f / d;
      if constexpr (Are == Elements::any && layout.minimum != 0) limit(bounds[g].low, f16_max);
    }
  }
  template <class Read>
  [[gnu::noinline]] static void choose_first(const Read& read, const Bounds& bounds,
                                             Floats& reach) {
    for (int k = 0; k < group; ++k) {
      const float high = bounds.high[k];
      if (high == -bounds.low[k] && high > 0.0f) reach[k] = first_of(read, k, high);
    }
  }
  /// The first element of block k that is x or -x.
  template <class Read>
  static float first_of(const Read& read, int k, float x) {
    F all[registers];
    read.ordered(k, all);
    for (const F& some : all) {
      for (int lane = 0; lane < W; ++lane)
        if (some[lane] == x || some[lane] == -x) return some[lane] + 0.0f;
    }
    return x;
  }

  template <class Lanes>
  FOLIO_ALWAYS_INLINE static void limit(Lanes& x, float largest) {
    const Lanes high = Lanes{} + largest;
    x = x < high ? x : high;
    x = x > -high ? x : -high;
  }
  /// NaN counts as 0, an infinity as the largest float.
  template <Elements Are>
  FOLIO_ALWAYS_INLINE static void make_numbers(F (&x)[registers]) {
    if constexpr (Are == Elements::usual) return;
    for (F& v : x) {
      v = v == v ? v : F{};
      limit(v, largest_float);
    }
  }

  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void put_block(const Read& read, int k, float inverse, float zero,
                                            std::byte* to) {
    read.prefetch(k);
    F x[registers];
    read.load(k, x);
    make_numbers<Are>(x);
    U patterns[registers];
    for (int i = 0; i < registers; ++i) {
      const F offset = layout.minimum != 0 ? x[i] - V::splat(zero) : x[i];
      patterns[i] = pattern_of<Are>(offset * V::splat(inverse));
    }
    using Put = PutPatterns<I, D>;
    typename Put::Words words[registers / 2];
    for (int i = 0; i < registers; i += 2) {
      words[i / 2] =
          reinterpret_cast<typename Put::Words>(Read::low_words(patterns[i], patterns[i + 1]));
      if constexpr (D != DType::q8_0)
        words[i / 2] = words[i / 2] < rule.last ? words[i / 2] : typename Put::Words{} + rule.last;
    }
    Put::put(words, to);
  }
  /// Integers in the low halves; not yet limited to the last one.
  template <Elements Are>
  FOLIO_ALWAYS_INLINE static U pattern_of(F x) {
    if constexpr (D == DType::q8_0) {
      if constexpr (Are == Elements::any) limit(x, 127.0f);
      // the float below 1/2 makes cutting the nearest integer, halves away from zero
      const U half = V::splat(0x3effffffu) | (V::bits(x) & V::splat(0x80000000u));
      x = x + V::floats(half);
    } else {
      x = x + V::splat(rule.offset);
      if constexpr (Are == Elements::any) {
        x = x > F{} ? x : F{};
        const F last = V::splat(static_cast<float>(rule.last));
        x = x < last ? x : last;
      }
    }
    return reinterpret_cast<U>(__builtin_convertvector(x, S));
  }

  /// Patterns of the values nearest to x / d, then d times what minimises the squared errors,
  /// weighted by squares of elements.
  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void put_fitted(const Read& read, Divisors& divisors, std::byte* to) {
    float inverse[group];
    __builtin_memcpy(inverse, &divisors.inverse, sizeof inverse);
    F products[group], squares[group];
#pragma GCC unroll 2
    for (int k = 0; k < group; ++k) {
      read.prefetch(k);
      F x[registers];
      read.ordered(k, x);
      make_numbers<Are>(x);
      for (F& a : x) {
        a = I::smaller_magnitude(a * V::splat(inverse[k]), V::splat(127.0f));
      }
      Nonlinear<I>::put(x, products[k], squares[k], to + k * bytes + layout.patterns);
    }
    Floats product, square;
    LaneTrees<I>::join(products, sum, product);
    LaneTrees<I>::join(squares, sum, square);
    const Floats fit = square > 0.0f ? product / square : Floats{} + 1.0f;
    divisors.d *= fit;
    limit(divisors.d, f16_max);
  }
  static constexpr auto sum = [](auto& a, const auto& b) { a = a + b; };

  FOLIO_ALWAYS_INLINE static void put_halves(const Floats& numbers, std::byte* to) {
    uint16_t halves[group];
    if constexpr (requires { I::eight_to_f16(numbers, halves); }) {
      I::eight_to_f16(numbers, halves);
    } else {
      float floats[group];
      __builtin_memcpy(floats, &numbers, sizeof floats);
      for (int i = 0; i < group; i += W) {
        const U bits = SmallFloats<I>::to_f16(V::bits(V::load(floats + i)));
        const auto some = __builtin_convertvector(bits, typename V::U16);
        __builtin_memcpy(halves + i, &some, sizeof some);
      }
    }
    for (int k = 0; k < group; ++k) __builtin_memcpy(to + k * bytes, halves + k, sizeof halves[k]);
  }
};

}  // namespace folio::inline v1
