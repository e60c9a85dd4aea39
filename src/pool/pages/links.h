// SPDX-License-Identifier: Apache-2.0
/// pool/pages/links.h: lists and chains of the entries of an array, linked through the entries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace folio::inline v1::pool {

inline constexpr uint32_t no_entry = 0xffffffffU;

/// Of a list by `previous` and `next` of its entries.
struct ListEnds {
  uint32_t front = no_entry, back = no_entry;
};

template <class Entry>
void append(Entry* entries, ListEnds& ends, uint32_t i) noexcept {
  entries[i].previous = ends.back;
  entries[i].next = no_entry;
  (ends.back == no_entry ? ends.front : entries[ends.back].next) = i;
  ends.back = i;
}

template <class Entry>
void prepend(Entry* entries, ListEnds& ends, uint32_t i) noexcept {
  entries[i].previous = no_entry;
  entries[i].next = ends.front;
  (ends.front == no_entry ? ends.back : entries[ends.front].previous) = i;
  ends.front = i;
}

/// The links of the entry stay as they are.
template <class Entry>
void take_out(Entry* entries, ListEnds& ends, uint32_t i) noexcept {
  const Entry& entry = entries[i];
  (entry.previous == no_entry ? ends.front : entries[entry.previous].next) = entry.next;
  (entry.next == no_entry ? ends.back : entries[entry.next].previous) = entry.previous;
}

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
