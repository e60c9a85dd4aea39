// SPDX-License-Identifier: Apache-2.0
/// src/cpu/append/granules.h: runs of elements that share a scale: where they are read and stored,
/// and how they are divided.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/append/elements.h"

namespace folio::inline v1::rows {

/// How x is divided.
enum class Division : uint8_t {
  none,
  exact,      ///< by the division instruction; any x, any divisor
  corrected,  ///< by the reciprocal; any x
  bounded     ///< by the reciprocal; x finite, the quotient within the type
};

/// One side of granules: where the first begins, and how far the others are from it.
template <class Byte>
struct Side {
  Byte* first;
  int64_t head_stride_bytes;
  int64_t granule_stride_bytes;

  [[nodiscard]] FOLIO_ALWAYS_INLINE Byte* at(int64_t head) const {
    return first + head * head_stride_bytes;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE Byte* at(int64_t head, int64_t granule) const {
    return first + head * head_stride_bytes + granule * granule_stride_bytes;
  }
};

/// Granules of some heads: runs of elements that share a divisor each.
struct Granules {
  int64_t heads;
  int64_t per_head;
  int64_t length;
  int64_t last_length;  ///< of the last one of a head
  Side<const std::byte> from;
  Side<std::byte> to;
  /// source of the same elements of a coming token: fetched evenly meanwhile
  Side<const std::byte> ahead;

  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t count() const { return heads * per_head; }
  /// How far those of a side are apart, whatever their heads; 0: not all as far.
  template <class Byte>
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t apart(const Side<Byte>& side) const {
    if (per_head == 1) return side.head_stride_bytes;
    const bool is_even =
        heads == 1 || side.head_stride_bytes == per_head * side.granule_stride_bytes;
    return is_even ? side.granule_stride_bytes : 0;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t length_of(int64_t granule) const {
    return granule + 1 == per_head ? last_length : length;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE int64_t head_length() const {
    return (per_head - 1) * length + last_length;
  }
  [[nodiscard]] FOLIO_ALWAYS_INLINE Granules one(int64_t head, int64_t granule) const {
    Granules g = *this;
    g.heads = g.per_head = 1;
    g.last_length = length_of(granule);
    g.from.first = from.at(head, granule);
    g.to.first = to.at(head, granule);
    g.ahead.first = ahead.at(head, granule);
    return g;
  }
};

/// A line of the source of a coming token, into the first or the second cache.
FOLIO_ALWAYS_INLINE void fetch(const std::byte* at, bool near) {
  if (near) {
    __builtin_prefetch(at, 0, 3);
  } else {
    __builtin_prefetch(at, 0, 2);
  }
}

/// Granules that are stored together.
inline constexpr int64_t granules_max = 64;

/// What granules are divided by. Not initialised: it is filled for every token.
struct Divisors {
  alignas(64) float value[granules_max];
  alignas(64) float reciprocal[granules_max];
  Division how[granules_max];
  bool is_uniform;  ///< all are divided as the first is
};

/// Quotients below 2^-22 are 0 in every 8-bit type, so a remainder that underflows is never seen.
inline constexpr float plain_divisor_min = 0x1p-80f, plain_divisor_max = 0x1p80f;
FOLIO_ALWAYS_INLINE bool is_plain_divisor(float x) {
  return x >= plain_divisor_min && x <= plain_divisor_max;
}

}  // namespace folio::inline v1::rows
