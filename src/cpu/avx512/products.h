// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/products.h: the two products, in register tiles of at most 24 sums.
///
///     scores[key][row]   = sum over words w of q[w][row] * k[key][w]
///                          lanes = rows, a word of K broadcast from where it lies;
///                          few rows: lanes = keys, a word of q broadcast
///     output[row][dim]  += sum over keys of weight[key][row] * v[key][dim]
///                          lanes = dims, a weight broadcast
///
/// A word is a number in f32 and a pair of bf16 in the other kernel, whose instruction adds both
/// products. Each element is one chain in ascending order whatever the tile it falls into, so rows
/// never influence one another and tiles of all shapes agree bit for bit. Each tile is a function
/// of its own: inlined into one another they would share registers and spill. ISA-safe: templates
/// on a tag type.
#pragma once

#include "cpu/avx512/layout.h"
#include "cpu/avx512/requests.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

/// What a score tile multiplies.
struct ScoreCall {
  const uint32_t* q = nullptr;  // [steps][q_stride]; of few rows [steps / 4][padded rows][4]
  int64_t q_stride = 0;
  TileRows keys, more;   // of few rows: a group of 16 keys, and the next one or null
  int steps = 0;         // words of a row, a multiple of 4
  Pace* pace = nullptr;  // of all calls that request the same lists
  float* to = nullptr;   // [key][row_block]
};

template <class I>
class Products {
 public:
  static constexpr int row_block = Layout<I::per_word>::row_block;
  static constexpr bool is_tall = Tuning<I::per_word>::is_tall;

  static constexpr int keys_beside(int vectors) {
    return Tuning<I::per_word>::keys_beside(vectors);
  }

  /// Scores of the first keys_beside(vectors) rows.
  static void scores(int vectors, const ScoreCall& call) {
    switch (vectors) {
      case 1: return score_tile<1>(call);
      case 2: return score_tile<2>(call);
      case 3: return score_tile<3>(call);
      default:
        if constexpr (row_block > 3 * lanes) score_tile<4>(call);
    }
  }

  /// The same for at most 8 rows: one group of keys or two. Rows that do not exist up to 1, 2, 4 or
  /// 8 are read.
  static void scores_of_few(int rows, const ScoreCall& call) {
    if (call.more.data != nullptr) return key_tile<8, 2>(call);
    if (rows == 1) return key_tile<1, 1>(call);
    if (rows == 2) return key_tile<2, 1>(call);
    rows <= 4 ? key_tile<4, 1>(call) : key_tile<8, 1>(call);
  }
  /// Groups of keys that a call for few rows takes: two beside 8 rows, so that loads of q serve
  /// both and there are chains enough, unless 32 rows would not stay in the cache for want of sets.
  static int groups_beside(int rows, int64_t stride_bytes) {
    return rows > 4 && stride_bytes <= Tuning<I::per_word>::paired_stride_max ? 2 : 1;
  }

  /// Steps at which calls for `keys` keys of a block request lines.
  static int64_t score_steps(bool is_few, int keys, int steps) {
    return is_few ? int64_t{keys / lanes} * (steps / 4) : int64_t{keys} * (steps / 16);
  }
  static int64_t value_steps(int rows, int keys, int width) {
    const int vectors = width / lanes;
    int64_t tiles = 0;
    const auto add = [&](int columns) { tiles += int64_t{columns} * ((rows + 3) / 4); };
    if (rows <= 2) {
      tiles = vectors / 8 + vectors % 8 / 4 + vectors % 4 / 2 + vectors % 2;
    } else if (is_whole(rows)) {
      tiles = vectors / 2;
    } else {
      add(vectors / 4 + vectors % 4 / 2 + vectors % 2);
    }
    return tiles * (keys / I::per_word);
  }

  /// Adds the weighted rows [0, keys) of `groups` to `rows` rows of output, `width` columns each,
  /// all readable to whole vectors. Weights [step][row_block]. Rows from `rows` up to a multiple of
  /// 4 are computed too, unless there are 1 or 2.
  static void values(const uint32_t* weights, const TileRows* groups, int keys, float* output,
                     int rows, int width, Pace& pace) {
    const int vectors = width / lanes;
    int column = 0;
    if (is_whole(rows)) {
      for (; column < vectors; column += 2)
        value_tile<8, 2>(weights, groups, column, keys, output, width, pace);
      return;
    }
    if (rows <= 2) {
      for (; column + 8 <= vectors; column += 8)
        value_rows<8>(weights, groups, column, keys, output, rows, width, pace);
    }
    for (; column + 4 <= vectors; column += 4)
      value_rows<4>(weights, groups, column, keys, output, rows, width, pace);
    for (; column + 2 <= vectors; column += 2)
      value_rows<2>(weights, groups, column, keys, output, rows, width, pace);
    if constexpr (I::per_word == 1) {
      if (column < vectors) value_rows<1>(weights, groups, column, keys, output, rows, width, pace);
    }
  }

 private:
  /// Eight rows at once, two vectors of dims: V is read once.
  static constexpr bool is_whole(int rows) { return I::per_word == 2 && rows > 4 && rows <= 8; }

  template <int Vectors>
  [[gnu::noinline]] static void score_tile(const ScoreCall& call) {
    constexpr int count = keys_beside(Vectors), steps_per_line = 16 / count;
    __m512 sum[count][Vectors];
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) sum[k][v] = _mm512_setzero_ps();
    const uint32_t* q = call.q;
    const std::byte* key = call.keys.data;
    const int lines = call.steps / 16;
    int left = call.steps - lines * 16;
    Pace pace = *call.pace;
    for (int i = 0; i < count * lines; ++i) {
      pace.step();
      add_scores<Vectors, steps_per_line>(q, call.q_stride, key, call.keys.stride_bytes, sum);
    }
    *call.pace = pace;
    for (; left > 0; --left)
      add_scores<Vectors, 1>(q, call.q_stride, key, call.keys.stride_bytes, sum);
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v)
        _mm512_store_ps(call.to + k * row_block + v * lanes, sum[k][v]);
  }

  template <int Vectors, int Steps>
  FOLIO_ALWAYS_INLINE static void add_scores(const uint32_t*& q, int64_t q_stride,
                                             const std::byte*& key, int64_t key_stride,
                                             __m512 (&sum)[keys_beside(Vectors)][Vectors]) {
    for (int i = 0; i < Steps; ++i) {
      __m512i row[Vectors];
      for (int v = 0; v < Vectors; ++v) row[v] = _mm512_load_si512(q + v * lanes);
      for (int k = 0; k < keys_beside(Vectors); ++k) {
        const __m512i word = broadcast(key + k * key_stride);
        for (int v = 0; v < Vectors; ++v) sum[k][v] = I::multiply_add(row[v], word, sum[k][v]);
      }
      q += q_stride;
      key += 4;
    }
  }

  /// lanes = 16 keys: four words of each at a time are turned in registers; the chain of a score is
  /// that of score_tile.
  template <int Rows, int Groups>
  [[gnu::noinline]] static void key_tile(const ScoreCall& call) {
    Pace pace = *call.pace;
    __m512 sum[Groups][Rows];
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g)
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) sum[g][r] = _mm512_setzero_ps();
    const std::byte* quarter[Groups][4];
    int64_t stride[Groups];
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g) {
      const TileRows& rows = g == 0 ? call.keys : call.more;
      stride[g] = rows.stride_bytes;
      for (int i = 0; i < 4; ++i) quarter[g][i] = rows.data + i * 4 * rows.stride_bytes;
    }
    const uint32_t* q = call.q;
    for (int left = call.steps; left > 0; left -= 4, q += 4 * Rows) {
      __m512 word[Groups][4];
#pragma GCC unroll 2
      for (int g = 0; g < Groups; ++g) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i)
          word[g][i] = _mm512_castsi512_ps(
              quarters(quarter[g][0] + i * stride[g], quarter[g][1] + i * stride[g],
                       quarter[g][2] + i * stride[g], quarter[g][3] + i * stride[g]));
        pace.step();
        turn(word[g]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) quarter[g][i] += 16;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i)
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
          const __m512i of_row = broadcast(q + r * 4 + i);
#pragma GCC unroll 2
          for (int g = 0; g < Groups; ++g)
            sum[g][r] = I::multiply_add(_mm512_castps_si512(word[g][i]), of_row, sum[g][r]);
        }
    }
    *call.pace = pace;
#pragma GCC unroll 2
    for (int g = 0; g < Groups; ++g) store_turned<Rows>(sum[g], call.to + g * lanes * row_block);
  }
  /// 16 bytes from each.
  FOLIO_ALWAYS_INLINE static __m512i quarters(const std::byte* a, const std::byte* b,
                                              const std::byte* c, const std::byte* d) {
    const auto piece = [](const std::byte* from) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    };
    __m512i all = _mm512_zextsi128_si512(piece(a));
    all = _mm512_maskz_inserti32x4(all_lanes, all, piece(b), 1);
    all = _mm512_maskz_inserti32x4(all_lanes, all, piece(c), 2);
    return _mm512_maskz_inserti32x4(all_lanes, all, piece(d), 3);
  }
  /// Transposes the 4 x 4 words of each quarter.
  FOLIO_ALWAYS_INLINE static void turn(__m512 (&x)[4]) {
    const auto low = [](__m512 a, __m512 b) {
      return _mm512_castps_pd(_mm512_maskz_unpacklo_ps(all_lanes, a, b));
    };
    const auto high = [](__m512 a, __m512 b) {
      return _mm512_castps_pd(_mm512_maskz_unpackhi_ps(all_lanes, a, b));
    };
    const __m512d a = low(x[0], x[1]), b = low(x[2], x[3]), c = high(x[0], x[1]),
                  d = high(x[2], x[3]);
    x[0] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, a, b));
    x[1] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, a, b));
    x[2] = _mm512_castpd_ps(_mm512_maskz_unpacklo_pd(0xff, c, d));
    x[3] = _mm512_castpd_ps(_mm512_maskz_unpackhi_pd(0xff, c, d));
  }
  /// Sums of 16 keys per row to rows per key, with zeros behind the rows.
  template <int Rows>
  FOLIO_ALWAYS_INLINE static void store_turned(const __m512 (&sum)[Rows], float* to) {
    __m512 x[2][4];
    for (auto& four : x)
      for (auto& row : four) row = _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) x[r / 4][r % 4] = sum[r];
    turn(x[0]);
    if constexpr (Rows > 4) turn(x[1]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      store_quarter<0>(x[0][i], x[1][i], to + i * row_block);
      store_quarter<1>(x[0][i], x[1][i], to + (4 + i) * row_block);
      store_quarter<2>(x[0][i], x[1][i], to + (8 + i) * row_block);
      store_quarter<3>(x[0][i], x[1][i], to + (12 + i) * row_block);
    }
  }
  template <int Quarter>
  FOLIO_ALWAYS_INLINE static void store_quarter(__m512 low, __m512 high, float* to) {
    const __m128 a = _mm512_maskz_extractf32x4_ps(0xf, low, Quarter),
                 b = _mm512_maskz_extractf32x4_ps(0xf, high, Quarter);
    _mm256_store_ps(to, _mm256_set_m128(b, a));
    _mm256_store_ps(to + 8, _mm256_setzero_ps());
  }

  template <int Vectors>
  static void value_rows(const uint32_t* weights, const TileRows* groups, int column, int keys,
                         float* output, int rows, int width, Pace& pace) {
    if (rows == 1)
      return value_tile<1, Vectors>(weights, groups, column, keys, output, width, pace);
    if (rows == 2)
      return value_tile<2, Vectors>(weights, groups, column, keys, output, width, pace);
    if constexpr (Vectors <= 4) {
      const int sixes = is_tall ? static_cast<int>(skeleton::round_up(rows, 4)) / 12 * 12 : 0;
      int r = 0;
      if constexpr (is_tall) {
        for (; r < sixes; r += 6)
          value_tile<6, Vectors>(weights + r, groups, column, keys,
                                 output + static_cast<int64_t>(r) * width, width, pace);
      }
      for (; r < rows; r += 4)
        value_tile<4, Vectors>(weights + r, groups, column, keys,
                               output + static_cast<int64_t>(r) * width, width, pace);
    }
  }

  /// Columns [16 * column, 16 * (column + Vectors)) of the state.
  template <int Rows, int Vectors>
  [[gnu::noinline]] static void value_tile(const uint32_t* weights, const TileRows* groups,
                                           int column, int keys, float* output, int64_t width,
                                           Pace& pace) {
    __m512 sum[Rows][Vectors];
    output += column * lanes;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_load_ps(output + r * width + v * lanes);
    Pace own = pace;
    for (int first = 0; first < keys; first += TileGroups::group_rows, ++groups) {
      const int64_t stride = groups->stride_bytes;
      const std::byte* value = groups->data + column * 64 / I::per_word;
      const int count =
          keys - first < TileGroups::group_rows ? keys - first : TileGroups::group_rows;
#pragma GCC unroll 2
      for (int k = 0; k < count;
           k += I::per_word, value += I::per_word * stride, weights += row_block) {
        own.step();
        __m512i row[Vectors];
        I::template load_values<Vectors>(value, stride, row);
#pragma GCC unroll 16
        for (int r = 0; r < Rows; ++r) {
          const __m512i weight = broadcast(weights + r);
#pragma GCC unroll 16
          for (int v = 0; v < Vectors; ++v) sum[r][v] = I::multiply_add(row[v], weight, sum[r][v]);
        }
      }
    }
    pace = own;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) _mm512_store_ps(output + r * width + v * lanes, sum[r][v]);
  }
};

}  // namespace folio::inline v1::avx512
