// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent_fetch.h: fetches the rows of the coming pass to L2 while this one is multiplied.
///
/// Rows come in streams of 16 that advance together, a line of each at a time. A stream that is slow leaves the prefetcher of L2 the time
/// to run ahead of it, so that most lines asked for are there or on their way, and the few buffers between L1 and L2 stay free for what
/// tile loads miss. ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio {
inline namespace v1 {
namespace amx {

template <class I, class Sizes>
class LatentFetch {
 public:
  /// Begins with the rows of `count` tiles, to be through after `steps` steps.
  void begin(const PagedKVView& view, KeyTile* const* tiles, int count, int head, int steps) {
    const auto* const nowhere = reinterpret_cast<const std::byte*>(this);
    for (const std::byte*& row : rows_) row = nowhere;
    for (int t = 0; t < count; ++t)
      for (int i = 0; i < tiles[t]->runs; ++i) {
        const TileRun& run = tiles[t]->run[i];
        const TileRows rows = PageCursor::rows(view, run, head);
        for (int r = 0; r < run.rows; ++r) rows_[t * tile_keys + run.first + r] = rows.data + r * rows.stride_bytes;
      }
    row_bytes_ = (int64_t{view.head_size} * 2 + 63) / 64 * 64;
    offset_ = 0;
    row_ = due_ = 0;
    rate_ = count != 0 ? static_cast<int>((stream_rows * row_bytes_ * 4 + steps - 1) / steps) : 0;
  }

  FOLIO_ALWAYS_INLINE void step() {
    for (due_ += rate_; due_ >= 256; due_ -= 256) {
      if (row_ == stream_rows) return;
      const std::byte* const* const row = rows_ + row_;
#pragma GCC unroll 16
      for (int s = 0; s < streams; ++s) _mm_prefetch(reinterpret_cast<const char*>(row[s * stream_rows] + offset_), _MM_HINT_T1);
      offset_ += 64;
      if (offset_ == row_bytes_) {
        offset_ = 0;
        ++row_;
      }
    }
  }

 private:
  static constexpr int stream_rows = 16;
  static constexpr int streams = Sizes::pass_keys / stream_rows;

  const std::byte* rows_[Sizes::pass_keys];
  int64_t offset_ = 0;
  int64_t row_bytes_ = 0;
  int row_ = stream_rows;  // of each stream
  int rate_ = 0;           // 256ths of a line of each stream at each step
  int due_ = 0;
};

}  // namespace amx
}  // namespace v1
}  // namespace folio
