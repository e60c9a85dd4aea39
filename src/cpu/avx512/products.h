// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/products.h: the two products, in register tiles of at most 24 sums.
///
///     scores[key][row]   = sum over words w of q[w][row] * k[key][w]
///                          lanes = rows, a word of K broadcast from where it lies;
///                          (few rows: few_rows.h)
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
#include "cpu/avx512/trailing_weights.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

/// What a score tile multiplies.
template <class I>
struct ScoreCall {
  const uint32_t* q = nullptr;  // [steps][q_stride]
  int64_t q_stride = 0;
  TileRows keys;
  int steps = 0;             // words of a row, a multiple of 4
  Pace* pace = nullptr;      // of tiles that request: of all calls with the same lists
  float* to = nullptr;       // [key][row_block]
  float* highest = nullptr;  // [rows]: rises to the highest score of each
  const TrailingWeights<I>* trail = nullptr;  // of tiles that weigh the keys before theirs
};

template <class I>
class Products {
 public:
  static constexpr int row_block = Layout<I::per_word>::row_block;
  static constexpr int vector_bytes = 64 / I::per_word;  // 16 columns of a row

  static constexpr int keys_beside(int vectors) {
    return Tuning<I::per_word>::keys_beside(vectors);
  }

  /// Scores of the first keys_beside(vectors) rows.
  static void scores(int vectors, const ScoreCall<I>& call) {
    switch (vectors) {
      case 1: return score_tile<1>(call);
      case 2: return score_tile<2>(call);
      case 3: return score_tile<3>(call);
      default:
        if constexpr (row_block > 3 * lanes) score_tile<4>(call);
    }
  }

  /// Whether tiles beside whole blocks can weigh the keys before theirs meanwhile.
  static constexpr bool can_trail =
      I::per_word == 2 && keys_beside(row_block / lanes) == TrailingWeights<I>::keys_at_once;
  /// Scores beside a whole block and what call.trail makes next.
  static void scores_and_weights(const ScoreCall<I>& call) {
    if constexpr (can_trail) score_tile<row_block / lanes, true>(call);
  }

  /// Whether a score tile requests lines itself. Tiles of many rows hold no code for it; beside 16
  /// or 32 rows calls are too few, and what is asked for between them would be dropped.
  static constexpr bool is_paced(int vectors) { return vectors <= 2; }
  /// Steps at which lines are requested, within the tiles or between calls.
  static int64_t score_steps(int vectors, int keys, int steps) {
    return is_paced(vectors) ? int64_t{keys} * (steps / 16) : keys / keys_beside(vectors);
  }

  /// Adds the weighted rows [0, keys) of `groups` to `rows` rows of output, `width` columns each,
  /// all readable to whole vectors. Weights [step][row_block]. Rows from `rows` up to a multiple of
  /// 4 are computed too, unless there are 1 or 2.
  static void values(const uint32_t* weights, const TileRows* groups, int keys, float* output,
                     int rows, int width) {
    const int vectors = width / lanes;
    int column = 0;
    if (is_whole(rows)) {
      for (; column < vectors; column += 2)
        value_tile<8, 2>(weights, groups, column, keys, output, width);
      return;
    }
    if (rows <= 2) {
      for (; column + 8 <= vectors; column += 8)
        value_rows<8>(weights, groups, column, keys, output, rows, width);
    }
    for (; column + 4 <= vectors; column += 4)
      value_rows<4>(weights, groups, column, keys, output, rows, width);
    for (; column + 2 <= vectors; column += 2)
      value_rows<2>(weights, groups, column, keys, output, rows, width);
    if constexpr (I::per_word == 1) {
      if (column < vectors) value_rows<1>(weights, groups, column, keys, output, rows, width);
    }
  }

 private:
  using Trail = TrailingWeights<I>;

  /// Eight rows at once, two vectors of dims: V is read once.
  static constexpr bool is_whole(int rows) { return I::per_word == 2 && rows > 4 && rows <= 8; }

  template <int Vectors, bool IsWeighing = false>
  [[gnu::noinline]] static void score_tile(const ScoreCall<I>& call) {
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
    Pace pace;
    if constexpr (is_paced(Vectors)) pace = *call.pace;
    const auto add_lines = [&](int first, int end) __attribute__((always_inline)) {
#pragma GCC unroll 1
      for (int i = first; i < end; ++i) {
        if constexpr (is_paced(Vectors)) pace.step();
        add_scores<Vectors, steps_per_line>(q, call.q_stride, key, call.keys.stride_bytes, sum);
      }
    };
    if constexpr (IsWeighing) {
      static_assert(count == Trail::keys_at_once && Vectors == Trail::vectors && Vectors == count);
#pragma GCC unroll 1
      for (int v = 0; v < Vectors; ++v) {
        const __m512 first = call.trail->weigh_two(v, 0);
        add_lines(0, lines / 2);
        call.trail->add(v, first, call.trail->weigh_two(v, 2));
        add_lines(lines / 2, lines);
      }
    } else {
      add_lines(0, count * lines);
    }
    if constexpr (is_paced(Vectors)) *call.pace = pace;
    for (; left > 0; --left)
      add_scores<Vectors, 1>(q, call.q_stride, key, call.keys.stride_bytes, sum);
#pragma GCC unroll 16
    for (int k = 0; k < count; ++k)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v)
        _mm512_store_ps(call.to + k * row_block + v * lanes, sum[k][v]);
#pragma GCC unroll 16
    for (int v = 0; v < Vectors; ++v) {
      __m512 top = _mm512_load_ps(call.highest + v * lanes);
#pragma GCC unroll 16
      for (int k = 0; k < count; ++k) top = max(top, sum[k][v]);
      _mm512_store_ps(call.highest + v * lanes, top);
    }
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

  template <int Vectors>
  static void value_rows(const uint32_t* weights, const TileRows* groups, int column, int keys,
                         float* output, int rows, int width) {
    if (rows == 1) return value_tile<1, Vectors>(weights, groups, column, keys, output, width);
    if (rows == 2) return value_tile<2, Vectors>(weights, groups, column, keys, output, width);
    if constexpr (Vectors <= 4) {
      int r = 0;
      // six beside one another, where rows are many: V, seldom in the first-level cache, is read
      // less
      const int sixes = static_cast<int>(skeleton::round_up(rows, 4)) / 12 * 12;
      for (; r < sixes; r += 6)
        value_tile<6, Vectors>(weights + r, groups, column, keys,
                               output + static_cast<int64_t>(r) * width, width);
      for (; r < rows; r += 4)
        value_tile<4, Vectors>(weights + r, groups, column, keys,
                               output + static_cast<int64_t>(r) * width, width);
    }
  }

  /// Columns [16 * column, 16 * (column + Vectors)) of the state.
  template <int Rows, int Vectors>
  [[gnu::noinline]] static void value_tile(const uint32_t* weights, const TileRows* groups,
                                           int column, int keys, float* output, int64_t width) {
    __m512 sum[Rows][Vectors];
    output += column * lanes;
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) sum[r][v] = _mm512_load_ps(output + r * width + v * lanes);
    for (int first = 0; first < keys; first += TileGroups::group_rows, ++groups) {
      const int64_t stride = groups->stride_bytes;
      const std::byte* value = groups->data + int64_t{column} * vector_bytes;
      const int count =
          keys - first < TileGroups::group_rows ? keys - first : TileGroups::group_rows;
      for (int k = 0; k < count; k += 2 * I::per_word) {
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i, value += I::per_word * stride, weights += row_block) {
          __m512i row[Vectors];
          I::template load_values<Vectors>(value, stride, row);
#pragma GCC unroll 16
          for (int r = 0; r < Rows; ++r) {
            const __m512i weight = broadcast(weights + r);
#pragma GCC unroll 16
            for (int v = 0; v < Vectors; ++v)
              sum[r][v] = I::multiply_add(row[v], weight, sum[r][v]);
          }
        }
      }
    }
    // else the addresses of all sums are kept from their loads to their stores
    __asm__("" : "+r"(output), "+r"(width));
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < Vectors; ++v) _mm512_store_ps(output + r * width + v * lanes, sum[r][v]);
  }
};

}  // namespace folio::inline v1::avx512
