// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/blocks.h: blocks of 32 elements beside their scale, as floats: one layout per
/// format of folio/core/dtype.h.
///
/// Products are exact in float32 (at most 8 by 11 bits), the sum with a minimum is rounded once. An
/// instruction set that looks patterns up in registers says so by `pick16`. ISA-safe: templates on
/// a tag type.
#pragma once

#include "cpu/convert/elements.h"
#include "cpu/skeleton/mutant.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// Bytes from the beginning of a block; 0 for what it has not. Patterns are those of i8, or of 4
/// bits, two to a byte.
struct BlockLayout {
  int minimum = 0;
  int fifth_bits = 0;
  int patterns = 0;
  int zero = 0;  ///< the pattern of 0 without a minimum
};

template <DType D>
inline constexpr BlockLayout block_layout;
template <>
inline constexpr BlockLayout block_layout<DType::q8_0> = {.patterns = 2};
template <>
inline constexpr BlockLayout block_layout<DType::q4_0> = {.patterns = 2, .zero = 8};
template <>
inline constexpr BlockLayout block_layout<DType::q4_1> = {.minimum = 2, .patterns = 4};
template <>
inline constexpr BlockLayout block_layout<DType::q5_0> = {
    .fifth_bits = 2, .patterns = 6, .zero = 16};
template <>
inline constexpr BlockLayout block_layout<DType::q5_1> = {
    .minimum = 2, .fifth_bits = 4, .patterns = 8};
template <>
inline constexpr BlockLayout block_layout<DType::iq4_nl> = {.patterns = 2};

template <class I, DType D>
struct Blocks {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;
  using S = typename V::S;
  static constexpr int W = V::W;
  static constexpr int elements = block_elements(D);
  static constexpr BlockLayout layout = block_layout<D>;

  /// Calls each(first, values) for the 32 elements at `block`, a register at a time.
  template <class Each>
  FOLIO_ALWAYS_INLINE static void for_each(const std::byte* block, Each each) {
    const F d = f16_at(block);
    if constexpr (D == DType::q8_0) {
      for (int i = 0; i < elements; i += W)
        each(i, StoredLanes<I, DType::i8>::load(block + layout.patterns + i) * d);
      return;
    }
    const int low = are_halves_swapped() ? elements / 2 : 0;
    const int high = elements / 2 - low;
    if constexpr (is_picked) {
      const F values = scaled_values(block, d);
      const U pair = I::template widen8<U>(block + layout.patterns);
      each(low, I::template pick_of<F>(values, pair));
      each(high, I::template pick_of<F>(values, pair >> 4));
    } else if constexpr (D != DType::q8_0) {
      for (int i = 0; i < elements / 2; i += W) {
        const U pair = I::template widen8<U>(block + layout.patterns + i);
        each(low + i, value(block, pair & V::splat(15u), i, d));
        each(high + i, value(block, pair >> 4, i + elements / 2, d));
      }
    }
  }

 private:
  static_assert(elements == 32 && elements / 2 % W == 0);
  static_assert(layout.patterns > 0, "block_layout has every format");

  /// Never by append, whose instruction sets know of no faults.
  FOLIO_ALWAYS_INLINE static bool are_halves_swapped() {
    if constexpr (requires { I::mutant; }) return I::mutant == Mutant::block_halves_swapped;
    return false;
  }
  /// A number beside the elements, in every lane.
  FOLIO_ALWAYS_INLINE static F f16_at(const std::byte* from) {
    if constexpr (requires { I::template splat_f16<F>(from); })
      return I::template splat_f16<F>(from);
    uint16_t bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return SmallFloats<I>::from_f16(V::splat(uint32_t{bits}));
  }

  /// Whether all 16 values that a pattern stands for lie in one register.
  static constexpr bool is_picked = W == 16 && D != DType::q8_0 && layout.fifth_bits == 0 &&
                                    requires(F table, U i) { I::template pick_of<F>(table, i); };
  /// By the operations of `value`, so it is the same numbers.
  FOLIO_ALWAYS_INLINE static F scaled_values(const std::byte* block, const F& d) {
    const F product = V::load(numbers.values) * d;
    if constexpr (layout.minimum == 0) return product;
    return product + f16_at(block + layout.minimum);
  }

  /// Elements `first` and on, of whose patterns `low` holds four bits.
  FOLIO_ALWAYS_INLINE static F value(const std::byte* block, U low, int first, F d) {
    if constexpr (D == DType::iq4_nl) {
      return I::template pick16<F>(table.values, low) * d;
    } else {
      U pattern = low;
      if constexpr (layout.fifth_bits != 0) {
        uint32_t bits;
        __builtin_memcpy(&bits, block + layout.fifth_bits, sizeof bits);
        pattern |= V::lane_is_set(bits >> first) & V::splat(16u);
      }
      const S q = reinterpret_cast<S>(pattern) - layout.zero;
      const F product = __builtin_convertvector(q, F) * d;
      if constexpr (layout.minimum == 0) return product;
      return product + f16_at(block + layout.minimum);
    }
  }

  struct Table {
    alignas(64) float values[16];
  };
  static consteval Table iq4_nl_floats() {
    Table floats = {};
    for (int i = 0; i < 16; ++i) floats.values[i] = detail::iq4_nl_values[i];
    return floats;
  }
  static consteval Table unscaled() {
    Table floats = iq4_nl_floats();
    if (D == DType::iq4_nl) return floats;
    for (int i = 0; i < 16; ++i) floats.values[i] = static_cast<float>(i - layout.zero);
    return floats;
  }
  // of no other instruction set
  static constexpr Table table = iq4_nl_floats(), numbers = unscaled();
};

}  // namespace folio::inline v1
