// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/fetch.h: fetches the rows of the coming pass to L2 while this one is
/// multiplied.
///
/// Rows come in a few streams that take turns, a line or two at a time, and these as evenly in time
/// as the calls allow. A line asked for holds one of the few buffers between L1 and L2 until it has
/// come from memory, and the loads of tiles need the same buffers. So there are no bursts, and a
/// stream is slow enough for the prefetcher of L2 to run ahead of it. ISA-safe: templates on a tag
/// type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/tuning.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::amx {

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
        for (int r = 0; r < run.rows; ++r)
          rows_[t * tile_keys + run.first + r] = rows.data + r * rows.stride_bytes;
      }
    const auto bytes = static_cast<int>(row_bytes(view.dtype, view.head_size));
    const int visits = (bytes + visit_bytes - 1) / visit_bytes;  // to a row
    row_end_ = int64_t{visits} * visit_bytes;
    offset_ = 0;
    stream_ = due_ = 0;
    row_ = count != 0 ? 0 : stream_rows;
    rate_ = (Sizes::pass_keys * visits * 256 + steps - 1) / steps;
  }

  FOLIO_ALWAYS_INLINE void step() {
    for (due_ += rate_; due_ >= 256; due_ -= 256) {
      if (row_ == stream_rows) return;
      const auto* const at =
          reinterpret_cast<const char*>(rows_[stream_ * stream_rows + row_] + offset_);
      _mm_prefetch(at, _MM_HINT_T1);
      if constexpr (visit_bytes > 64) _mm_prefetch(at + 64, _MM_HINT_T1);
      if (++stream_ == streams) next_lines();
    }
  }

 private:
  static constexpr int visit_bytes = LatentTuning::fetch_bytes;
  static constexpr int streams = LatentTuning::fetch_streams;
  static constexpr int stream_rows = Sizes::pass_keys / streams;
  static_assert(Sizes::pass_keys % streams == 0 && (visit_bytes == 64 || visit_bytes == 128));

  FOLIO_ALWAYS_INLINE void next_lines() {
    stream_ = 0;
    offset_ += visit_bytes;
    if (offset_ != row_end_) return;
    offset_ = 0;
    ++row_;
  }

  const std::byte* rows_[Sizes::pass_keys];
  int64_t offset_ = 0;  // in the row
  int64_t row_end_ = 0;
  int stream_ = 0;
  int row_ = stream_rows;  // of each stream
  int rate_ = 0;           // 256ths of a visit at each step
  int due_ = 0;
};

}  // namespace folio::inline v1::amx
