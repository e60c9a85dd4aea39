// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/stage_values.h: rows of V to AMX's B tiles.
///
///     V  per tile of 64 keys: [v_depth / 16][2 halves of 32 keys][16 pairs of keys][16 columns][2]
///        bf16, tiles of 1 KB
///
/// Two rows are interleaved by unpacking within 128-bit lanes, which permutes the columns of each
/// 32 dims: see `value_column`. All stored types make the same order. ISA-safe: templates on a tag
/// type.
#pragma once

#include "cpu/amx/grouped/stage_keys.h"
#include "cpu/amx/transpose.h"
#include "cpu/skeleton/mutant.h"

namespace folio::inline v1::amx {

/// The column of dimension d: of 8 dims that share a lane, the first four go to the even tile, the
/// others to the odd one.
FOLIO_ALWAYS_INLINE constexpr int value_column(int d) {
  return (d & ~31) + ((d >> 2) & 1) * 16 + ((d & 31) >> 3) * 4 + (d & 3);
}

template <class I, DType D>
class ValueStage {
 public:
  static void tile(FourRows<I>& rows, int head_size, int chunks, std::byte* to, Pacer<I>& pacer,
                   int lines) {
    const Stored<I, D> stored;
    for (int q = 0; q < tile_keys / 4; ++q) {
      if (q % GroupedTuning::awake_groups == 0) keep_awake<I>();
      quad(stored, rows.at(4 * q), head_size, chunks, to + (q >> 3) * tile_bytes + (q & 7) * 2 * 64,
           pacer, lines);
    }
  }

 private:
  static constexpr int step = 2 / Stored<I, D>::bytes;  // chunks of 32 dims that 64 bytes make
  // two tiles of columns, two halves of keys
  static constexpr int64_t chunk_bytes = 4 * tile_bytes;

  FOLIO_ALWAYS_INLINE static void quad(const Stored<I, D>& stored, const std::byte* const* rows,
                                       int head_size, int chunks, std::byte* to, Pacer<I>& pacer,
                                       int lines) {
    const int bytes = head_size * Stored<I, D>::bytes;
    int at = 0, chunk = 0;
    for (; at + 64 <= bytes; at += 64, chunk += step) {
      put<true>(stored, rows, at, 64, step, to + chunk * chunk_bytes);
      put<true>(stored, rows + 2, at, 64, step, to + chunk * chunk_bytes + 64);
      pacer.tick(lines);
    }
    if (at < bytes) {
      const int left = chunks - chunk < step ? chunks - chunk : step;
      put<false>(stored, rows, at, bytes - at, left, to + chunk * chunk_bytes);
      put<false>(stored, rows + 2, at, bytes - at, left, to + chunk * chunk_bytes + 64);
      chunk += step;
    }
    for (; chunk < chunks; ++chunk) clear(to + chunk * chunk_bytes);
  }

  /// A pair of keys.
  template <bool Whole>
  FOLIO_ALWAYS_INLINE static void put(const Stored<I, D>& stored, const std::byte* const* rows,
                                      int at, int count, int left, std::byte* to) {
    const int first = I::mutant == Mutant::value_order_wrong ? 1 : 0;
    __m512i a = load_chunk<Whole>(rows[first] + at, count),
            b = load_chunk<Whole>(rows[1 - first] + at, count);
    if constexpr (D == DType::bf16) {
      store(unpack_low<16>(a, b), to);
      store(unpack_high<16>(a, b), to + 2 * tile_bytes);
    } else {
      // Dwords of 4 dims, so placed that two rounds of unpacking leave them where bf16 has them.
      const __m512i order = _mm512_setr_epi32(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
      a = _mm512_maskz_permutexvar_epi32(0xffff, order, a);
      b = _mm512_maskz_permutexvar_epi32(0xffff, order, b);
      put_dims(stored, unpack_low<8>(a, b), to);
      if (Whole || left > 1) put_dims(stored, unpack_high<8>(a, b), to + chunk_bytes);
    }
  }

  FOLIO_ALWAYS_INLINE static void put_dims(const Stored<I, D>& stored, __m512i bytes,
                                           std::byte* to) {
    __m512i low, high;
    stored.widen(bytes, low, high);
    store(unpack_low<8>(low, high), to);
    store(unpack_high<8>(low, high), to + 2 * tile_bytes);
  }

  FOLIO_ALWAYS_INLINE static void store(__m512i v, std::byte* to) { _mm512_store_si512(to, v); }

  FOLIO_ALWAYS_INLINE static void clear(std::byte* to) {
    const __m512i zero = _mm512_setzero_si512();
    for (int column = 0; column < 2; ++column) {
      store(zero, to + column * 2 * tile_bytes);
      store(zero, to + column * 2 * tile_bytes + 64);
    }
  }
};

}  // namespace folio::inline v1::amx
