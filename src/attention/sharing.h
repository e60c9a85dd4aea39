// SPDX-License-Identifier: Apache-2.0
/// src/attention/sharing.h: which sequences of a batch begin with the same pages: a forest of
/// shared ranges.
///
/// A shared range is an interval of keys that lie in the same pages for all its members, which are
/// at least two and share all keys before it, too. Ranges behind it have some of its members each;
/// of two such ranges neither has a member of the other. Ranges begin and end at multiples of
/// `cut`, and within what each member's rows see.
///
///     sequence 0   [ a b c d e ]      range 0: keys of a b, members 0 1 2, parent -1
///     sequence 1   [ a b c f ]        range 1: keys of c,   members 0 1,   parent 0
///     sequence 2   [ a b g ]          order: 0 1 2
///
/// Entries are compared as they stand: what both leave unassigned by the same number is shared,
/// as ever without a key; by different numbers it ends what they share. Entries alone say that
/// pages are the same: two of one page in different places of a row are nothing to it.
///
/// How: a radix tree over table rows in steps of `cut` keys, sequence by sequence, children found
/// by a hash of all entries of their first step and then compared: linear in the entries that rows
/// begin with in common. No entry is read whose page has no key of the hull.
#pragma once

#include <cstdint>
#include <span>

#include "core/carver.h"
#include "folio/cache/page_table.h"

namespace folio::inline v1 {

/// What the rows of a sequence see between them: keys [begin, end) of its table row.
struct Hull {
  int32_t begin = 0;
  int32_t end = 0;
  /// whether the sequence may share; if so, every page of the hull holds a visible key
  bool takes_part = false;
};

struct SharedRange {
  int32_t key_begin = 0;  ///< the parent's key_end; 0 without a parent
  int32_t key_end = 0;
  int32_t parent = -1;       ///< the range before it; stands before it, too
  int32_t first_member = 0;  ///< of SharingMemory::order
  int32_t members = 0;
  bool operator==(const SharedRange&) const = default;
};

/// A node of the tree of all sequences, those that share nothing included.
struct SharingNode {
  int32_t key_end = 0;
  int32_t parent = -1;
  int32_t first_sequence = 0;  // the lowest member, whose row stands for all
  int32_t members = 0;
  uint32_t hash = 0;   // of the entries of its first step
  int32_t number = 0;  // of its range
  int32_t next = 0;    // place in `order` of its next member
};

/// Memory of one call. `order` is part of the answer: sequences so that the members of each range
/// follow one another; with range or child, the one with the lowest sequence first.
struct SharingMemory {
  SharingNode* nodes = nullptr;   // [2 * batch]
  uint32_t* buckets = nullptr;    // [sharing_buckets(batch)]
  int32_t* last_nodes = nullptr;  // [batch] that a sequence ends in
  SharedRange* ranges = nullptr;  // [batch]
  int32_t* order = nullptr;       // [batch]
};

/// A power of two, at most half of which is used.
[[nodiscard]] int64_t sharing_buckets(int64_t batch) noexcept;

/// Takes, or measures, the memory for any batch of up to so many sequences.
SharingMemory take_sharing_memory(Carver& carver, int64_t batch) noexcept;

/// The shared ranges of a batch of hulls.size() sequences whose pages hold `page_size` tokens: each
/// behind its parent, and all within one before the next that is not; of those side by side the one
/// with the lowest sequence first. A function of entries and hulls alone. A sequence takes part if
/// its hull begins at key 0. `cut` is at least 1. Valid as long as the memory.
[[nodiscard]] std::span<const SharedRange> find_shared(const PageTable& table, int32_t page_size,
                                                       std::span<const Hull> hulls, int32_t cut,
                                                       const SharingMemory& memory) noexcept;

}  // namespace folio::inline v1
