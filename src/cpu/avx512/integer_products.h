// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/integer_products.h: the products of the kernel of integers: rows of 8 bits where
/// they lie, by vpdpbusd, at most 8 rows of q.
///
///     scores    64 bytes of 4 keys ─ turn ─▶ 4 vectors: quarter p, lane i: word 4 p + j of key i
///               + 128, times those words of a row of q; quarters are added in the end
///     values    64 bytes of 4 keys ─ turn ─▶ 4 vectors: lane: a column of 4 keys
///               times 4 weights of a row, broadcast
///
/// One factor of vpdpbusd has no sign: K's, from which 128 times the sum of q's row is taken again,
/// and the weights. Sums of one call are exact, in 32 bits. ISA-safe: templates on a tag type.
#pragma once

#include <type_traits>
#include <utility>

#include "cpu/avx512/integer_layout.h"
#include "cpu/avx512/output.h"
#include "cpu/avx512/requests.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

/// What a score tile multiplies.
struct IntegerScoreCall {
  const int8_t* q = nullptr;             // [chunks][4][rows][64]
  const int32_t* corrections = nullptr;  // [rows], added to each sum
  int chunks = 0;                        // of 64 columns
  const TileRows* groups = nullptr;      // of 16 keys
  const float* key_scales = nullptr;     // [keys]
  Pace* pace = nullptr;                  // one step for 8 keys and chunk
  float* to = nullptr;                   // [rows][64]
};

/// What a value tile multiplies.
struct IntegerValueCall {
  const uint8_t* weights = nullptr;  // [padded rows][64]
  const float* units = nullptr;      // [padded rows]: of the weights
  int rows = 0;                      // that are added to their output
  const TileRows* groups = nullptr;  // of 16 keys
  int keys = 0;                      // a multiple of 16
  int width = 0;
  Pace* pace = nullptr;     // one step for 4 keys and as many columns as a tile has
  float* output = nullptr;  // [rows][width]
};

template <class I>
class IntegerProducts {
 public:
  static constexpr int chunk = IntegerLayout::chunk;

  /// A row of q of whole chunks into row `row` of its block of `rows`.
  static void pack_query(const int8_t* from, int chunks, int rows, int row, int8_t* to) {
    for (int c = 0; c < chunks; ++c, from += chunk) {
      const __m512i words = _mm512_load_si512(from);
      const auto put = [&](int j, __m512i x) {
        _mm512_store_si512(to + ((c * 4 + j) * rows + row) * 64, x);
      };
      put(0, _mm512_maskz_shuffle_epi32(all_lanes, words, _MM_PERM_AAAA));
      put(1, _mm512_maskz_shuffle_epi32(all_lanes, words, _MM_PERM_BBBB));
      put(2, _mm512_maskz_shuffle_epi32(all_lanes, words, _MM_PERM_CCCC));
      put(3, _mm512_maskz_shuffle_epi32(all_lanes, words, _MM_PERM_DDDD));
    }
  }

  static void scores(int rows, int groups, IntegerScoreCall call) {
    for (int g = 0; g < groups; ++g, ++call.groups, call.key_scales += lanes, call.to += lanes) {
      if (rows == 1) {
        score_tile<1>(call);
      } else if (rows == 2) {
        score_tile<2>(call);
      } else if (rows == 4) {
        score_tile<4>(call);
      } else {
        score_tile<8>(call);
      }
    }
  }
  static int64_t score_steps(int groups, int chunks) { return int64_t{groups} * 2 * chunks; }

  static void values(int rows, const IntegerValueCall& call) {
    if (rows == 1) return value_tiles<1>(call);
    if (rows == 2) return value_tiles<2>(call);
    rows == 4 ? value_tiles<4>(call) : value_tiles<8>(call);
  }
  /// Columns as `values` leaves them, times factor, in their own order.
  static void natural_order(const float* output, float factor, float* to, int width) {
    for (int d = 0; d < width; d += chunk)
      for (int n = 0; n < 4; ++n) {
        alignas(64) float x[lanes];
        _mm512_store_ps(x, Output::scaled(_mm512_load_ps(output + d + n * lanes), factor));
        for (int p = 0; p < 4; ++p) __builtin_memcpy(to + d + p * 16 + n * 4, x + p * 4, 16);
      }
  }
  static int64_t value_steps(int rows, int keys, int width) {
    return int64_t{keys} / 4 * (width / chunk) * (rows == 8 ? 2 : 1);
  }

 private:
  /// No intrinsic: g++ 12 copies all sums around it.
  FOLIO_ALWAYS_INLINE static __m512i add_products(__m512i sum, __m512i unsigned_bytes,
                                                  __m512i signed_bytes) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
    return sum;
  }

  /// use(0) ... use(N - 1), of constants: sums stay in registers.
  template <int N, class Use>
  FOLIO_ALWAYS_INLINE static void repeat(const Use& use) {
    [&]<int... Nth>(std::integer_sequence<int, Nth...>) {
      (use(std::integral_constant<int, Nth>()), ...);
    }(std::make_integer_sequence<int, N>());
  }

  template <int Rows>
  [[gnu::noinline]] static void score_tile(const IntegerScoreCall& call) {
    Pace pace = *call.pace;
    alignas(64) int32_t half[2][Rows][lanes];
    for (int h = 0; h < 2; ++h) {
      __m512i sum[2][Rows];
      repeat<Rows>([&](auto r) { sum[0][r] = sum[1][r] = _mm512_setzero_si512(); });
      const int64_t stride = call.groups->stride_bytes;
      const std::byte* key = call.groups->data + h * 8 * stride;
      const int8_t* q = call.q;
      for (int c = call.chunks; c > 0; --c, key += chunk, q += 4 * Rows * 64) {
        __m512i word[2][4];
        load_keys(key, stride, word[0]);
        load_keys(key + 4 * stride, stride, word[1]);
        pace.step();
        repeat<4 * Rows>([&](auto i) {
          const __m512i of_row = _mm512_load_si512(q + i * 64);
          sum[0][i % Rows] = add_products(sum[0][i % Rows], word[0][i / Rows], of_row);
          sum[1][i % Rows] = add_products(sum[1][i % Rows], word[1][i / Rows], of_row);
        });
      }
      repeat<Rows>(
          [&](auto r) { _mm512_store_si512(half[h][r], quarters_added(sum[0][r], sum[1][r])); });
    }
    *call.pace = pace;
    const __m512 scales = _mm512_load_ps(call.key_scales);
    for (int r = 0; r < Rows; ++r) {
      const __m512i sum =
          quarters_added(_mm512_load_si512(half[0][r]), _mm512_load_si512(half[1][r]));
      const __m512i dot = _mm512_add_epi32(sum, _mm512_set1_epi32(call.corrections[r]));
      _mm512_store_ps(call.to + r * tile_keys,
                      _mm512_mul_ps(_mm512_maskz_cvtepi32_ps(all_lanes, dot), scales));
    }
  }

  /// 64 bytes of 4 keys, 128 more each.
  FOLIO_ALWAYS_INLINE static void load_keys(const std::byte* key, int64_t stride,
                                            __m512i (&to)[4]) {
    const __m512i sign = _mm512_set1_epi8(INT8_MIN);
    __m512i x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) x[i] = _mm512_xor_si512(_mm512_loadu_si512(key + i * stride), sign);
    const __m512i a = _mm512_maskz_unpacklo_epi32(all_lanes, x[0], x[1]),
                  b = _mm512_maskz_unpacklo_epi32(all_lanes, x[2], x[3]),
                  c = _mm512_maskz_unpackhi_epi32(all_lanes, x[0], x[1]),
                  d = _mm512_maskz_unpackhi_epi32(all_lanes, x[2], x[3]);
    to[0] = _mm512_maskz_unpacklo_epi64(0xff, a, b);
    to[1] = _mm512_maskz_unpackhi_epi64(0xff, a, b);
    to[2] = _mm512_maskz_unpacklo_epi64(0xff, c, d);
    to[3] = _mm512_maskz_unpackhi_epi64(0xff, c, d);
  }
  /// Neighbouring quarters of a, then of b.
  FOLIO_ALWAYS_INLINE static __m512i quarters_added(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_maskz_shuffle_i32x4(all_lanes, a, b, 0x88),
                            _mm512_maskz_shuffle_i32x4(all_lanes, a, b, 0xdd));
  }

  /// 8 rows take half of a chunk's vectors, fewer all four.
  template <int Rows>
  static void value_tiles(const IntegerValueCall& call) {
    for (int d = 0; d < call.width; d += chunk) {
      if constexpr (Rows == 8) {
        value_tile<Rows, 2, 0>(call, d);
        value_tile<Rows, 2, 2>(call, d);
      } else {
        value_tile<Rows, 4, 0>(call, d);
      }
    }
  }

  template <int Rows, int Vectors, int First>
  [[gnu::noinline]] static void value_tile(const IntegerValueCall& call, int column) {
    Pace pace = *call.pace;
    __m512i sum[Rows][Vectors];
    repeat<Rows * Vectors>([&](auto i) { sum[i / Vectors][i % Vectors] = _mm512_setzero_si512(); });
    const uint8_t* weights = call.weights;
    const TileRows* group = call.groups;
    for (int left = call.keys; left > 0; left -= TileGroups::group_rows, ++group) {
      const std::byte* key = group->data + column;
      const int64_t stride = group->stride_bytes;
      for (int i = 0; i < TileGroups::group_rows; i += 4, key += 4 * stride, weights += 4) {
        __m512i v[Vectors];
        load_values<Vectors, First>(key, stride, v);
        pace.step();
        repeat<Rows>([&](auto r) {
          const __m512i of_row = broadcast(weights + r * tile_keys);
          repeat<Vectors>([&](auto n) { sum[r][n] = add_products(sum[r][n], of_row, v[n]); });
        });
      }
    }
    *call.pace = pace;
    float* const output = call.output + column + First * lanes;
    repeat<Rows>([&](auto r) {
      const __m512 unit = splat(call.units[r]);
      repeat<Vectors>([&](auto n) {
        float* const to = output + r * call.width + n * lanes;
        const __m512 exact = _mm512_maskz_cvtepi32_ps(all_lanes, sum[r][n]);
        if (r < call.rows) _mm512_store_ps(to, _mm512_fmadd_ps(exact, unit, _mm512_load_ps(to)));
      });
    });
  }

  /// Vectors First ... of 64 columns of 4 keys: vector n, lane 4 p + i: column 16 p + 4 n + i.
  template <int Vectors, int First>
  FOLIO_ALWAYS_INLINE static void load_values(const std::byte* key, int64_t stride,
                                              __m512i (&to)[Vectors]) {
    constexpr __mmask64 bytes = ~__mmask64{0};
    constexpr __mmask32 pairs = ~__mmask32{0};
    __m512i x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) x[i] = _mm512_loadu_si512(key + i * stride);
    if constexpr (First == 0) {
      const __m512i a = _mm512_maskz_unpacklo_epi8(bytes, x[0], x[1]),
                    b = _mm512_maskz_unpacklo_epi8(bytes, x[2], x[3]);
      to[0] = _mm512_maskz_unpacklo_epi16(pairs, a, b);
      to[1] = _mm512_maskz_unpackhi_epi16(pairs, a, b);
    }
    if constexpr (First + Vectors == 4) {
      const __m512i a = _mm512_maskz_unpackhi_epi8(bytes, x[0], x[1]),
                    b = _mm512_maskz_unpackhi_epi8(bytes, x[2], x[3]);
      to[Vectors - 2] = _mm512_maskz_unpacklo_epi16(pairs, a, b);
      to[Vectors - 1] = _mm512_maskz_unpackhi_epi16(pairs, a, b);
    }
  }
};

}  // namespace folio::inline v1::avx512
