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

/// Where the seen keys of a tile lie.
struct TileSlots {
  int64_t page[key_tile];
  int64_t slot[key_tile];
};

template <class I>
struct Stage {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

  /// Finds the keys of `seen`; returns those that lie in assigned pages. Reads the table entries of seen keys only.
  static uint64_t walk(const PagedKVView& view, const uint32_t* row, int64_t first_key, uint64_t seen, TileSlots& at) {
    uint64_t found = 0;
    while (seen != 0) {
      const int key = __builtin_ctzll(seen);
      PageRun run = run_of(view, row, first_key + key, first_key + key_tile);
      if (I::mutant == Mutant::unassigned_entry_multiplied && run.page == no_page) run.page = 0;
      const int end = key + static_cast<int>(run.rows);
      const uint64_t bits = (end >= 64 ? ~uint64_t{0} : (uint64_t{1} << end) - 1) & (~uint64_t{0} << key);
      if (run.page != no_page) {
        for (int i = key; i < end; ++i) {
          at.page[i] = run.page;
          at.slot[i] = run.slot + (i - key);
        }
        found |= seen & bits;
      }
      seen &= ~bits;
    }
    return found;
  }

  /// Keys of `seen`, transposed; with `latent_values` > 0 the first so many columns of each key are its value too (MLA).
  static void keys(const Scratch& s, const PagedKVView& view, int32_t head, const TileSlots& at, uint64_t seen, int latent_values) {
    const int n = view.head_size;
    for (int first = 0; first < key_tile; first += W) {
      const uint64_t bits = seen >> first & ((uint64_t{1} << W) - 1);
      if (bits == 0 && latent_values == 0) {
        for (int d = 0; d < n; ++d) V::store(s.keys + static_cast<int64_t>(d) * key_tile + first, F{});
        continue;
      }
      for (int i = 0; i < W; ++i) {
        float* row = s.rows + static_cast<int64_t>(i) * s.head;
        fetch(view, head, at, first + i, (bits >> i & 1) != 0, row, n);
        if (latent_values > 0) copy(row, s.values + static_cast<int64_t>(first + i) * s.v_head, latent_values);
      }
      for (int d = 0; d < n; d += W) transpose_block(s, first, d);
    }
  }

  /// Values of `seen`; rows up to `count` that nobody sees are zero.
  static void values(const Scratch& s, const PagedKVView& view, int32_t head, const TileSlots& at, uint64_t seen, int count) {
    for (int key = 0; key < count; ++key) {
      const bool is_seen = (seen >> key & 1) != 0;
      if (I::mutant == Mutant::value_tail_not_zeroed && !is_seen) continue;
      fetch(view, head, at, key, is_seen, s.values + static_cast<int64_t>(key) * s.v_head, view.head_size);
    }
  }

 private:
  static void copy(const float* from, float* to, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }

  static void fetch(const PagedKVView& view, int32_t head, const TileSlots& at, int key, bool is_seen, float* to, int n) {
    if (!is_seen) {
      for (int d = 0; d < n; ++d) to[d] = 0.0f;
      return;
    }
    const int64_t page = at.page[key], slot = at.slot[key];
    const std::byte* from = I::mutant == Mutant::dense_page_stride
                                ? static_cast<const std::byte*>(view.data) + page * view.page_size * view.slot_stride_bytes +
                                      slot * view.slot_stride_bytes + head * view.head_stride_bytes
                                : row_of(view, page, slot, head);
    Rows<I>::widen(view.dtype, from, to, n);
    if (view.scales.data != nullptr) scale(view.scales, page, slot, head, to, n);
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
