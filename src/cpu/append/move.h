// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/move.h: bytes that stay as they are, past the caches or through them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/append/granules.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::rows {

template <class I>
class Move {
 public:
  /// Whole lines of the target past the caches; what lies before and behind them through the
  /// caches.
  static void bytes(std::byte* to, const std::byte* from, int64_t bytes, bool streams) noexcept {
    move<false>(to, from, bytes, streams, nullptr, false);
  }
  /// The same, while as many bytes of a coming token are fetched.
  static void fetching(std::byte* to, const std::byte* from, int64_t bytes, bool streams,
                       const std::byte* ahead, bool fetches_near) {
    move<true>(to, from, bytes, streams, ahead, fetches_near);
  }

 private:
  using V = Simd<I>;
  using U = typename V::U;

  template <bool Fetches>
  static void move(std::byte* to, const std::byte* from, int64_t bytes, bool streams,
                   const std::byte* ahead, bool fetches_near) {
    if (to == from) return;
    constexpr int64_t line = 64;
    const auto begin =
        static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(line));
    if (!streams || bytes < begin + line) {
      __builtin_memcpy(to, from, static_cast<size_t>(bytes));
      return;
    }
    __builtin_memcpy(to, from, static_cast<size_t>(begin));
    int64_t i = begin;
    for (; i + line <= bytes; i += line) {
      if constexpr (Fetches) fetch(ahead + i, fetches_near);
      for (int64_t k = 0; k < line; k += int64_t{sizeof(U)})
        I::stream(to + i + k, V::template load_as<U>(from + i + k));
    }
    __builtin_memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
  }
};

}  // namespace folio::inline v1::rows
