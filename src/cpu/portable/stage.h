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
#include "cpu/skeleton/tile_rows.h"

namespace folio::inline v1::portable {

using skeleton::RowPointers;
using skeleton::Turn;

template <class I>
struct Stage {
  using V = Simd<I>;
  using F = typename V::F;
  static constexpr int W = V::W;

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

  /// Rows [first, first + count) of the tile, count <= W, to f32 rows `stride` apart, scaled; rows
  /// that nobody sees become zero.
  static void fetch(const PagedKVView& view, const RowPointers& at, const Turn& turn, int first,
                    int count, float* to, int stride) {
    const std::byte* from[W];
    for (int i = 0; i < count; ++i) {
      skeleton::prefetch_row(view, turn, first + i);
      from[i] = skeleton::row_of_head(view, at, turn, first + i);
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

  /// How the elements of a granule are read whose scale lies there.
  FOLIO_ALWAYS_INLINE static detail::GranuleReading reading_at(const PagedKVView& view,
                                                               const std::byte* at) {
    if (I::mutant == Mutant::zero_points_ignored)
      return detail::reading_at(view.dtype, without_zero_points(view.scales), at);
    return detail::reading_at(view.dtype, view.scales, at);
  }

 private:
  static void copy(const float* from, float* to, int n) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
  }

  /// Granule by granule.
  static void scale(const PagedKVView& view, const TileRun& run, int i, int64_t head, float* to) {
    const ScaleView& scales = view.scales;
    const TileRows rows = PageCursor::scale_rows(view, run, head);
    const std::byte* at = rows.data + i * rows.stride_bytes;
    if (I::mutant == Mutant::scale_index_by_ceil && scales.granularity > 1)
      at += scales.granule_stride_bytes;
    for (float* const end = to + view.head_size; to < end; at += scales.granule_stride_bytes) {
      const auto left = static_cast<int>(end - to);
      const int count = scales.granularity < left ? scales.granularity : left;
      const detail::GranuleReading reading = reading_at(view, at);
      if (detail::is_packed(view.dtype)) {
        read(to, count, reading);
      } else {
        for (int d = 0; d < count; ++d) to[d] *= reading.scale;
      }
      to += count;
    }
  }
  static void read(float* to, int count, const detail::GranuleReading& reading) {
    int d = 0;
    for (; d + W <= count; d += W)
      V::store(to + d, (V::load(to + d) - reading.zero) * reading.scale + reading.minimum);
    for (; d < count; ++d) to[d] = (to[d] - reading.zero) * reading.scale + reading.minimum;
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
