// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/layout.h: how rows of memory are read into registers of floats.
#pragma once

#include "cpu/convert/lane_order.h"
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

/// A register as 4 W bytes.
template <class I>
struct Bytes {
  typedef int8_t S
      __attribute__((vector_size(I::width * sizeof(uint32_t))));  // NOLINT(modernize-use-using)
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
  using Order = SplitOrder<I>;
  static constexpr int source_bytes = 2;
};

template <class I>
struct Bf16s {
  using V = Simd<I>;
  using Order = SplitOrder<I>;
  static constexpr int bytes = 2;
  static constexpr int source_bytes = 2;
  FOLIO_ALWAYS_INLINE static void load(const std::byte* at, typename V::F& a, typename V::F& b) {
    const auto both = V::template load_as<typename V::U>(at);
    a = V::floats(both << 16);
    b = V::floats(both & V::splat(0xffff0000u));
  }
};

/// 2 W elements that `From` reads, in `Order`.
template <class I, class From, class Order>
FOLIO_ALWAYS_INLINE void load_pair(const std::byte* at, typename Simd<I>::F& a,
                                   typename Simd<I>::F& b) {
  From::load(at, a, b);
  const auto x = a, y = b;
  if constexpr (From::Order::registers < Order::registers) {
    a = Order::evens(x, y);
    b = Order::odds(x, y);
  } else if constexpr (From::Order::registers > Order::registers) {
    a = From::Order::first(x, y);
    b = From::Order::second(x, y);
  }
}

}  // namespace folio::inline v1::rows
