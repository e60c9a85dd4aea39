// SPDX-License-Identifier: Apache-2.0
/// pool/outside/shared_chain.h: finding an entry in the chain of a hash bucket while its owner
/// changes it.
///
/// An entry has a mark, which is never used twice: it gets one before it is linked, and loses it in
/// the call that takes it out. Entries come in front or at the back, and leave from anywhere; an
/// entry that has left keeps its link until it is linked again. A walk goes on from an entry only
/// if, after the mark of the next one was read, the entry has its own mark still and leads there
/// still: so both were in the chain, one behind the other, and whatever stays in the chain is found
/// or lies further on. Otherwise the walk begins again. It gives up after a number of steps: never
/// in practice, for each new beginning needs an owner that hits the very entry, and chains are
/// short.
#pragma once

#include <cstdint>

#include "pool/outside/shared_word.h"

namespace folio::inline v1::pool {

/// `Entry` has the link `bucket_next`.
template <class Entry>
struct SharedChain {
  const Entry* entries = nullptr;
  uint64_t Entry::*mark = nullptr;
  uint32_t end = 0;    ///< what no entry is called
  uint64_t steps = 0;  ///< at most; more than there are entries

  /// The mark of the entry for which `matches` says so, 0 without one.
  template <class Match>
  [[nodiscard]] uint64_t find(const uint32_t& bucket, const Match& matches) const noexcept {
    const uint32_t* link = &bucket;
    const Entry* owner = nullptr;  // of the link
    uint64_t owners = 0;
    for (uint64_t step = 0; step < steps; ++step) {
      const uint32_t at = observe(*link);
      const uint64_t its = at == end ? 0 : observe(entries[at].*mark);
      const bool stands = owner == nullptr || observe(owner->*mark) == owners;
      if (!stands || observe(*link) != at || (its == 0 && at != end)) {
        link = &bucket;
        owner = nullptr;
        continue;
      }
      if (at == end) return 0;
      const Entry& entry = entries[at];
      if (matches(entry) && observe(entry.*mark) == its) return its;
      link = &entry.bucket_next;
      owner = &entry;
      owners = its;
    }
    return 0;
  }
};

}  // namespace folio::inline v1::pool
