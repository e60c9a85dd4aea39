// SPDX-License-Identifier: Apache-2.0
/// folio/pool/retention.h: how long the pages of a sequence are kept after it has given them up.
///
/// Cached pages have a *level*. Of the pages that may be evicted, those of the lowest level go
/// first: of `RetentionLevel::normal` in the order of the pool's eviction policy, of any other the
/// one that was given up first. Pages of level `pinned` are never evicted, and not available. Every
/// level but the normal one ends at a deadline, which the pool learns from
/// `PagePool::advance_time`; the page is then treated as if it had been given up at that time, at
/// the normal level.
///
/// A page is kept no shorter than what continues it, for without it nobody could find that: of the
/// tokens that a sequence has at its end, those before a range get the range's level unless theirs
/// is higher. Where several sequences have had a page, the highest level counts that one of them
/// asked for (saying nothing asks for the normal one), of equals the later deadline.
///
/// In a pool with groups, pages of all groups are kept as the leading page that has their tokens.
/// Of a slab that a group has, the lowest level goes first; where a group takes a slab from another
/// one, those go first whose pages are all below the normal level, and those last that have one
/// above it. A lower level in another slab of the group may stay when every slab is spoken for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace folio::inline v1::pool {

namespace retention_level {
inline constexpr int32_t first_to_go = 0;
inline constexpr int32_t normal = 35;
inline constexpr int32_t pinned = 100;
}  // namespace retention_level

/// Tokens begin .. end - 1 of a sequence, counted from its first one; a page counts as a whole when
/// one of its tokens does. Ranges may overlap, and may reach beyond the sequence.
struct RetentionRange {
  int32_t begin = 0;                                  ///< >= 0
  int32_t end = std::numeric_limits<int32_t>::max();  ///< > begin
  int32_t level = retention_level::normal;            ///< 0 .. 100
  /// from when the sequence gives its pages up: 0 .. PoolOptions::max_retention_ms; 0: as long as
  /// that
  int64_t milliseconds = 0;
};

/// At most this many for a sequence.
inline constexpr size_t max_retention_ranges = 8;

/// Of the tokens behind the prompt that the sequence was admitted with.
struct DecodeRetention {
  static constexpr int32_t not_given = -1;
  int32_t level = not_given;  ///< 0 .. 100, or not_given: what the ranges say
  int64_t milliseconds = 0;   ///< as of a range
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
namespace retention_level = pool::retention_level;
using pool::DecodeRetention;
using pool::max_retention_ranges;
using pool::RetentionRange;
}  // namespace folio::inline v1
