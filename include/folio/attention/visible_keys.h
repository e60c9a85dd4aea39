// SPDX-License-Identifier: Apache-2.0
/// folio/attention/visible_keys.h: which keys of its table row a query sees, on host and device.
#pragma once

#include <cstdint>

#include "folio/attention/mask.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::mask {

/// Half-open.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const Interval&) const = default;
  [[nodiscard]] FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t size() const {
    return end - begin;
  }
};

/// What one query sees, as key indices of its table row: sinks and keys, each empty if begin ==
/// end. Sinks that are no part of keys lie in front of them; otherwise they are {0, 0}.
struct Visible {
  Interval sinks = {};
  Interval keys = {};
  bool operator==(const Visible&) const = default;
};

}  // namespace folio::inline v1::mask

namespace folio::inline v1::detail {

/// Positions to key indices, clipped to the context; the two parts never overlap.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr mask::Visible clip(mask::Interval sinks,
                                                                   mask::Interval keys,
                                                                   int64_t key_position,
                                                                   int64_t context) {
  const int64_t zero = 0;
  const auto index = [&](int64_t position) {
    const int64_t i = position - key_position;
    return i < zero ? zero : i > context ? context : i;
  };
  mask::Visible v{{index(sinks.begin), index(sinks.end)}, {index(keys.begin), index(keys.end)}};
  if (v.keys.end < v.keys.begin) v.keys.end = v.keys.begin;
  if (v.sinks.begin >= v.sinks.end) {
    v.sinks = {};
  } else if (v.keys.begin <= v.sinks.end) {  // the parts touch or overlap: one interval
    if (v.sinks.begin < v.keys.begin) v.keys.begin = v.sinks.begin;
    if (v.keys.end < v.sinks.end) v.keys.end = v.sinks.end;
    v.sinks = {};
  }
  return v;
}

}  // namespace folio::inline v1::detail

namespace folio::inline v1::mask {

/// The keys that the mask shows to the query at `position`.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr Visible visible_keys(const Mask& mask,
                                                                     int64_t position,
                                                                     int64_t key_position,
                                                                     int64_t context) {
  int64_t begin = key_position;
  int64_t end = key_position + context;
  if (mask.left >= 0 && position - mask.left > begin) begin = position - mask.left;
  if (mask.right >= 0 && position + mask.right + 1 < end) end = position + mask.right + 1;
  if (mask.chunk > 0) {
    const int64_t remainder = position % mask.chunk;
    const int64_t start = position - (remainder < 0 ? remainder + mask.chunk : remainder);
    if (start > begin) begin = start;
    if (start + mask.chunk < end) end = start + mask.chunk;
  }
  const int64_t sinks_end = mask.sink_tokens < end ? mask.sink_tokens : end;
  return detail::clip({0, sinks_end}, {begin, end}, key_position, context);
}

/// The keys of an explicit interval of positions; it replaces every field of the mask.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr Visible visible_keys(Interval positions,
                                                                     int64_t key_position,
                                                                     int64_t context) {
  return detail::clip({}, positions, key_position, context);
}

}  // namespace folio::inline v1::mask

namespace folio::inline v1 {  // flat names, for one release
using mask::Interval;
using mask::Visible;
using mask::visible_keys;
}  // namespace folio::inline v1
