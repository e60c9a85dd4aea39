// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/stage_keys.h: rows of K to AMX's B tiles.
///
///     K  per tile of 64 keys:  [4 groups of 16 keys][depth / 32][16 pairs of dims][16 keys][2]
///        bf16, tiles of 1 KB
///
/// Four rows are transposed at a time, so that memory is read in its own order, and leave as 16
/// bytes per pair of dims: as many shuffles as a transposition of 16 rows whose first half is done
/// by masked loads, and none of its jumps between rows. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/amx/grouped/four_rows.h"
#include "cpu/amx/grouped/pacer.h"
#include "cpu/amx/stage_convert.h"
#include "cpu/amx/transpose.h"
#include "cpu/tuning.h"

namespace folio::inline v1::amx {

inline constexpr int64_t tile_bytes = 1024;

/// A plane of a tile: 64 rows of `head_size` elements, `chunks` = depth / 32. The pacer gets a tick
/// of `lines` for each four lines read.
template <class I, DType D>
class KeyStage {
 public:
  static void tile(FourRows<I>& rows, int head_size, int chunks, std::byte* to, Pacer<I>& pacer,
                   int lines) {
    const Stored<I, D> stored;
    for (int q = 0; q < tile_keys / 4; ++q) {
      if (q % GroupedTuning::awake_groups == 0) keep_awake<I>();
      quad(stored, rows.at(4 * q), head_size, chunks,
           to + (q >> 2) * chunks * tile_bytes + (q & 3) * 16, pacer, lines);
    }
  }

 private:
  static constexpr int step = 2 / Stored<I, D>::bytes;  // chunks of 32 dims that 64 bytes make

  FOLIO_ALWAYS_INLINE static void quad(const Stored<I, D>& stored, const std::byte* const* rows,
                                       int head_size, int chunks, std::byte* to, Pacer<I>& pacer,
                                       int lines) {
    const int bytes = head_size * Stored<I, D>::bytes;
    int at = 0, chunk = 0;
    for (; at + 64 <= bytes; at += 64, chunk += step) {
      put<true>(stored, rows, at, 64, step, to + chunk * tile_bytes);
      pacer.tick(lines);
    }
    if (at < bytes) {
      const int left = chunks - chunk < step ? chunks - chunk : step;
      put<false>(stored, rows, at, bytes - at, left, to + chunk * tile_bytes);
      chunk += step;
    }
    for (; chunk < chunks; ++chunk) clear(to + chunk * tile_bytes);
  }

  template <bool Whole>
  FOLIO_ALWAYS_INLINE static void put(const Stored<I, D>& stored, const std::byte* const* rows,
                                      int at, int count, int left, std::byte* to) {
    __m512i r[4];
    for (int i = 0; i < 4; ++i) r[i] = load_chunk<Whole>(rows[i] + at, count);
    if constexpr (D == DType::bf16) {
      transpose_lanes<32>(r);
      for (int j = 0; j < 4; ++j) {
        store_lane<0>(r[j], to + j * 64);
        store_lane<1>(r[j], to + (4 + j) * 64);
        store_lane<2>(r[j], to + (8 + j) * 64);
        store_lane<3>(r[j], to + (12 + j) * 64);
      }
    } else {
      // pairs of bytes: lane l of r[j] holds pairs 8 l + 2 j and 8 l + 2 j + 1
      transpose_lanes<16>(r);
      for (int j = 0; j < 4; ++j) {
        __m512i low, high;
        stored.widen(r[j], low, high);
        put_pairs<Whole>(unpack_low<8>(low, high), to + 2 * j * 64, left);
        put_pairs<Whole>(unpack_high<8>(low, high), to + (2 * j + 1) * 64, left);
      }
    }
  }

  template <bool Whole>
  FOLIO_ALWAYS_INLINE static void put_pairs(__m512i pairs, std::byte* to, int left) {
    store_lane<0>(pairs, to);
    store_lane<1>(pairs, to + 8 * 64);
    if (!Whole && left < 2) return;
    store_lane<2>(pairs, to + tile_bytes);
    store_lane<3>(pairs, to + tile_bytes + 8 * 64);
  }

  template <int Lane>
  FOLIO_ALWAYS_INLINE static void store_lane(__m512i v, std::byte* to) {
    _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_extracti32x4_epi32(0xf, v, Lane));
  }

  FOLIO_ALWAYS_INLINE static void clear(std::byte* to) {
    for (int pair = 0; pair < 16; ++pair)
      _mm_store_si128(reinterpret_cast<__m128i*>(to + pair * 64), _mm_setzero_si128());
  }
};

}  // namespace folio::inline v1::amx
