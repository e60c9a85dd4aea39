// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/pattern.h: bytes that tell where they come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::test {

/// Byte `at` of the stream `seed`.
inline std::byte pattern(uint64_t seed, int64_t at) {
  uint64_t z = (seed + 1) * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(at / 8);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z ^= z >> 27;
  return static_cast<std::byte>(z >> (8 * (at % 8)));
}

inline void fill_pattern(std::span<std::byte> bytes, uint64_t seed, int64_t first = 0) {
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = pattern(seed, first + static_cast<int64_t>(i));
}

inline bool has_pattern(std::span<const std::byte> bytes, uint64_t seed, int64_t first = 0) {
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != pattern(seed, first + static_cast<int64_t>(i))) return false;
  return true;
}

}  // namespace folio::test
