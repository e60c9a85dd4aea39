// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/lane_order.h: where elements lie in registers of floats.
///
/// Two registers of floats hold 2 W neighbours: in order, or split into the even and the odd ones.
/// A word of memory with two bf16 is split by one instruction for each half, and 16-bit results are
/// joined by two; keeping the order takes twice as many. ISA-safe: templates on a tag type.
#pragma once

#include <utility>

#include "cpu/vec/simd.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

template <class I>
struct InOrder {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int registers = 1;  ///< whose elements lie among one another

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
struct SplitOrder {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  static constexpr int W = V::W;
  static constexpr int registers = 2;

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

}  // namespace folio::inline v1
