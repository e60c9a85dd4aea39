// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/row_scales.h: scales that do not vary along a row, of the keys of a tile.
///
/// They multiply scores and weights instead of elements. ISA-safe: always-inline functions and
/// templates on a tag type.
#pragma once

#include "cpu/avx512/vectors.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::avx512 {

template <class I>
class RowScales {
 public:
  /// to[key] = the scale of one head's row, zero where the key is not seen. `view` has scales.
  static void gather(const PagedKVView& view, const KeyTile& tile, int64_t head, float* to) {
    switch (view.scales.dtype) {
      case DType::f32: return gather_as<DType::f32>(view, tile, head, to);
      case DType::f16: return gather_as<DType::f16>(view, tile, head, to);
      case DType::bf16: return gather_as<DType::bf16>(view, tile, head, to);
      case DType::f8_e8m0: return gather_as<DType::f8_e8m0>(view, tile, head, to);
      default: gather_as<DType::f8_e4m3>(view, tile, head, to);
    }
  }

  /// Requests part `part` of `parts` of what `gather` will read of a tile, for all of so many heads
  /// where those of a token lie side by side, else for head first + part.
  static void fetch(const PagedKVView& view, const KeyTile& tile, int64_t first, int part,
                    int parts) {
    const bool is_sliced = PageCursor::scales_are_adjacent(view);
    const int begin = is_sliced ? tile_keys * part / parts : 0;
    const int end = is_sliced ? tile_keys * (part + 1) / parts : tile_keys;
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const TileRows rows = PageCursor::scale_rows(view, run, first + (is_sliced ? 0 : part));
      const int from = run.first > begin ? run.first : begin;
      const int to = run.first + run.rows < end ? run.first + run.rows : end;
      const std::byte* line = nullptr;
      for (int key = from; key < to; ++key) {
        const std::byte* const at = rows.data + (key - run.first) * rows.stride_bytes;
        if (line != nullptr && at >= line && at < line + 64) continue;
        __builtin_prefetch(at, 0, 3);
        line = at - reinterpret_cast<uintptr_t>(at) % 64;
      }
    }
  }

 private:
  template <DType D>
  static void gather_as(const PagedKVView& view, const KeyTile& tile, int64_t head, float* to) {
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const TileRows rows = PageCursor::scale_rows(view, run, head);
      const std::byte* at = rows.data;
      for (int i = 0; i < run.rows; ++i, at += rows.stride_bytes)
        to[run.first + i] = detail::load_scale(at, D);
    }
    const __m512 whole =
        splat(view.scales.tensor_scale != nullptr ? *view.scales.tensor_scale : 1.0f);
    for (int k = 0; k < tile_keys; k += 16) {
      const auto seen = static_cast<__mmask16>(tile.seen >> k);
      _mm512_store_ps(to + k,
                      _mm512_maskz_mul_ps(seen, _mm512_maskz_loadu_ps(seen, to + k), whole));
    }
  }
};

}  // namespace folio::inline v1::avx512
