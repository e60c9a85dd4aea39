// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/compute.h: attention of 16 or 32 rows over staged tiles of 64 keys, by AMX and AVX-512 at the same time.
///
///     tile j:   PV(j - 1) and QK(j + 1) by AMX, with the softmax of tile j between their products;  then O *= factor where a maximum rose
///
/// Rows and tiles lie as stage_keys.h, stage_values.h and compute_products.h draw them. Rows are independent: their results depend
/// neither on Rows, nor on their neighbours, nor on how tiles are cut into calls, nor on whether a tile has an edge that they do not feel.
///
/// ISA-safe: templates on Tile, which carries a tag type.
#pragma once

#include <cstdint>

#include "cpu/amx/compute_products.h"
#include "cpu/amx/softmax.h"
#include "cpu/amx/staged_tile.h"
#include "cpu/amx/tile.h"

namespace folio {
inline namespace v1 {
namespace amx {

template <class Tile, int Depth, int VDepth, int Rows>
class Compute {
 public:
  FOLIO_ALWAYS_INLINE Compute(const RowTile& rows, float scale_log2, ComputeScratch& scratch)
      : rows_(rows), scale_(scale_log2), scratch_(scratch) {}

  void run(const StagedTile* tiles, int count) {
    NoWork none;
    Step::template scores<0>(rows_.queries, tiles[0].keys, scratch_.scores[0], none);
    for (int j = 0; j < count; ++j) {
      const StagedTile* const before = j > 0 ? tiles + j - 1 : nullptr;
      const StagedTile* const next = j + 1 < count ? tiles + j + 1 : nullptr;
      if (!has_scales(tiles[j]) && tiles[j].edge == nullptr) {
        step_whole(before, tiles[j], next, j & 1);
      } else {
        step_other(before, tiles[j], next, j & 1);
      }
    }
    Step::template values<0>(scratch_.weights[(count - 1) & 1], tiles[count - 1].values, rows_.output, none);
  }

  /// The softmax of one tile alone, for callers that do its products themselves: scores and weights lie in the first of both halves.
  void weigh(const StagedTile& tile) {
    if (!has_scales(tile) && tile.edge == nullptr) {
      step_whole(nullptr, tile, nullptr, 0);
    } else {
      step_other(nullptr, tile, nullptr, 0);
    }
  }

 private:
  using Step = Products<Tile, Depth, VDepth, Rows>;
  using Row = Softmax<Tile>;
  static constexpr __mmask16 every = 0xffff;
  static constexpr float minus_infinity = Row::minus_infinity;

  /// Rows of softmax beside each column of products.
  static constexpr int value_steps = Rows == 16 ? 0 : Step::value_columns >= 16 ? 1 : 16 / Step::value_columns;
  static constexpr int score_steps = Rows == 16 ? 0 : (Rows - Step::value_columns * value_steps) / Step::key_columns;
  static constexpr int steps = value_steps * Step::value_columns + score_steps * Step::key_columns;

  /// What columns are multiplied by where the tile has no scales ...
  struct OneScale {
    __m512 all;
    FOLIO_ALWAYS_INLINE __m512 score(int) const { return all; }
    FOLIO_ALWAYS_INLINE __m512 weight(int, __m512 p) const { return p; }
  };
  /// ... and where it has.
  struct ColumnScales {
    const float* scores;
    const float* weights;
    FOLIO_ALWAYS_INLINE __m512 score(int i) const { return _mm512_load_ps(scores + 16 * i); }
    FOLIO_ALWAYS_INLINE __m512 weight(int i, __m512 p) const {
      return weights == nullptr ? p : _mm512_mul_ps(p, _mm512_load_ps(weights + 16 * i));
    }
  };

  /// Weighs the rows of a tile, one at each step.
  struct WeighRows {
    SoftmaxRow row;
    const float* maximum;
    OneScale scale;
    FOLIO_ALWAYS_INLINE void step() {
      Row::weigh(row, scale, *maximum++);
      row.scores += Row::keys;
      row.weights += Row::keys;
      row.sums += 16;
    }
  };

  FOLIO_ALWAYS_INLINE static bool has_scales(const StagedTile& tile) {
    return tile.key_scales != nullptr || tile.value_scales != nullptr;
  }
  FOLIO_ALWAYS_INLINE SoftmaxRow row_of(int r, int half) const {
    return {scratch_.scores[half] + Row::keys * r, scratch_.weights[half] + Row::keys * r, scratch_.sums + 16 * r};
  }

  /// A tile that all rows see whole. The softmax goes along with the products.
  void step_whole(const StagedTile* before, const StagedTile&, const StagedTile* next, int half) {
    const OneScale scale = {_mm512_set1_ps(scale_)};
    WeighRows work = {row_of(0, half), rows_.maximum, scale};
    int done = 0;
    if (before != nullptr) {
      Step::template values<value_steps>(scratch_.weights[1 - half], before->values, rows_.output, work);
      done += value_steps * Step::value_columns;
    }
    if (next != nullptr) {
      Step::template scores<score_steps>(rows_.queries, next->keys, scratch_.scores[1 - half], work);
      done += score_steps * Step::key_columns;
    }
    for (; done < Rows; ++done) work.step();
    finish(scale, nullptr, half);
  }

  /// A tile with scales, or with an edge.
  __attribute__((noinline)) void step_other(const StagedTile* before, const StagedTile& tile, const StagedTile* next, int half) {
    NoWork none;
    if (before != nullptr) Step::template values<0>(scratch_.weights[1 - half], before->values, rows_.output, none);
    const bool has_terms = tile.edge != nullptr && tile.edge->has_terms;
    const ColumnScales scales = column_scales(tile);
    if (has_terms) {
      for (int r = 0; r < Rows; ++r) Row::add_terms(scratch_.scores[half] + Row::keys * r, scales, tile.edge->terms[r]);
      fill(scratch_.score_scales, 1.0f);
    }
    weigh_all(scales, tile.edge, half);
    if (next != nullptr) Step::template scores<0>(rows_.queries, next->keys, scratch_.scores[1 - half], none);
    finish(scales, tile.edge == nullptr ? nullptr : tile.edge->seen, half);
  }

  void weigh_all(const ColumnScales& scales, const Edge* edge, int half) const {
    for (int r = 0; r < Rows; ++r) {
      if (edge == nullptr) {
        Row::weigh(row_of(r, half), scales, rows_.maximum[r]);
      } else {
        Row::weigh_seen(row_of(r, half), scales, edge->seen[r], rows_.maximum[r]);
      }
    }
  }

  ColumnScales column_scales(const StagedTile& tile) const {
    fill(scratch_.score_scales, scale_);
    if (tile.key_scales != nullptr)
      for (int i = 0; i < 64; i += 16) {
        const __m512 scale = _mm512_mul_ps(_mm512_load_ps(tile.key_scales + i), _mm512_set1_ps(scale_));
        _mm512_store_ps(scratch_.score_scales + i, scale);
      }
    return {scratch_.score_scales, tile.value_scales};
  }
  FOLIO_ALWAYS_INLINE static void fill(float* to, float x) {
    for (int i = 0; i < 64; i += 16) _mm512_store_ps(to + i, _mm512_set1_ps(x));
  }

  /// Sums of the weights join the denominators. Rows whose weights are no good are done again.
  template <class Scale>
  FOLIO_ALWAYS_INLINE void finish(const Scale& scale, const uint64_t* seen, int half) {
    bool rescale = false;
    for (int begin = 0; begin < Rows; begin += 16) {
      const __m512 sum = Row::sum_rows(scratch_.sums + 16 * begin);
      __mmask16 again = static_cast<__mmask16>(~_mm512_cmp_ps_mask(sum, _mm512_set1_ps(Row::most), _CMP_LE_OQ));
      if (__builtin_expect(again == 0, 1)) {
        _mm512_storeu_ps(rows_.denominator + begin, _mm512_add_ps(_mm512_loadu_ps(rows_.denominator + begin), sum));
        _mm512_store_ps(scratch_.factors + begin, _mm512_set1_ps(1.0f));
      } else {
        rescale |= redo(scale, seen == nullptr ? nullptr : seen + begin, half, begin, again);
      }
    }
    if (__builtin_expect(rescale, 0)) rescale_output();
  }

  /// Rows `again` of the 16 from `begin` get the maximum of their logits, if it is higher than theirs. Returns whether output is to be
  /// rescaled.
  template <class Scale>
  __attribute__((noinline)) bool redo(const Scale& scale, const uint64_t* seen, int half, int begin, __mmask16 again) {
    const __m512 old = _mm512_loadu_ps(rows_.maximum + begin);
    const __m512 highest = Row::highest(scratch_.scores[half] + Row::keys * begin, scale, seen);
    const __m512 maximum = _mm512_mask_max_ps(old, again, old, highest);
    const __mmask16 none = _mm512_cmp_ps_mask(maximum, _mm512_set1_ps(minus_infinity), _CMP_EQ_OQ);
    const __m512 reference = _mm512_maskz_mov_ps(static_cast<__mmask16>(~none), maximum);  // -inf - 0, not -inf - -inf
    _mm512_storeu_ps(rows_.maximum + begin, maximum);
    _mm512_store_ps(scratch_.references, reference);
    for (int r = 0; r < 16; ++r) {
      if ((again >> r & 1) == 0) continue;
      const SoftmaxRow row = row_of(begin + r, half);
      if (seen == nullptr) {
        Row::weigh(row, scale, scratch_.references[r]);
      } else {
        Row::weigh_seen(row, scale, seen[r], scratch_.references[r]);
      }
    }
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 factor = _mm512_mask_mov_ps(one, again, Row::exp2(_mm512_sub_ps(old, reference)));
    const __m512 denominator = _mm512_mul_ps(_mm512_loadu_ps(rows_.denominator + begin), factor);
    _mm512_storeu_ps(rows_.denominator + begin, _mm512_add_ps(denominator, Row::sum_rows(scratch_.sums + 16 * begin)));
    // Output of a row without a maximum is zero, or NaN.
    const __mmask16 fresh = _mm512_cmp_ps_mask(old, _mm512_set1_ps(minus_infinity), _CMP_EQ_OQ);
    const __m512 kept = _mm512_mask_mov_ps(factor, fresh, one);
    _mm512_store_ps(scratch_.factors + begin, kept);
    return _mm512_cmp_ps_mask(kept, one, _CMP_NEQ_UQ) != 0;
  }

  __attribute__((noinline)) void rescale_output() const {
    for (int r = 0; r < Rows; ++r) {
      if (scratch_.factors[r] == 1.0f) continue;
      const __m512 factor = _mm512_set1_ps(scratch_.factors[r]);
      float* const row = rows_.output + int64_t{VDepth} * r;
      for (int d = 0; d < VDepth; d += 16) _mm512_store_ps(row + d, _mm512_mul_ps(_mm512_load_ps(row + d), factor));
    }
  }

  const RowTile rows_;
  const float scale_;
  ComputeScratch& scratch_;
};

/// The rows attend over `count` >= 1 tiles, in order; their state is updated. `scale_log2` = scale * log2(e), positive. Tiles of Tile are
/// configured as whole.
template <class Tile, int Depth, int VDepth, int Rows>
__attribute__((noinline)) void attend_tiles(const RowTile& rows, const StagedTile* tiles, int count, float scale_log2,
                                            ComputeScratch& scratch) {
  Compute<Tile, Depth, VDepth, Rows>(rows, scale_log2, scratch).run(tiles, count);
}

}  // namespace amx
}  // namespace v1
}  // namespace folio
