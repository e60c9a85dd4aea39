// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/live_tiles.h: what the rows of a task see together, and the tiles of
/// keys that hold it: spans for the plan, slabs for the loaders. Host and device.
///
/// Between sink tokens and a window lie tiles that no row sees. They are no part of anything: a
/// task [span_begin, span_end) may reach over them, but they cost nothing, are not walked, and have
/// no partial.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"
#include "kernel/sequence.h"

namespace folio::cuda {

/// Covers what new tokens [first, last] of a sequence see, at least; exact where they see what a
/// mask shows, but for tokens that see nothing.
///
/// Positions of tokens ascend one by one and a mask's begin and end never fall as they do, sink
/// tokens included, so that the first and the last token bound all between them, if both see keys.
/// Otherwise, and for intervals, every token is asked.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE Visible seen_by_tokens(const AttentionProblem& problem,
                                                             const Batch& batch, const Sequence& s,
                                                             int32_t first, int32_t last) {
  Visible seen = visible_of(problem, batch, s, first);
  if (first == last) return seen;
  const Visible end = visible_of(problem, batch, s, last);
  const bool are_bounds =
      !problem.intervals && seen.keys.begin < seen.keys.end && end.keys.begin < end.keys.end;
  seen = hull(seen, end);
  if (are_bounds || s.context <= 0) return seen;
  for (int32_t token = first + 1; token < last; ++token)
    seen = hull(seen, visible_of(problem, batch, s, token));
  return seen;
}

/// Tiles of keys at absolute multiples, in up to two runs: of sink tokens, and of keys behind them.
/// Live tiles are numbered 0 .. count() - 1 in ascending order.
struct LiveTiles {
  int32_t sinks_begin = 0;
  int32_t sinks = 0;
  int32_t keys_begin = 0;
  int32_t keys = 0;

  [[nodiscard]] FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int32_t count() const {
    return sinks + keys;
  }
  /// The tile with this number.
  [[nodiscard]] FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int32_t at(int32_t number) const {
    return number < sinks ? sinks_begin + number : keys_begin + (number - sinks);
  }
  /// Live tiles before tile `tile`: its number, if it is live.
  [[nodiscard]] FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int32_t before(int32_t tile) const {
    return within(tile - sinks_begin, sinks) + within(tile - keys_begin, keys);
  }

 private:
  static FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int32_t within(int32_t n, int32_t most) {
    return n < 0 ? 0 : n > most ? most : n;
  }
};

/// Of `tile_keys` keys each. Indices of keys are below 2^31.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr LiveTiles live_tiles(const Visible& seen,
                                                                     int32_t tile_keys) {
  const auto size = static_cast<uint32_t>(tile_keys);
  const auto first = [size](int64_t key) {
    return static_cast<int32_t>(static_cast<uint32_t>(key) / size);
  };
  const auto behind = [size](int64_t key) {
    return static_cast<int32_t>((static_cast<uint32_t>(key) + (size - 1)) / size);
  };
  LiveTiles tiles;
  if (seen.keys.begin < seen.keys.end) {
    tiles.keys_begin = first(seen.keys.begin);
    tiles.keys = behind(seen.keys.end) - tiles.keys_begin;
  }
  if (seen.sinks.begin >= seen.sinks.end) return tiles;
  const int32_t begin = first(seen.sinks.begin), end = behind(seen.sinks.end);
  if (tiles.keys == 0 || tiles.keys_begin > end) {
    tiles.sinks_begin = begin;
    tiles.sinks = end - begin;
    return tiles;
  }
  // the runs touch or overlap: one
  const int32_t keys_end = tiles.keys_begin + tiles.keys;
  if (begin < tiles.keys_begin) tiles.keys_begin = begin;
  tiles.keys = (keys_end > end ? keys_end : end) - tiles.keys_begin;
  return tiles;
}

}  // namespace folio::cuda
