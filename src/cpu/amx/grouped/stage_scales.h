// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/stage_scales.h: the scales of one tile and head as 64 floats: one per token,
/// or coarser.
///
/// The stored words of a run are collected first and widened 16 at a time. Rows that nobody sees
/// get 0. Scales are a sixtieth of what is read and lie apart from it: `fetch` asks for those of
/// what comes next. ISA-safe: templates on a tag type.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped/pacer.h"
#include "cpu/convert/small_floats.h"
#include "cpu/vec/simd.h"
#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::inline v1::amx {

template <class I>
class ScaleStage {
  using V = Simd<I>;
  using F = typename V::F;
  using U = typename V::U;

 public:
  /// to[k] = scale of key k of the tile, all granules of a head being one.
  static void gather(const PagedKVView& view, const KeyTile& tile, int head, float* to) {
    alignas(64) uint32_t words[tile_keys] = {};
    switch (view.scales.dtype) {
      case DType::f32: collect<uint32_t>(view, tile, head, words); break;
      case DType::f16:
      case DType::bf16: collect<uint16_t>(view, tile, head, words); break;
      default: collect<uint8_t>(view, tile, head, words); break;
    }
    const float factor = view.scales.tensor_scale != nullptr ? *view.scales.tensor_scale : 1.0f;
    for (int k = 0; k < tile_keys; k += 16) {
      const auto seen = static_cast<__mmask16>(tile.seen >> k);
      const F scale = widen(V::template load_as<U>(words + k), view.scales.dtype);
      _mm512_store_ps(to + k, _mm512_maskz_mul_ps(seen, reinterpret_cast<__m512>(scale),
                                                  _mm512_set1_ps(factor)));
    }
  }

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

  template <class Word>
  static void collect(const PagedKVView& view, const KeyTile& tile, int head, uint32_t* words) {
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

  FOLIO_ALWAYS_INLINE static F widen(U words, DType dtype) {
    switch (dtype) {
      case DType::f32: return V::floats(words);
      case DType::bf16: return V::floats(words << 16);
      case DType::f16: return SmallFloats<I>::from_f16(words);
      case DType::f8_e8m0: return SmallFloats<I>::from_e8m0(words);
      default: return SmallFloats<I>::from_e4m3(words);
    }
  }
};

}  // namespace folio::inline v1::amx
