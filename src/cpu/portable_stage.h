// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable_stage.h: from pages to tiles: walks the page table and brings 64 keys, and their values, to f32.
///
/// Only keys that some row of the task sees are read; all other rows of a tile become zero, so that what lies in dead slots can
/// reach no output.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/convert_rows.h"
#include "cpu/mutant.h"
#include "cpu/portable_scratch.h"
#include "folio/cache/page_walk.h"

namespace folio {
inline namespace v1 {
namespace portable {

/// The keys of a tile that some row of the task sees, and where they lie.
struct KeyTile {
  int64_t first = 0;  // key index
  uint64_t seen = 0;  // 0: there is no such tile
  int64_t page[key_tile];
  int64_t slot[key_tile];
};

/// What a task will stage next, so that it can be fetched to the caches while the tile before it is staged: `heads` heads from
/// `first_head` on of the keys of `tile`. A task stages one (head, key) at a time; the one of head number `head` and key i fetches one
/// in turn, in the order in which they lie in memory.
struct Ahead {
  const KeyTile* tile = nullptr;
  int32_t first_head = 0;
  int32_t heads = 1;
  int32_t head = 0;
};

template <class I>
struct Stage {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

  /// Finds the keys of `tile.seen` and drops those of unassigned pages. Reads the table entries of seen keys only.
  static void walk(const PagedKVView& view, const uint32_t* row, KeyTile& tile) {
    uint64_t found = 0;
    for (uint64_t left = tile.seen; left != 0;) {
      const int key = __builtin_ctzll(left);
      PageRun run = run_of(view, row, tile.first + key, tile.first + key_tile);
      if (I::mutant == Mutant::unassigned_entry_multiplied && run.page == no_page) run.page = 0;
      const int end = key + static_cast<int>(run.rows);
      const uint64_t bits = (end >= 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1) & (~uint64_t{0} << key);
      if (run.page != no_page) {
        for (int i = key; i < end; ++i) {
          tile.page[i] = run.page;
          tile.slot[i] = run.slot + (i - key);
        }
        found |= left & bits;
      }
      left &= ~bits;
    }
    tile.seen = found;
  }

  /// The tile's keys, transposed; with `latent_values` > 0 the first so many columns of each key are its value too (MLA).
  /// Strided rows are beyond what hardware prefetchers follow, hence `ahead`.
  static void keys(const Scratch& s, const PagedKVView& view, const KeyTile& tile, const Ahead& ahead, int latent_values) {
    const int n = view.head_size;
    for (int first = 0; first < key_tile; first += W) {
      const uint64_t bits = tile.seen >> first & ((uint64_t{1} << W) - 1);
      if (bits == 0 && latent_values == 0) {
        for (int d = 0; d < n; ++d) V::store(s.keys + static_cast<int64_t>(d) * key_tile + first, F{});
        continue;
      }
      fetch(view, tile, ahead, first, W, s.rows, s.head);
      for (int i = 0; i < W && latent_values > 0; ++i)
        copy(s.rows + static_cast<int64_t>(i) * s.head, s.values + static_cast<int64_t>(first + i) * s.v_head, latent_values);
      for (int d = 0; d < n; d += W) transpose_block(s, first, d);
    }
  }

  /// The tile's values; rows up to `count` that nobody sees are zero.
  static void values(const Scratch& s, const PagedKVView& view, const KeyTile& tile, const Ahead& ahead, int count) {
    for (int first = 0; first < count; first += W)
      fetch(view, tile, ahead, first, count - first < W ? count - first : W, s.values + static_cast<int64_t>(first) * s.v_head,
            s.v_head);
  }

 private:
  static void copy(const float* from, float* to, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }

  static bool is_seen(const KeyTile& tile, int key) { return (tile.seen >> key & 1) != 0; }

  static void prefetch(const PagedKVView& view, const Ahead& ahead, int step) {
    const bool heads_are_adjacent = view.head_stride_bytes < view.slot_stride_bytes;
    const int turn = ahead.head * key_tile + step;
    const int key = heads_are_adjacent ? turn / ahead.heads : step;
    const int head = ahead.first_head + (heads_are_adjacent ? turn % ahead.heads : ahead.head);
    if (!is_seen(*ahead.tile, key)) return;
    const std::byte* row = row_of(view, ahead.tile->page[key], ahead.tile->slot[key], head);
    const int bytes = view.head_size * bit_width(view.dtype) / 8;
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
  }

  static const std::byte* address(const PagedKVView& view, int32_t head, const KeyTile& tile, int key) {
    if constexpr (I::mutant == Mutant::dense_page_stride)
      return static_cast<const std::byte*>(view.data) +
             (tile.page[key] * view.page_size + tile.slot[key]) * view.slot_stride_bytes + head * view.head_stride_bytes;
    return row_of(view, tile.page[key], tile.slot[key], head);
  }

  /// Rows [first, first + count) of the tile, count <= W, to f32 rows `stride` apart, scaled; rows that nobody sees become zero.
  static void fetch(const PagedKVView& view, const KeyTile& tile, const Ahead& ahead, int first, int count, float* to,
                    int stride) {
    const int32_t head = ahead.first_head + ahead.head;
    const std::byte* from[W];
    for (int i = 0; i < count; ++i) {
      prefetch(view, ahead, first + i);
      from[i] = is_seen(tile, first + i) ? address(view, head, tile, first + i) : nullptr;
    }
    Rows<I>::widen(view.dtype, from, count, to, stride, view.head_size);
    if (view.scales.data == nullptr) return;
    for (int i = 0; i < count; ++i)
      if (from[i] != nullptr)
        scale(view.scales, tile.page[first + i], tile.slot[first + i], head, to + static_cast<int64_t>(i) * stride,
              view.head_size);
  }

  static void scale(const ScaleView& scales, int64_t page, int64_t slot, int32_t head, float* to, int n) {
    const int granularity = scales.granularity;
    for (int begin = 0; begin < n;) {
      const int end = granularity < n - begin ? begin + granularity : n;
      const int indexed = I::mutant == Mutant::scale_index_by_ceil ? begin + granularity - 1 : begin;
      const float factor = scale_at(scales, page, slot, head, indexed + (indexed != begin ? 1 : 0));
      for (int d = begin; d < end; ++d) to[d] *= factor;
      begin = end;
    }
  }

  static void transpose_block(const Scratch& s, int first, int d) {
    F block[W];
    for (int i = 0; i < W; ++i) block[i] = V::load(s.rows + static_cast<int64_t>(i) * s.head + d);
    V::transpose(block);
    for (int i = 0; i < W; ++i) V::store(s.keys + static_cast<int64_t>(d + i) * key_tile + first, block[i]);
  }
};

}  // namespace portable
}  // namespace v1
}  // namespace folio
