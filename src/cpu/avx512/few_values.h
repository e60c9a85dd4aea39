// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/few_values.h: the weighted rows of V, added to at most 8 rows of output: lanes =
/// dims.
///
/// Tiles read V once for all rows. A weight is broadcast from the row's own weights
/// (few_softmax.h). Each output is one chain over keys, that of Products::values, so bits are too.
/// ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/few_softmax.h"
#include "cpu/avx512/layout.h"
#include "cpu/avx512/requests.h"
#include "cpu/avx512/stored.h"
#include "cpu/avx512/vectors.h"

namespace folio::inline v1::avx512 {

/// What a tile adds up.
struct FewValuesCall {
  const uint32_t* weights = nullptr;  // [rows][FewSoftmax::weight_stride]
  int rows = 0;                       // 1, 2, 4 or 8
  const TileRows* groups = nullptr;   // of 16 keys
  int keys = 0;                       // a multiple of 16
  float* output = nullptr;            // [rows][width]
  int64_t width = 0;                  // whole vectors, readable in V
  bool by_lines = false;              // rows lie far apart: two lines of each before the next
  Pace* pace = nullptr;               // of all tiles
};

template <class I, class Stored>
class FewValues {
 public:
  static void add(const FewValuesCall& call) {
    switch (call.rows) {
      case 1: return add_rows<1>(call);
      case 2: return add_rows<2>(call);
      case 4: return add_rows<4>(call);
      default: add_rows<8>(call);
    }
  }
  /// Steps at which a call requests lines.
  static int64_t steps(int rows, int keys, int64_t width, bool by_lines) {
    int64_t vectors = width / lanes, tiles = 0;
    for (int wide = by_lines ? line_vectors(rows) : vectors_max(rows); wide > 0;
         vectors %= wide, wide /= 2)
      tiles += vectors / wide;
    return tiles * (keys / (2 * I::per_word));
  }

 private:
  /// At most 16 sums, eight of one row.
  static constexpr int vectors_max(int rows) { return rows <= 2 ? 8 : 16 / rows; }

  /// Those that two lines of a row hold: a broadcast of a weight serves both.
  static constexpr int line_vectors(int rows) {
    const int all = 2 * 64 / Stored::vector_bytes, most = vectors_max(rows);
    return all < most ? all : most;
  }

  template <int Rows>
  static void add_rows(const FewValuesCall& call) {
    int column = 0;
    if (call.by_lines) return add_columns<Rows, line_vectors(Rows)>(call, column);
    add_columns<Rows, vectors_max(Rows)>(call, column);
  }
  template <int Rows, int Vectors>
  static void add_columns(const FewValuesCall& call, int& column) {
    for (; column + Vectors <= call.width / lanes; column += Vectors)
      tile<Rows, Vectors>(call, column);
    if constexpr (Vectors > I::per_word) add_columns<Rows, Vectors / 2>(call, column);
  }

  /// Columns [16 * column, 16 * (column + Vectors)).
  template <int Rows, int Vectors>
  [[gnu::noinline]] static void tile(const FewValuesCall& call, int column) {
    constexpr int weight_stride = FewSoftmax<I>::weight_stride;
    const Stored stored;
    __m512 sum[Rows][Vectors];
    float* const output = call.output + column * lanes;
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v)
        sum[r][v] = _mm512_load_ps(output + r * call.width + v * lanes);
    Pace pace = *call.pace;
    const uint32_t* weights = call.weights;
    const TileRows* group = call.groups;
    for (const uint32_t* const end = weights + call.keys / I::per_word; weights != end; ++group) {
      const int64_t stride = group->stride_bytes;
      const std::byte* value = group->data + column * Stored::vector_bytes;
      for (int k = 0; k < TileGroups::group_rows; k += 2 * I::per_word) {
        pace.step();
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i, value += I::per_word * stride, ++weights) {
          __m512i row[Vectors];
          stored.load_values(value, stride, row);
#pragma GCC unroll 8
          for (int r = 0; r < Rows; ++r) {
            const __m512i weight = broadcast(weights + r * weight_stride);
#pragma GCC unroll 8
            for (int v = 0; v < Vectors; ++v)
              sum[r][v] = I::multiply_add(row[v], weight, sum[r][v]);
          }
        }
      }
    }
    *call.pace = pace;
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v)
        _mm512_store_ps(output + r * call.width + v * lanes, sum[r][v]);
  }
};

}  // namespace folio::inline v1::avx512
