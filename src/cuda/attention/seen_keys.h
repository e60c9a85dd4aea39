// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/seen_keys.h: which keys a query sees, in numbers of 32 bits: indices of keys
/// are below 2^31.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/primitives/device.h"
#include "folio/attention/visible_keys.h"

namespace folio::cuda {

/// Bits of the keys of a tile.
template <int Keys>
using TileBits = std::conditional_t<(Keys > 32), uint64_t, uint32_t>;

/// Those of the keys [first, first + Keys) that lie in [begin, end).
template <int Keys>
FOLIO_DEVICE TileBits<Keys> keys_between(int32_t begin, int32_t end, int32_t first) {
  using Bits = TileBits<Keys>;
  const auto below = [first](int32_t key) {
    const int32_t n = key - first;
    constexpr Bits all = ~Bits{0} >> (8 * static_cast<int>(sizeof(Bits)) - Keys);
    return n <= 0 ? Bits{0} : n >= Keys ? all : (Bits{1} << n) - 1;
  };
  return below(end) & ~below(begin);
}

/// folio's Visible.
struct alignas(16) SeenKeys {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t sinks_begin = 0;
  int32_t sinks_end = 0;

  FOLIO_DEVICE static SeenKeys of(const Visible& v) {
    return {static_cast<int32_t>(v.keys.begin), static_cast<int32_t>(v.keys.end),
            static_cast<int32_t>(v.sinks.begin), static_cast<int32_t>(v.sinks.end)};
  }
  /// Bits of the keys [first, first + Keys). Without `HasSinks` there are no sink tokens.
  template <int Keys, bool HasSinks = true>
  [[nodiscard]] FOLIO_DEVICE TileBits<Keys> in_tile(int32_t first) const {
    const auto bits = keys_between<Keys>(begin, end, first);
    if constexpr (!HasSinks) return bits;
    return bits | keys_between<Keys>(sinks_begin, sinks_end, first);
  }
};

}  // namespace folio::cuda
