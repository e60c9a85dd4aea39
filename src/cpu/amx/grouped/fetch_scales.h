// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/fetch_scales.h: asks for the scales of what comes next: a sixtieth of what
/// is read, and apart from it.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include "cpu/amx/grouped/pacer.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::amx {

template <class I>
class ScaleFetch {
 public:
  /// To L2, of the share's rows and of its first and last head: those of heads between them lie
  /// between them.
  static void fetch(const PagedKVView& view, const KeyTile& tile, const Share& share) {
    if (view.scales.data == nullptr) return;
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const int begin = share.row_begin > run.first ? share.row_begin - run.first : 0;
      const int end = share.row_end - run.first < run.rows ? share.row_end - run.first : run.rows;
      fetch_rows(PageCursor::scale_rows(view, run, share.head_begin), begin, end);
      if (share.head_end - share.head_begin > 1)
        fetch_rows(PageCursor::scale_rows(view, run, share.head_end - 1), begin, end);
    }
  }

 private:
  /// Each line once, where rows lie close together.
  static void fetch_rows(const TileRows& from, int begin, int end) {
    const int64_t stride = from.stride_bytes;
    const int rows = stride > 0 && stride < 64 ? static_cast<int>(64 / stride) : 1;
    for (int i = begin; i < end; i += rows)
      _mm_prefetch(reinterpret_cast<const char*>(from.data + i * stride), _MM_HINT_T1);
  }
};

}  // namespace folio::inline v1::amx
