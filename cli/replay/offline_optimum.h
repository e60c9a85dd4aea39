// SPDX-License-Identifier: Apache-2.0
/// cli/replay/offline_optimum.h: what a cache that knew the future would find: the yardstick of
/// policies.
#pragma once

#include <cstdint>
#include <span>

#include "load/trace.h"

namespace folio::cli {

struct BlockCounts {
  int64_t lookup_blocks = 0;
  int64_t hit_blocks = 0;
  int64_t hit_tokens = 0;
  int64_t evicted_blocks = 0;
  int64_t saved_work = 0;  ///< of the tokens that were found
  bool operator==(const BlockCounts&) const = default;
};

/// What it takes to compute a prompt's first `tokens` tokens, in units of its first one: a token at
/// position p costs 1 + p / 32,768. Of an 8B model with 32 layers of width 4096, attention costs as
/// much as all the rest at about that position.
constexpr int64_t work_of(int64_t tokens) { return tokens + tokens * tokens / 65'536; }

/// The most hits that any choice of victims can have, of requests that come one after the other:
/// a hit is the longest leading run of cached ids, then all ids of the request are cached, and what
/// the request holds is not evicted for it. Evicts the id whose next request is farthest, of equals
/// the one that stands deeper; so what continues a prefix never outlives it, and leading runs are
/// all that is found. Ids repeat with everything in front of them, as those of a trace do.
///
/// `capacity`: blocks, at least those of the longest request. O(n log n) of n ids.
/// Source: Belady: A study of replacement algorithms for a virtual-storage computer, 1966
BlockCounts offline_optimum(std::span<const TraceRequest> trace, int64_t capacity);

}  // namespace folio::cli
