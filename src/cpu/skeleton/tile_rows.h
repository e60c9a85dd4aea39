// SPDX-License-Identifier: Apache-2.0
/// src/cpu/skeleton/tile_rows.h: where the rows of a tile lie, for engines that stage tiles by
/// heads.
///
/// ISA-safe: always-inline functions and plain structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/skeleton/mutant.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::skeleton {

/// Where each row of a tile lies, for head `head` of one plane: null where nobody sees the key.
/// `run` finds a row's scales.
struct RowPointers {
  int64_t head;
  const std::byte* row[tile_keys];
  const TileRun* run[tile_keys];
};

/// Head number `head` of a task's `heads` is staged, and what comes next is fetched to the caches
/// meanwhile: each staged row fetches one in turn, in the order in which they lie in memory.
struct Turn {
  int32_t head = 0;
  int32_t heads = 1;
  const RowPointers* ahead = nullptr;
};

FOLIO_ALWAYS_INLINE void find_rows(const PagedKVView& view, const KeyTile& tile, int64_t head,
                                   Mutant mutant, RowPointers& to) {
  to.head = head;
  for (const std::byte*& row : to.row) row = nullptr;
  for (int i = 0; i < tile.runs; ++i) {
    const TileRun& run = tile.run[i];
    const TileRows rows = mutant == Mutant::dense_page_stride
                              ? PageCursor::rows(with_dense_pages(view), run, head)
                              : PageCursor::rows(view, run, head);
    for (int k = 0; k < run.rows; ++k) {
      if ((tile.seen >> (run.first + k) & 1) == 0) continue;
      to.row[run.first + k] = rows.data + k * rows.stride_bytes;
      to.run[run.first + k] = &run;
    }
  }
}

/// Row k of the head whose turn it is; null where nobody sees the key.
FOLIO_ALWAYS_INLINE const std::byte* row_of_head(const PagedKVView& view, const RowPointers& at,
                                                 const Turn& turn, int k) {
  const std::byte* const row = at.row[k];
  return row == nullptr ? nullptr : PageCursor::head_after(view, row, turn.head);
}

/// Number `step` of those that the head's turn fetches.
FOLIO_ALWAYS_INLINE void prefetch_row(const PagedKVView& view, const Turn& turn, int step) {
  if (turn.ahead == nullptr) return;
  const bool heads_are_adjacent = PageCursor::heads_are_adjacent(view);
  const int number = turn.head * tile_keys + step;
  const int key = heads_are_adjacent ? number / turn.heads : step;
  const int head = heads_are_adjacent ? number % turn.heads : turn.head;
  if (turn.ahead->row[key] == nullptr) return;
  const std::byte* row = PageCursor::head_after(view, turn.ahead->row[key], head);
  const int bytes = static_cast<int>(row_bytes(view.dtype, view.head_size));
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
}

}  // namespace folio::inline v1::skeleton
