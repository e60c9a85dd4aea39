// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/top.h: the greatest scores of one query, in one pass over its keys: exact, with
/// memory for twice as many as are wanted.
///
/// Keys come in ascending order. What cannot be among the k greatest any more is not kept; where
/// there is no room left, the k greatest of those kept stay, in their order, and the least of them
/// is the bound for what comes. So a list is in ascending order without being sorted.
///
/// ISA-safe: always-inline functions and plain structs; what `compact` needs of the standard
/// library stands in top.cpp.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1::indexer {

/// Keys that may come between two looks at the room: a key tile.
inline constexpr int32_t keys_at_once = 64;

/// A score and its key as one number, the better the greater: of equal scores the lower key. NaN
/// has the place of -inf, which is no candidate: below every number.
FOLIO_ALWAYS_INLINE uint64_t candidate_of(float score, int32_t key) {
  const auto bits = __builtin_bit_cast(uint32_t, score);
  uint32_t rank = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  if (score == 0.0f) rank = 0x80000000u;
  if (score != score) rank = 0x007fffffu;
  return uint64_t{rank} << 32 | ~static_cast<uint32_t>(key);
}
FOLIO_ALWAYS_INLINE int32_t key_of(uint64_t candidate) {
  return static_cast<int32_t>(~static_cast<uint32_t>(candidate));
}
/// -inf for NaN.
FOLIO_ALWAYS_INLINE float score_of(uint64_t candidate) {
  const auto rank = static_cast<uint32_t>(candidate >> 32);
  return __builtin_bit_cast(float, (rank >> 31) != 0 ? rank & 0x7fffffffu : ~rank);
}

/// Of one query.
struct Top {
  uint64_t* kept = nullptr;  ///< [room_for(k)], in ascending order of keys
  int32_t k = 0;
  int32_t count = 0;
  uint64_t least = 0;  ///< candidates must be above it
  /// the score of `least`: later keys must be above it
  float bound = -__builtin_inff();
  bool takes_nan = true;  ///< there is no `least` yet

  [[nodiscard]] FOLIO_ALWAYS_INLINE static constexpr int64_t room_for(int32_t k) {
    return int64_t{2} * k + keys_at_once;
  }
  FOLIO_ALWAYS_INLINE static Top empty(uint64_t* memory, int32_t k) {
    Top top;
    top.kept = memory;
    top.k = k;
    return top;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE bool has_room() const {
    return count + keys_at_once <= room_for(k);
  }
  /// Requires room.
  FOLIO_ALWAYS_INLINE void keep(uint64_t candidate) { kept[count++] = candidate; }
};

/// Leaves the k greatest at the most. `spare`: room_for(k), whatever it holds.
void compact(Top& top, uint64_t* spare) noexcept;

/// Candidates of a part of the keys, in ascending order of keys, behind those that came before.
void join(Top& top, const uint64_t* candidates, int32_t count, uint64_t* spare) noexcept;

/// Writes the list: k entries.
void write_list(Top& top, uint64_t* spare, int32_t* list) noexcept;

}  // namespace folio::inline v1::indexer
