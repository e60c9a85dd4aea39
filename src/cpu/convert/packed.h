// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/packed.h: elements of four bits as registers of floats: what their patterns
/// stand for, before scales and zero points; of u4 the pattern itself.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cpu/skeleton/mutant.h"
#include "cpu/vec/simd.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// W / 2 bytes of two patterns, the patterns of each apart in a word, and W bytes of one.
template <int W>
struct PatternVectors {
  typedef uint8_t Pairs
      __attribute__((vector_size(W / 2)));  // NOLINT(modernize-use-using): g++ needs the typedef
  typedef uint16_t Apart __attribute__((vector_size(W)));    // NOLINT(modernize-use-using)
  typedef uint8_t Patterns __attribute__((vector_size(W)));  // NOLINT(modernize-use-using)
};

template <class I, DType D>
struct Packed {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;
  static_assert(detail::is_packed(D));
  static constexpr bool is_paired = block_elements(D) == 2;

  /// W elements of a row, from `first` on, a multiple of W. No alignment required.
  FOLIO_ALWAYS_INLINE static F load(const std::byte* row, int64_t first) {
    return value(patterns(row, first));
  }
  /// The same of the last `n` < W elements of a row; nothing behind it is read.
  [[gnu::noinline]] static F load_end(const std::byte* row, int64_t first, int64_t n) {
    if constexpr (is_paired) {
      std::byte rest[W / 2] = {};
      __builtin_memcpy(rest, row + first / 2, static_cast<size_t>(n + 1) / 2);
      return load(rest, 0);
    } else {
      __builtin_unreachable();  // rows are 32 elements and more
    }
  }

 private:
  using Pairs = typename PatternVectors<W>::Pairs;
  using Apart = typename PatternVectors<W>::Apart;
  using Patterns = typename PatternVectors<W>::Patterns;

  FOLIO_ALWAYS_INLINE static U patterns(const std::byte* row, int64_t first) {
    if constexpr (is_paired && W >= 8) {
      U words = V::splat(word_at(row + first / 2));
      if constexpr (W == 16)
        words = V::lane_is_set(0x00ff) != U{} ? words : V::splat(word_at(row + first / 2 + 4));
      const U swapped = V::splat(are_halves_swapped() ? 4u : 0u);
      return words >> (places(std::make_integer_sequence<uint32_t, W>{}) ^ swapped) & V::splat(15u);
    } else if constexpr (is_paired) {
      const auto pair = __builtin_convertvector(V::template load_as<Pairs>(row + first / 2), Apart);
      const Apart apart = are_halves_swapped() ? (pair & 0x0f) << 8 | pair >> 4
                                               : (pair & 0x0f) | (pair & 0xf0) << 4;
      return __builtin_convertvector(reinterpret_cast<Patterns>(apart), U);
    } else {
      static_assert(W <= 16, "a register lies in one half");
      const U pair = I::template widen8<U>(row + first / 32 * 16 + first % 16);
      return (first % 32 < 16) != are_halves_swapped() ? pair & V::splat(15u) : pair >> 4;
    }
  }

  FOLIO_ALWAYS_INLINE static bool are_halves_swapped() {
    return I::mutant == Mutant::pattern_halves_swapped;
  }
  FOLIO_ALWAYS_INLINE static uint32_t word_at(const std::byte* at) {
    return V::template load_as<uint32_t>(at);
  }
  /// Where the patterns of eight lanes are in a word.
  template <uint32_t... L>
  FOLIO_ALWAYS_INLINE static U places(std::integer_sequence<uint32_t, L...>) {
    return U{(L % 8 * 4)...};
  }

  FOLIO_ALWAYS_INLINE static F value(const U& pattern) {
    if constexpr (D == DType::f4_e2m1) {
      return I::template pick16<F>(table.values, pattern);
    } else if constexpr (D == DType::i4 || D == DType::i4_halves) {
      const int sign = I::mutant == Mutant::pattern_sign_lost ? 0 : 8;
      const U flipped = pattern ^ V::splat(static_cast<uint32_t>(sign));
      return __builtin_convertvector(reinterpret_cast<S>(flipped) - sign, F);
    } else {
      return __builtin_convertvector(reinterpret_cast<S>(pattern), F);
    }
  }

  struct Table {
    alignas(64) float values[16];
  };
  static consteval Table e2m1_values() {
    Table all = {};
    for (int i = 0; i < 16; ++i)
      all.values[i] = (i < 8 ? 1.0f : -1.0f) * detail::f4_e2m1_value(i % 8);
    return all;
  }
  static constexpr Table table = e2m1_values();  // of no other instruction set
};

}  // namespace folio::inline v1
