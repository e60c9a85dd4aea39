// SPDX-License-Identifier: Apache-2.0
/// src/cuda/attention/fragments.h: rows of C fragments of m16n8k16 as a lane holds them.
///
/// Of rows lane / 4 and lane / 4 + 8 a lane has two columns of every eight, 2 (lane % 4) and the
/// next. Before a row is written neighbours exchange pairs, so that each has four columns in a row
/// of every sixteen: as FoldState has them at a stride of 16.
#pragma once

#include "cuda/attention/fold.h"
#include "cuda/primitives/device.h"

namespace folio::cuda {

/// Row lane / 4 + 8 i of accumulators 2 g and 2 g + 1: the lane's part of 16 columns.
template <int Tiles>
FOLIO_DEVICE FourFloats fragment_part(const float (&tiles)[Tiles][4], int i, int g) {
  const float(&first)[4] = tiles[2 * g], (&second)[4] = tiles[2 * g + 1];
  return {{first[2 * i], first[2 * i + 1], second[2 * i], second[2 * i + 1]}};
}

/// Where the lane's first four columns lie once they are exchanged.
FOLIO_DEVICE int fragment_column(int lane) { return (lane & 1) * 8 + (lane & 2) * 2; }

/// Of every two accumulators of a row the even lane takes the first, of four columns, and the odd
/// lane the second. By whole warps.
template <int Columns, class Thread>
FOLIO_DEVICE void exchange_columns(Thread& t, float (&x)[Columns]) {
  const bool is_odd = (t.lane() & 1) != 0;
  FOLIO_UNROLL
  for (int g = 0; g < Columns; g += 4) {
    FOLIO_UNROLL
    for (int e = 0; e < 2; ++e) {
      const float other = t.shuffle_xor(is_odd ? x[g + e] : x[g + 2 + e], 1);
      const float low = is_odd ? other : x[g + e];
      x[g + 2 + e] = is_odd ? x[g + 2 + e] : other;
      x[g + e] = low;
    }
  }
}

}  // namespace folio::cuda
