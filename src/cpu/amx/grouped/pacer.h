// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/pacer.h: fetches the rows of the next tile to L2 while the current one is
/// staged and multiplied.
///
/// Lines are asked for in the order of memory, K and V in turn, a few at each tick, so that memory
/// never rests: neither the staging, whose instructions fill the window of out-of-order execution,
/// nor the products read far enough ahead by themselves. Where a token's heads lie side by side
/// (token-major), rows of all heads are one run. Nothing is asked for twice. ISA-safe: templates on
/// a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::amx {

/// Which rows and heads of a tile to fetch.
struct Share {
  int row_begin = 0;
  int row_end = 0;
  int head_begin = 0;
  int head_end = 0;
};

template <class I>
class PlanePacer {
 public:
  /// `row_bytes`: of one head.
  void begin(const PagedKVView& view, int row_bytes, const KeyTile* tile, const Share& share) {
    view_ = &view;
    row_bytes_ = row_bytes;
    tile_ = tile;
    share_ = share;
    run_ = row_ = 0;
    head_ = share.head_begin;
    lines = 0;
    if (tile != nullptr) next();
  }

  /// Asks for up to `count` lines.
  FOLIO_ALWAYS_INLINE void tick(int count) {
    if (lines == 0) return;
    const int n = count < lines ? count : lines;
    for (int i = 0; i < n; ++i)
      _mm_prefetch(reinterpret_cast<const char*>(at_ + i * 64), _MM_HINT_T1);
    at_ += n * 64;
    lines -= n;
    if (lines == 0) next();
  }

  int lines = 0;  ///< left of the current stretch; 0: all is done

 private:
  /// The next stretch of memory: a run's rows where they follow one another, otherwise a row of all
  /// heads, or of one.
  __attribute__((noinline)) void next() {
    const bool is_token_major = PageCursor::heads_are_adjacent(*view_);
    const int64_t heads = is_token_major ? share_.head_end - share_.head_begin : 1;
    const int64_t row = PageCursor::heads_bytes(*view_, heads - 1) + row_bytes_;
    for (; head_ < share_.head_end; head_ += static_cast<int>(heads), run_ = row_ = 0)
      for (; run_ < tile_->runs; ++run_, row_ = 0) {
        const TileRun& run = tile_->run[run_];
        const int begin = share_.row_begin > run.first ? share_.row_begin - run.first : 0;
        const int end =
            share_.row_end - run.first < run.rows ? share_.row_end - run.first : run.rows;
        if (row_ < begin) row_ = begin;
        if (row_ >= end) continue;
        const TileRows rows = PageCursor::rows(*view_, run, head_);
        const bool together = rows.stride_bytes - row < 64;
        const int64_t bytes = together ? (end - row_ - 1) * rows.stride_bytes + row : row;
        at_ = rows.data + row_ * rows.stride_bytes;
        lines = static_cast<int>((bytes + 63) / 64);
        row_ = together ? end : row_ + 1;
        return;
      }
  }

  const PagedKVView* view_ = nullptr;
  const KeyTile* tile_ = nullptr;
  const std::byte* at_ = nullptr;
  Share share_;
  int row_bytes_ = 0;
  int run_ = 0;
  int row_ = 0;
  int head_ = 0;
};

/// K and V in turn.
template <class I>
class Pacer {
 public:
  FOLIO_ALWAYS_INLINE void tick(int count) {
    const bool second = turn_;
    turn_ = !turn_;
    plane[second && plane[1].lines != 0 ? 1 : plane[0].lines != 0 ? 0 : 1].tick(count);
  }
  /// All that is left, `lines` together.
  void finish(int lines) {
    while (plane[0].lines != 0 || plane[1].lines != 0) tick(lines);
  }
  PlanePacer<I> plane[2];

 private:
  bool turn_ = false;
};

}  // namespace folio::inline v1::amx
