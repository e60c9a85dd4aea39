// SPDX-License-Identifier: Apache-2.0
/// cli/tiers/payload_pattern.cpp: eight bytes at a time.
#include "tiers/payload_pattern.h"

#include <algorithm>
#include <cstring>

namespace folio::cli {
namespace {

/// visit(at, bytes, count) for each piece of the page: what stands there.
template <class Visit>
bool all_of_page(uint64_t hash, int64_t bytes, Visit visit) {
  constexpr int64_t piece = sizeof(uint64_t);
  for (int64_t at = 0; at < bytes; at += piece) {
    const uint64_t word = mix(hash + static_cast<uint64_t>(at));
    if (!visit(at, &word, static_cast<size_t>(std::min(piece, bytes - at)))) return false;
  }
  return true;
}

}  // namespace

void PagePattern::write_to(MemorySpan page) const {
  all_of_page(hash_, page.bytes, [&](int64_t at, const uint64_t* word, size_t count) {
    std::memcpy(static_cast<std::byte*>(page.data) + at, word, count);
    return true;
  });
}

bool PagePattern::is_in(MemorySpan page) const {
  return all_of_page(hash_, page.bytes, [&](int64_t at, const uint64_t* word, size_t count) {
    return std::memcmp(static_cast<const std::byte*>(page.data) + at, word, count) == 0;
  });
}

}  // namespace folio::cli
