// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/collect.h: the scores of a key tile to the candidates of their query.
///
/// Few scores pass once k are known, so that all that counts is the compare. ISA-safe: templates on
/// a tag type.
#pragma once

#include <cstdint>

#include "cpu/index/top.h"
#include "cpu/vec/simd.h"

namespace folio::inline v1::indexer {

template <class I>
struct Collect {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

  /// Scores of the keys [first, first + 64), of which those of `seen` count.
  static void tile(const float* scores, int32_t first, uint64_t seen, Top& top, uint64_t* spare) {
    uint64_t better = better_of(scores, top) & seen;
    if (better == 0) return;
    if (!top.has_room()) {
      compact(top, spare);
      better = better_of(scores, top) & seen;
    }
    for (; better != 0; better &= better - 1) {
      const int key = __builtin_ctzll(better);
      top.keep(candidate_of(scores[key], first + key));
    }
  }

  /// The scores of the keys [first, first + count).
  static void row(const float* scores, int32_t first, int64_t count, Top& top, uint64_t* spare) {
    int64_t i = 0;
    for (; i + keys_at_once <= count; i += keys_at_once)
      tile(scores + i, first + static_cast<int32_t>(i), ~uint64_t{0}, top, spare);
    if (i == count) return;
    float last[keys_at_once] = {};
    __builtin_memcpy(last, scores + i, static_cast<size_t>(count - i) * sizeof(float));
    tile(last, first + static_cast<int32_t>(i), (uint64_t{1} << (count - i)) - 1, top, spare);
  }

 private:
  /// Bits of the scores that may be among the k greatest.
  FOLIO_ALWAYS_INLINE static uint64_t better_of(const float* scores, const Top& top) {
    const F bound = V::splat(top.bound);
    uint64_t bits = 0;
    if (top.takes_nan) {
      for (int i = 0; i < keys_at_once; i += W)
        bits |= mask_of(~(V::load(scores + i) <= bound)) << i;
      return bits;
    }
    for (int i = 0; i < keys_at_once; i += W) bits |= mask_of(V::load(scores + i) > bound) << i;
    return bits;
  }
  FOLIO_ALWAYS_INLINE static uint64_t mask_of(typename V::S lanes) {
    return static_cast<uint64_t>(static_cast<uint32_t>(I::signs(lanes)));
  }
};

}  // namespace folio::inline v1::indexer
