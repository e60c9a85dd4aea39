// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/square.h: as many keys as a key has words in eight bytes, turned: the words of
/// each granule side by side.
///
/// ISA-safe: always-inline functions only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::packed {

template <class Word>
struct Square {
  static constexpr int size = 8 / sizeof(Word);  // of keys, and of granules
  FOLIO_ALWAYS_INLINE static bool all_of(uint64_t seen) {
    constexpr uint64_t all = (uint64_t{1} << size) - 1;
    return (seen & all) == all;
  }

  /// From rows of eight bytes to to[granule][tile_keys].
  FOLIO_ALWAYS_INLINE static void transpose(const std::byte* from, int64_t stride_bytes, Word* to) {
    __m128i x[size];
    for (int k = 0; k < size; ++k)
      x[k] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + k * stride_bytes));
    if constexpr (size == 2) {
      put(to, 0, _mm_unpacklo_epi32(x[0], x[1]));
    } else if constexpr (size == 4) {
      put_pairs(to, 0, _mm_unpacklo_epi16(x[0], x[1]), _mm_unpacklo_epi16(x[2], x[3]));
    } else {
      for (int i = 0; i < 4; ++i) x[i] = _mm_unpacklo_epi8(x[2 * i], x[2 * i + 1]);
      put_pairs(to, 0, _mm_unpacklo_epi16(x[0], x[1]), _mm_unpacklo_epi16(x[2], x[3]));
      put_pairs(to, 4, _mm_unpackhi_epi16(x[0], x[1]), _mm_unpackhi_epi16(x[2], x[3]));
    }
  }

 private:
  /// Granules from g on, four, each of half the keys.
  FOLIO_ALWAYS_INLINE static void put_pairs(Word* to, int g, __m128i a, __m128i b) {
    put(to, g, _mm_unpacklo_epi32(a, b));
    put(to, g + 2, _mm_unpackhi_epi32(a, b));
  }
  FOLIO_ALWAYS_INLINE static void put(Word* to, int g, __m128i two) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + g * tile_keys), two);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + (g + 1) * tile_keys),
                     _mm_unpackhi_epi64(two, two));
  }
};

}  // namespace folio::inline v1::packed
