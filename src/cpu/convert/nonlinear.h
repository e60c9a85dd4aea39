// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/nonlinear.h: elements of iq4_nl: the nearest of 16 values, and what the fit of d
/// takes from them.
///
/// An instruction set that looks up 32 words says so by `pick32`: middles between two values lie
/// more than 10 apart, so a cell of 8 has one at most, and the pattern is that of its lower end or
/// the next. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/blocks.h"
#include "cpu/vec/simd.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I>
class Nonlinear {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W, registers = 32 / W;
  typedef uint16_t Words
      __attribute__((vector_size(W * sizeof(uint32_t))));  // NOLINT(modernize-use-using)

 public:
  /// A block in order, |a| <= 127. Lane by lane, elements i and i + 16 first: the sums of a^3 value
  /// and of a^2 value^2.
  FOLIO_ALWAYS_INLINE static void put(const F (&a)[registers], F& products, F& squares,
                                      std::byte* to) {
    constexpr int half = registers / 2;
    F product[registers], square[registers];
    for (int i = 0; i < half; ++i) {
      U low, high;
      nearest(a[i], a[i + half], low, high);
      weigh(a[i], low, product[i], square[i]);
      weigh(a[i + half], high, product[i + half], square[i + half]);
      put_bytes((low & V::splat(15u)) | high << 4, to + i * W);
    }
    products = sum(product);
    squares = sum(square);
  }

 private:
  /// Patterns in the low 4 bits of each lane. Of two values that are as near, the larger.
  FOLIO_ALWAYS_INLINE static void nearest(const F& a, const F& b, U& of_a, U& of_b) {
    if constexpr (requires { I::template floors_of_twice<Words>(a, b); }) {
      const auto places = I::template floors_of_twice<Words>(a, b) + 256;
      const auto patterns = (I::pick32(table.cells, places >> 4) + (places & 15)) >> 4;
      of_a = reinterpret_cast<U>(patterns);
      of_b = reinterpret_cast<U>(patterns) >> 16;
    } else {
      of_a = found(a);
      of_b = found(b);
    }
  }
  FOLIO_ALWAYS_INLINE static U found(const F& x) {
    U pattern = {};
    for (uint32_t step = 8; step > 0; step /= 2) {
      const F middle = I::template pick16<F>(table.middles, pattern + (step - 1));
      pattern += reinterpret_cast<U>(x >= middle) & V::splat(step);
    }
    return pattern;
  }
  FOLIO_ALWAYS_INLINE static void weigh(const F& a, const U& pattern, F& product, F& square) {
    const F value = I::template pick16<F>(table.values, pattern);
    const F weighted = a * a * value;
    product = weighted * a;
    square = weighted * value;
  }
  FOLIO_ALWAYS_INLINE static F sum(F (&x)[registers]) {
    for (int n = registers / 2; n > 0; n /= 2)
      for (int i = 0; i < n; ++i) x[i] = x[i] + x[i + n];
    return x[0];
  }
  /// The lowest byte of each lane.
  FOLIO_ALWAYS_INLINE static void put_bytes(const U& lanes, std::byte* to) {
    if constexpr (requires { I::put_bytes(lanes, to); }) return I::put_bytes(lanes, to);
    typedef uint8_t Bytes __attribute__((vector_size(W)));  // NOLINT(modernize-use-using)
    const Bytes narrowed = __builtin_convertvector(lanes, Bytes);
    __builtin_memcpy(to, &narrowed, sizeof narrowed);
  }

  struct Table {
    alignas(64) float values[16];
    alignas(64) float middles[16];  ///< between a value and the next
    /// of cell i: 16 times the number of middles up to its lower end, i * 8 - 128, and what twice
    /// the distance from there has to reach 16 with for the next
    alignas(64) uint16_t cells[32];
  };
  static consteval Table iq4_nl_table() {
    Table to = {};
    for (int i = 0; i < 16; ++i) to.values[i] = detail::iq4_nl_values[i];
    for (int i = 0; i < 15; ++i) {
      const int twice = detail::iq4_nl_values[i] + detail::iq4_nl_values[i + 1];
      to.middles[i] = static_cast<float>(twice) * 0.5f;
      for (int cell = 0; cell < 32; ++cell) {
        const int distance = twice + 256 - cell * 16;
        const int share = distance <= 0 ? 16 : distance < 16 ? 16 - distance : 0;
        to.cells[cell] = static_cast<uint16_t>(to.cells[cell] + share);
      }
    }
    return to;
  }
  static constexpr Table table = iq4_nl_table();  // of no other instruction set
};

}  // namespace folio::inline v1
