// SPDX-License-Identifier: Apache-2.0
/// src/cpu/convert/row_scales.h: scales that do not vary along a row, of the keys of a tile, as 64
/// floats: what engines multiply scores and weights by instead of elements.
///
/// The stored words of a run are collected first and widened 16 at a time. For AVX-512. ISA-safe:
/// templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/convert/scale_lanes.h"
#include "cpu/vec/simd.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1 {

template <class I>
class RowScales {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;

 public:
  /// to[k] = the scale of one head's row of key k, all its granules being one; 0 where nobody sees
  /// the key. `view` has scales; `to` is aligned to vectors.
  static void gather(const PagedKVView& view, const KeyTile& tile, int64_t head, float* to) {
    alignas(64) uint32_t words[tile_keys] = {};
    static_assert(detail::num_scale_dtypes == 5);
    switch (view.scales.dtype) {
      case DType::f32: collect<uint32_t>(view, tile, head, words); break;
      case DType::f16:
      case DType::bf16: collect<uint16_t>(view, tile, head, words); break;
      default: collect<uint8_t>(view, tile, head, words); break;
    }
    const float factor = view.scales.tensor_scale != nullptr ? *view.scales.tensor_scale : 1.0f;
    for (int k = 0; k < tile_keys; k += 16) {
      const auto seen = static_cast<__mmask16>(tile.seen >> k);
      const F scale = ScaleLanes<I>::widen(V::template load_as<U>(words + k), view.scales.dtype);
      _mm512_store_ps(to + k, _mm512_maskz_mul_ps(seen, reinterpret_cast<__m512>(scale),
                                                  _mm512_set1_ps(factor)));
    }
  }

 private:
  template <class Word>
  static void collect(const PagedKVView& view, const KeyTile& tile, int64_t head, uint32_t* words) {
    for (int r = 0; r < tile.runs; ++r) {
      const TileRun& run = tile.run[r];
      const TileRows from = PageCursor::scale_rows(view, run, head);
      int i = 0;
      if constexpr (sizeof(Word) == 4) i = collect_dwords(from, run.rows, words + run.first);
      for (; i < run.rows; ++i) {
        Word word;
        __builtin_memcpy(&word, from.data + i * from.stride_bytes, sizeof word);
        words[run.first + i] = word;
      }
    }
  }

  /// Returns how many it took.
  static int collect_dwords(const TileRows& from, int rows, uint32_t* to) {
    const auto stride = static_cast<int>(from.stride_bytes);
    if (from.stride_bytes != stride || stride > (1 << 20) || stride < -(1 << 20)) return 0;
    int i = 0;
    if (stride == 4) {
      for (; i + 16 <= rows; i += 16)
        _mm512_storeu_si512(to + i, _mm512_loadu_si512(from.data + int64_t{i} * 4));
      return i;
    }
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i offset = _mm512_mullo_epi32(lane, _mm512_set1_epi32(stride));
    for (; i + 16 <= rows; i += 16)
      _mm512_storeu_si512(to + i,
                          _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, offset,
                                                      from.data + int64_t{i} * stride, 1));
    return i;
  }
};

}  // namespace folio::inline v1
