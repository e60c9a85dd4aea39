// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/stage.h: from pages to tiles: walks the page table and brings 64 keys, and
/// their values, to f32.
///
/// Only keys that some row of the task sees are read; all other rows of a tile become zero, so that
/// what lies in dead slots can reach no output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/convert/rows.h"
#include "cpu/portable/scratch.h"
#include "cpu/skeleton/mutant.h"

namespace folio::inline v1::portable {

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

template <class I>
struct Stage {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

  static void find_rows(const PagedKVView& view, const KeyTile& tile, int64_t head,
                        RowPointers& to) {
    to.head = head;
    for (const std::byte*& row : to.row) row = nullptr;
    for (int i = 0; i < tile.runs; ++i) {
      const TileRun& run = tile.run[i];
      const TileRows rows = I::mutant == Mutant::dense_page_stride
                                ? PageCursor::rows(with_dense_pages(view), run, head)
                                : PageCursor::rows(view, run, head);
      for (int k = 0; k < run.rows; ++k) {
        if ((tile.seen >> (run.first + k) & 1) == 0) continue;
        to.row[run.first + k] = rows.data + k * rows.stride_bytes;
        to.run[run.first + k] = &run;
      }
    }
  }

  /// The tile's keys, transposed; with `latent_values` > 0 the first so many columns of each key
  /// are its value too (MLA). Strided rows are beyond what hardware prefetchers follow, hence
  /// `ahead`.
  static void keys(const Scratch& s, const PagedKVView& view, const KeyTile& tile,
                   const RowPointers& at, const Turn& turn, int latent_values) {
    const int n = view.head_size;
    for (int first = 0; first < tile_keys; first += W) {
      const uint64_t bits = tile.seen >> first & ((uint64_t{1} << W) - 1);
      if (bits == 0 && latent_values == 0) {
        for (int d = 0; d < n; ++d)
          V::store(s.keys + static_cast<int64_t>(d) * tile_keys + first, F{});
        continue;
      }
      fetch(view, at, turn, first, W, s.rows, s.head);
      for (int i = 0; i < W && latent_values > 0; ++i)
        copy(s.rows + static_cast<int64_t>(i) * s.head,
             s.values + static_cast<int64_t>(first + i) * s.v_head, latent_values);
      for (int d = 0; d < n; d += W) transpose_block(s, first, d);
    }
  }

  /// The tile's values; rows up to `count` that nobody sees are zero.
  static void values(const Scratch& s, const PagedKVView& view, const RowPointers& at,
                     const Turn& turn, int count) {
    for (int first = 0; first < count; first += W) {
      const int to = I::mutant == Mutant::value_order_wrong ? first ^ W : first;
      fetch(view, at, turn, first, count - first < W ? count - first : W,
            s.values + static_cast<int64_t>(to) * s.v_head, s.v_head);
    }
  }

 private:
  static void copy(const float* from, float* to, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }

  static void prefetch(const PagedKVView& view, const Turn& turn, int step) {
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

  /// Rows [first, first + count) of the tile, count <= W, to f32 rows `stride` apart, scaled; rows
  /// that nobody sees become zero.
  static void fetch(const PagedKVView& view, const RowPointers& at, const Turn& turn, int first,
                    int count, float* to, int stride) {
    const std::byte* from[W];
    for (int i = 0; i < count; ++i) {
      prefetch(view, turn, first + i);
      from[i] = at.row[first + i];
      if (from[i] != nullptr) from[i] = PageCursor::head_after(view, from[i], turn.head);
    }
    Rows<I>::widen(view.dtype, from, count, to, stride, view.head_size);
    if (view.scales.data == nullptr) return;
    for (int i = 0; i < count; ++i) {
      if (from[i] == nullptr) continue;
      const TileRun& run = *at.run[first + i];
      scale(view, run, first + i - run.first, at.head + turn.head,
            to + static_cast<int64_t>(i) * stride);
    }
  }

  static void scale(const PagedKVView& view, const TileRun& run, int i, int64_t head, float* to) {
    const int granularity = view.scales.granularity, n = view.head_size;
    for (int begin = 0; begin < n;) {
      const int end = granularity < n - begin ? begin + granularity : n;
      const int indexed =
          I::mutant == Mutant::scale_index_by_ceil ? begin + granularity - 1 : begin;
      const float factor =
          PageCursor::scale(view, run, i, head, indexed + (indexed != begin ? 1 : 0));
      for (int d = begin; d < end; ++d) to[d] *= factor;
      begin = end;
    }
  }

  static void transpose_block(const Scratch& s, int first, int d) {
    F block[W];
    for (int i = 0; i < W; ++i) block[i] = V::load(s.rows + static_cast<int64_t>(i) * s.head + d);
    V::transpose(block);
    for (int i = 0; i < W; ++i)
      V::store(s.keys + static_cast<int64_t>(d + i) * tile_keys + first, block[i]);
  }
};

}  // namespace folio::inline v1::portable
