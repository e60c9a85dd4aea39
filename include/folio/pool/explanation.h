// SPDX-License-Identifier: Apache-2.0
/// folio/pool/explanation.h: what a batch asks for, and why a pool has no room for it.
#pragma once

#include <compare>
#include <cstdint>

namespace folio::inline v1::pool {

/// A sequence of one pool. The generation makes the id of a released sequence an error instead of
/// its successor; the default value is never a live sequence.
struct SequenceId {
  uint32_t index = 0;
  uint32_t generation = 0;
  auto operator<=>(const SequenceId&) const = default;
};

/// Room for `new_tokens` tokens behind the length of `id`.
struct ReserveRequest {
  SequenceId id;
  int32_t new_tokens = 0;
};

/// What a `reserve` needs and who has the pages. Each page of the pool is counted once: free,
/// cached, pinned, or by who holds it, a sequence before a step before a copy or a transfer.
struct PoolExplanation {
  int64_t needed = 0;     ///< pages that the reserve takes at least; 0: it has room already
  int64_t held_back = 0;  ///< the watermark, where it counts for this reserve
  int64_t free = 0;
  int64_t cached = 0;  ///< held by nobody, evictable
  int64_t pinned = 0;  ///< held by nobody, not evictable
  int64_t of_sequences = 0;
  int64_t of_steps = 0;   ///< given up, and still in use by unfinished steps
  int64_t of_copies = 0;  ///< read by copies that have not run, or held by transfers
  /// with groups: the first one that would lack pages, those before it having theirs; -1: none
  int32_t short_group = -1;
  bool operator==(const PoolExplanation&) const = default;
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::PoolExplanation;
using pool::ReserveRequest;
using pool::SequenceId;
}  // namespace folio::inline v1
