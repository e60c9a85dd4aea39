// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/layout.h: where elements lie in registers of floats, and how rows of memory are
/// read into them.
///
/// Two registers of floats hold 2 W neighbours: in order, or split into the even and the odd ones.
/// A word of memory with two bf16 is split by one instruction for each half, and 16-bit results are
/// joined by two; keeping the order takes twice as many.
#pragma once

#include <utility>

#include "cpu/vec/simd.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::rows {

/// A register as 2 W words.
template <class I>
struct Words {
  typedef uint16_t U __attribute__((vector_size(
      I::width * sizeof(uint32_t))));  // NOLINT(modernize-use-using): g++ needs the typedef
  typedef int16_t S
      __attribute__((vector_size(I::width * sizeof(uint32_t))));  // NOLINT(modernize-use-using)
};

template <class I>
struct InOrder {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;

  /// The low (high) halves of all lanes, as 2 W words in the order of memory.
  FOLIO_ALWAYS_INLINE static U low_words(U a, U b) {
    return I::pack16(a & V::splat(0xffffu), b & V::splat(0xffffu));
  }
  FOLIO_ALWAYS_INLINE static U high_words(U a, U b) { return I::pack16(a >> 16, b >> 16); }
  /// The first and the second W elements.
  FOLIO_ALWAYS_INLINE static F first(F a, F) { return a; }
  FOLIO_ALWAYS_INLINE static F second(F, F b) { return b; }
};

/// Even elements in one register, odd ones in the other.
template <class I>
struct Split {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;

  FOLIO_ALWAYS_INLINE static U low_words(U a, U b) {
    if constexpr (requires { I::low_halves(a, b); }) return I::low_halves(a, b);
    return I::select(V::splat(0xffffu), a, b << 16);
  }
  FOLIO_ALWAYS_INLINE static U high_words(U a, U b) {
    if constexpr (requires { I::high_halves(a, b); }) return I::high_halves(a, b);
    return I::select(V::splat(0xffffu), a >> 16, b);
  }
  FOLIO_ALWAYS_INLINE static F first(F even, F odd) { return low_pairs(even, odd, lanes{}); }
  FOLIO_ALWAYS_INLINE static F second(F even, F odd) { return high_pairs(even, odd, lanes{}); }

  /// Of 2 W elements in order.
  FOLIO_ALWAYS_INLINE static F evens(F a, F b) { return every_second<0>(a, b, lanes{}); }
  FOLIO_ALWAYS_INLINE static F odds(F a, F b) { return every_second<1>(a, b, lanes{}); }

 private:
  using lanes = std::make_integer_sequence<int, W>;
  template <int First, int... L>
  FOLIO_ALWAYS_INLINE static F every_second(F a, F b, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(a, b, 2 * L + First...);
  }
  template <int... L>
  FOLIO_ALWAYS_INLINE static F low_pairs(F a, F b, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(a, b, (L / 2 + L % 2 * W)...);
  }
  template <int... L>
  FOLIO_ALWAYS_INLINE static F high_pairs(F a, F b, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(a, b, (W / 2 + L / 2 + L % 2 * W)...);
  }
};

/// Heads of this length have loops of their own: a granule is a few dozen instructions, and loops
/// of unknown length double them.
inline constexpr int64_t usual_length = 128;

/// How rows are read: one of the types below.
enum class Reading : uint8_t { floats, split_floats, bf16 };

/// Rows that are read where they lie: `bytes` of an element, the order in registers, and 2 W
/// elements loaded.
template <class I>
struct Floats {
  using V = Simd<I>;
  using Order = InOrder<I>;
  static constexpr int bytes = 4;
  static constexpr int source_bytes = 4;  ///< of an element of the source, at most
  FOLIO_ALWAYS_INLINE static void load(const std::byte* at, typename V::F& a, typename V::F& b) {
    a = V::template load_as<typename V::F>(at);
    b = V::template load_as<typename V::F>(at + sizeof a);
  }
};

/// Floats whose 2 W neighbours are stored split.
template <class I>
struct SplitFloats : Floats<I> {
  using Order = Split<I>;
  static constexpr int source_bytes = 2;
};

template <class I>
struct Bf16s {
  using V = Simd<I>;
  using Order = Split<I>;
  static constexpr int bytes = 2;
  static constexpr int source_bytes = 2;
  FOLIO_ALWAYS_INLINE static void load(const std::byte* at, typename V::F& a, typename V::F& b) {
    const auto both = V::template load_as<typename V::U>(at);
    a = V::floats(both << 16);
    b = V::floats(both & V::splat(0xffff0000u));
  }
};

}  // namespace folio::inline v1::rows
