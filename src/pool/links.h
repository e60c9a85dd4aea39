// SPDX-License-Identifier: Apache-2.0
/// pool/links.h: chains of the entries of an array, linked through the entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace folio::inline v1::pool {

inline constexpr uint32_t no_entry = 0xffffffffU;

/// Entries of the chain that begins with `first`.
template <class Entry>
[[nodiscard]] uint32_t chain_length(const Entry* entries, uint32_t Entry::*next,
                                    uint32_t first) noexcept {
  uint32_t length = 0;
  for (uint32_t i = first; i != no_entry; i = entries[i].*next) ++length;
  return length;
}
/// The same of the fullest bucket.
template <class Entry>
[[nodiscard]] uint32_t longest_chain(const Entry* entries, uint32_t Entry::*next,
                                     std::span<const uint32_t> buckets) noexcept {
  uint32_t longest = 0;
  for (const uint32_t first : buckets)
    longest = std::max(longest, chain_length(entries, next, first));
  return longest;
}

}  // namespace folio::inline v1::pool
