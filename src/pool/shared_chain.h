// SPDX-License-Identifier: Apache-2.0
/// pool/shared_chain.h: walking the chain of a hash bucket while its owner changes it.
///
/// The owner links an entry at the front of a chain, the entry's own link first, and takes it out
/// by changing the link that led to it; the entry keeps its link, which still leads on to whatever
/// stays in the chain. So a walk misses nothing that stays, but for one case: the entry that it
/// stands on was linked into another chain meanwhile. Then the entry's hash, read after its link,
/// is of another bucket, and the walk begins again. It gives up after a number of steps: never in
/// practice, for each new beginning needs an owner that hits the very entry, and the chains are
/// short.
#pragma once

#include <cstdint>

#include "pool/shared_word.h"

namespace folio::inline v1::pool {

struct SharedChain {
  uint32_t end = 0;      ///< what no entry is called
  uint64_t at_most = 0;  ///< steps: more than the entries

  struct Seen {
    uint32_t next = 0;  ///< read before anything else of the entry
    bool found = false;
    bool in_chain = false;  ///< the entry's hash is of this bucket
  };

  template <class Look>
  void walk(const uint32_t& bucket, const Look& look) const noexcept {
    uint32_t at = observe(bucket);
    for (uint64_t step = 0; at != end && step < at_most + least; ++step) {
      const Seen seen = look(at);
      if (seen.found) return;
      at = seen.in_chain ? seen.next : observe(bucket);
    }
  }

 private:
  static constexpr uint64_t least = 1000;
};

}  // namespace folio::inline v1::pool
