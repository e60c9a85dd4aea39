// SPDX-License-Identifier: Apache-2.0
/// cli/capacity/stack_distances.h: what an LRU cache of every size finds in a trace, in one pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "load/trace.h"
#include "replay/offline_optimum.h"

namespace folio::cli {

/// The trace with ids that say which block it is: equal ids are equal blocks behind equal blocks,
/// which the ids of a trace should be already. From 0 on, in order of appearance.
struct Blocks {
  std::vector<TraceRequest> trace;
  int64_t distinct = 0;
  int64_t longest = 0;       ///< of one request
  int64_t longest_line = 0;  ///< in the file
};
Blocks name_blocks(std::span<const TraceRequest> trace);

/// Hits of an LRU cache by its capacity in blocks, for requests that come one after the other: a
/// hit is the longest leading run of cached blocks; then all of the request's are cached, the first
/// of them evicted last.
///
/// Exact for every capacity that the longest request fits in. What such a cache holds are the
/// blocks used last, whatever its size: a request moves its own to the front in one order, found or
/// not, and no block is used without those before it. So a block is found where as many blocks as
/// stand before it in the order of last use, and itself, have room.
/// O(n log n) of n ids. Source: Mattson and others: Evaluation techniques for storage hierarchies,
/// 1970
class LruCurve {
 public:
  explicit LruCurve(const Blocks& blocks);
  /// At `capacity` >= the longest request.
  [[nodiscard]] BlockCounts at(int64_t capacity) const;
  [[nodiscard]] int64_t distinct() const { return static_cast<int64_t>(hit_blocks_.size()) - 1; }
  /// The least capacity with at least this many hit tokens, of those that some capacity has.
  [[nodiscard]] int64_t capacity_for(int64_t hit_tokens) const;

 private:
  std::vector<int64_t> hit_blocks_, hit_tokens_, saved_work_;  // by capacity, from 0 to all blocks
  int64_t lookup_blocks_ = 0;
};

}  // namespace folio::cli
