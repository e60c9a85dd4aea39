// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/to_blocks.h: floats become blocks of folio/core/dtype.h: one rule per format, as
/// attention/append.h states it; the way back is blocks.h.
///
/// Eight blocks at a time: their bounds are found together, their d in one division.
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
  static constexpr int group = 8;  ///< blocks

  /// `n` blocks, 1 to `group`. read.load(k, x) gives the elements of block k, read.ordered(k, x) in
  /// the order of memory. No alignment required.
  template <class Read>
  static void store(const Read& read, int n, std::byte* to) {
    Numbers numbers;
    if (measure<Elements::usual>(read, n, numbers)) {
      put<Elements::usual>(read, n, numbers, to);
    } else {
      measure<Elements::any>(read, n, numbers);
      put<Elements::any>(read, n, numbers, to);
    }
  }

 private:
  static_assert(elements == 32 && registers % 2 == 0);

  /// Usual ones are finite, and f16 reaches them.
  enum class Elements { usual, any };
  static constexpr float f16_max = 65504.0f;
  static constexpr float largest_float = 0x1.fffffep127f;

  /// One for each block of a group.
  typedef float Eight __attribute__((vector_size(32)));        // NOLINT(modernize-use-using)
  typedef int32_t EightInts __attribute__((vector_size(32)));  // NOLINT(modernize-use-using)
  struct Numbers {
    Eight low, high;  // of the finite elements
    Eight d, inverse;
  };

  /// Whether all elements are usual. Reads the last block again where there are fewer than `group`.
  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static bool measure(const Read& read, int n, Numbers& numbers) {
    F high[group], negative[group], seen[4];
    bool has_nan = false;
    int count = 0;
#pragma GCC unroll 8
    for (int k = 0; k < group; ++k) {
      F x[registers], minus[registers];
      read.load(k < n ? k : n - 1, x);
      for (int i = 0; i < registers; ++i) {
        seen[count++ % 4] = x[i];
        if (count % 4 == 0) has_nan = static_cast<bool>(has_nan | I::has_nan(seen));
        minus[i] = sided<Are>(-x[i]);
        x[i] = sided<Are>(x[i]);
      }
      high[k] = joined(x, larger);
      if constexpr (rule.reach != BlockReach::magnitude) negative[k] = joined(minus, larger);
    }
    Eight largest, smallest;
    each_joined(high, larger, largest);
    if constexpr (rule.reach == BlockReach::magnitude) {
      smallest = -largest;
    } else {
      each_joined(negative, larger, smallest);
      smallest = -smallest;
    }
    const EightInts is_empty = smallest > largest;
    // a sum with 0 has one zero only
    numbers.high = (is_empty ? Eight{} : largest) + 0.0f;
    numbers.low = (is_empty ? Eight{} : smallest) + 0.0f;
    return !has_nan && !has_any((largest > f16_max) | (smallest < -f16_max));
  }
  FOLIO_ALWAYS_INLINE static bool has_any(const EightInts& lanes) {
    int64_t pairs[4];
    __builtin_memcpy(pairs, &lanes, sizeof pairs);
    return (pairs[0] | pairs[1] | pairs[2] | pairs[3]) != 0;
  }
  FOLIO_ALWAYS_INLINE static S is_special(F x) {
    return (V::bits(x) & V::splat(0x7fffffffu)) >= V::splat(0x7f800000u);
  }
  static constexpr auto larger = [](F a, F b) { return a > b ? a : b; };
  static constexpr auto sum = [](F a, F b) { return a + b; };

  /// What decides one bound: of magnitudes one is enough. Specials decide none.
  template <Elements Are>
  FOLIO_ALWAYS_INLINE static F sided(F x) {
    const F side =
        rule.reach == BlockReach::magnitude ? V::floats(V::bits(x) & V::splat(0x7fffffffu)) : x;
    if constexpr (Are == Elements::usual) return side;
    return is_special(x) ? V::splat(-largest_float) : side;
  }

  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void put(const Read& read, int n, Numbers& numbers, std::byte* to) {
    make_divisors(read, n, numbers);
    if constexpr (D == DType::iq4_nl) {
      put_fitted<Are>(read, n, numbers, to);
    } else {
      for (int k = 0; k < n; ++k) {
        F x[registers];
        read_block<Are>(read, k, x);
        const F inverse = V::splat(numbers.inverse[k]),
                zero = layout.minimum != 0 ? V::splat(numbers.low[k]) : F{};
        U patterns[registers];
        for (int i = 0; i < registers; ++i) {
          const F offset = layout.minimum != 0 ? x[i] - zero : x[i];
          patterns[i] = pattern_of<Are>(offset * inverse);
        }
        put_patterns(patterns, to + k * bytes);
      }
    }
    put_halves(numbers.d, n, to);
    if constexpr (layout.minimum != 0) put_halves(numbers.low, n, to + layout.minimum);
  }
  /// NaN counts as 0, an infinity as the largest float.
  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void read_block(const Read& read, int k, F (&x)[registers]) {
    read.ordered(k, x);
    if constexpr (Are == Elements::usual) return;
    for (F& v : x) {
      v = v == v ? v : F{};
      limit(v, largest_float);
    }
  }

  /// d and 1 / d, m within f16.
  template <class Read>
  FOLIO_ALWAYS_INLINE static void make_divisors(const Read& read, int n, Numbers& numbers) {
    const Eight low = numbers.low, high = numbers.high;
    Eight reach = high - low;
    if constexpr (rule.reach == BlockReach::magnitude) reach = high;
    if constexpr (rule.reach == BlockReach::extreme) {
      reach = high > -low ? high : low;
      if (has_any(high == -low)) [[unlikely]] {
        for (int k = 0; k < n; ++k)
          if (high[k] == -low[k]) reach[k] = first_of(read, k, high[k]);
      }
    }
    numbers.d = reach / rule.steps;
    limit(numbers.d, f16_max);
    // of what is stored as d = 0 nothing can be divided
    const EightInts vanishes = (numbers.d < 0x1p-126f) & (numbers.d > -0x1p-126f);
    numbers.inverse = vanishes ? Eight{} : 1.0f / numbers.d;
    if constexpr (layout.minimum != 0) limit(numbers.low, f16_max);
  }
  /// The first element of block k that is x or -x.
  template <class Read>
  [[gnu::noinline]] static float first_of(const Read& read, int k, float x) {
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

  template <Elements Are>
  FOLIO_ALWAYS_INLINE static U pattern_of(F x) {
    if constexpr (D == DType::q8_0) {
      if constexpr (Are == Elements::any) limit(x, 127.0f);
      // the float below 1/2 makes cutting the nearest integer, halves away from zero
      const U half = V::splat(0x3effffffu) | (V::bits(x) & V::splat(0x80000000u));
      return reinterpret_cast<U>(__builtin_convertvector(x + V::floats(half), S));
    } else {
      x = x + V::splat(rule.offset);
      if constexpr (Are == Elements::any) x = x > F{} ? x : F{};
      return reinterpret_cast<U>(
          __builtin_convertvector(x < V::splat(rule.last) ? x : V::splat(rule.last), S));
    }
  }

  /// Patterns of the values nearest to x / d, then d times what minimises the squared errors,
  /// weighted by squares of elements.
  template <Elements Are, class Read>
  FOLIO_ALWAYS_INLINE static void put_fitted(const Read& read, int n, Numbers& numbers,
                                             std::byte* to) {
    F all_products[group] = {}, all_squares[group] = {};
    for (int k = 0; k < n; ++k) {
      F x[registers], product[registers], square[registers];
      read_block<Are>(read, k, x);
      U patterns[registers];
      for (int i = 0; i < registers; ++i) {
        F a = x[i] * V::splat(numbers.inverse[k]);
        limit(a, 127.0f);
        patterns[i] = nearest_of(a);
        const F value = I::template pick16<F>(table.values, patterns[i]);
        const F weighted = a * a * value;
        product[i] = weighted * a;
        square[i] = weighted * value;
      }
      all_products[k] = joined(product, sum);
      all_squares[k] = joined(square, sum);
      put_patterns(patterns, to + k * bytes);
    }
    Eight products, squares;
    each_joined(all_products, sum, products);
    each_joined(all_squares, sum, squares);
    const Eight fit = squares > 0.0f ? products / squares : Eight{} + 1.0f;
    numbers.d *= fit;
    limit(numbers.d, f16_max);
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

  // Over all elements: i and i + 16 first, then i and i + 8, and so on.
  template <class Op>
  FOLIO_ALWAYS_INLINE static F joined(F (&x)[registers], Op op) {
    for (int n = registers / 2; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) x[i] = op(x[i], x[i + n]);
    return x[0];
  }
  template <class Op>
  FOLIO_ALWAYS_INLINE static void each_joined(const F (&x)[group], Op op, Eight& to) {
    if constexpr (requires { I::template each_of_eight<Eight>(x, op); }) {
      to = I::template each_of_eight<Eight>(x, op);
    } else {
      for (int k = 0; k < group; ++k) to[k] = reduced_lanes<W / 2>(x[k], op)[0];
    }
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

  FOLIO_ALWAYS_INLINE static void put_halves(const Eight& numbers, int n, std::byte* to) {
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
    for (int k = 0; k < n; ++k) __builtin_memcpy(to + k * bytes, halves + k, sizeof halves[k]);
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
    if constexpr (requires { I::put_bytes(lanes, to); }) return I::put_bytes(lanes, to);
    typedef uint8_t Bytes __attribute__((vector_size(W)));  // NOLINT(modernize-use-using)
    const Bytes narrowed = __builtin_convertvector(lanes, Bytes);
    __builtin_memcpy(to, &narrowed, sizeof narrowed);
  }

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
