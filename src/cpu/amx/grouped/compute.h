// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/compute.h: attention of 16 or 32 rows over staged tiles of 64 keys, by AMX
/// and AVX-512 at the same time.
///
/// A job is one row tile and one staged tile. Of consecutive jobs three are worked on at a time:
///
///     job j:   values of job j - 1 and scores of job j + 1 by AMX, and between their products the
///              softmax of job j; then, where a maximum rose, output *= factor
///
/// Rows and tiles lie as stage_keys.h, stage_values.h and compute_products.h draw them. Rows are
/// independent: their results depend neither on Rows, nor on their neighbours, nor on how jobs are
/// cut into calls, nor on whether a tile has an edge that they do not feel.
///
/// ISA-safe: templates on Tile, which carries a tag type.
#pragma once

#include <cstdint>

#include "cpu/amx/grouped/compute_products.h"
#include "cpu/amx/grouped/staged_tile.h"
#include "cpu/amx/softmax.h"
#include "cpu/amx/tile/tile.h"
#include "cpu/softmax/lazy_maximum.h"
#include "cpu/softmax/terms.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1::amx {

/// Where weights go: over their scores, half of each row, so that what a job works on stays in L1,
/// or beside them, where the caller may have no keys left to make scores of again.
enum class WeightLayout : uint8_t { over_scores, beside_scores };

/// Lanes of the terms of logits: once for each kind of tile, whatever the depth.
template <class Tile>
struct TileLanes : Avx512Lanes {};

template <class Tile, int Depth, int VDepth, int Rows,
          WeightLayout Layout = WeightLayout::over_scores>
class Compute {
 public:
  /// `scale_log2` = scale * log2(e), positive.
  FOLIO_ALWAYS_INLINE Compute(float scale_log2, ComputeScratch& scratch)
      : scale_(scale_log2), scratch_(scratch) {}

  /// Jobs [0, count), count >= 1, in order. Tiles of Tile are configured as whole.
  void run(const TileJob* jobs, int count) {
    Product::scores(score_operands(jobs[0], 0));
    for (int j = 0; j < count; ++j) {
      const TileJob* const before = j > 0 ? jobs + j - 1 : nullptr;
      if (jobs[j].is_first) clear_output(jobs[j].rows.output);
      step(before, jobs[j], j + 1 < count ? jobs + j + 1 : nullptr, j & 1);
    }
    Product::values(value_operands(jobs[count - 1], (count - 1) & 1));
  }

  /// The softmax of a row tile alone, the first `rows` of it, for callers that do its products
  /// themselves: scores are those of `scores_of_few(first_row)`, weights lie beside them. Sums of
  /// the other rows in `scratch` are what they were.
  void weigh_few(const TileJob& job, int first_row, int rows) {
    static_assert(!is_over && Rows == 16);
    rows_ = rows;
    first_row_ = first_row;
    step(nullptr, job, nullptr, 0);
  }

 private:
  using Product = Products<Tile, Depth, VDepth, Rows>;
  using Row = Softmax<Tile>;
  using Lanes = TileLanes<Tile>;
  using F = typename Simd<Lanes>::F;
  using Terms = softmax::Terms<Lanes, skeleton::Log2Units>;
  using Lazy = softmax::LazyMaximum<Lanes>;
  static constexpr bool is_over = Layout == WeightLayout::over_scores;
  static constexpr int weight_stride = is_over ? 2 * Row::keys : Row::keys;
  static constexpr __mmask16 every = 0xffff;
  static constexpr float minus_infinity = Row::minus_infinity;

  /// What columns are multiplied by where the tile has no scales ...
  struct OneScale {
    __m512 all;
    FOLIO_ALWAYS_INLINE __m512 score(int) const { return all; }
    FOLIO_ALWAYS_INLINE __m512 weight(int, __m512 p) const { return p; }
  };
  /// ... and in general.
  struct ColumnScales {
    const float* scores;
    const float* weights;
    FOLIO_ALWAYS_INLINE __m512 score(int i) const { return _mm512_load_ps(scores + 16 * i); }
    FOLIO_ALWAYS_INLINE __m512 weight(int i, __m512 p) const {
      return _mm512_mul_ps(p, _mm512_load_ps(weights + 16 * i));
    }
  };

  /// Weighs the rows of a job, one at each step: of a tile without scales that all rows see whole
  /// ...
  struct WeighWhole {
    static constexpr int steps = Rows;
    using Scale = OneScale;
    SoftmaxRow row;
    const float* maximum;
    const uint64_t* seen;  // null
    Scale scale;
    FOLIO_ALWAYS_INLINE void step() {
      Row::weigh(row, scale, *maximum++);
      row.advance(weight_stride);
    }
  };
  /// ... and of any tile.
  struct WeighSeen {
    static constexpr int steps = Rows;
    using Scale = ColumnScales;
    SoftmaxRow row;
    const float* maximum;
    const uint64_t* seen;
    Scale scale;
    FOLIO_ALWAYS_INLINE void step() {
      Row::weigh_seen(row, scale, *seen++, *maximum++);
      row.advance(weight_stride);
    }
  };

  FOLIO_ALWAYS_INLINE ProductOperands score_operands(const TileJob& job, int half) const {
    return Product::score_operands(job.rows.queries, job.tile.keys, scores_of(half));
  }
  FOLIO_ALWAYS_INLINE ProductOperands value_operands(const TileJob& job, int half) const {
    return Product::value_operands(weights_of(half), job.tile.values, job.rows.output);
  }
  FOLIO_ALWAYS_INLINE float* scores_of(int half) const {
    return is_over ? scratch_.scores[half] : scratch_.scores_of_few(first_row_);
  }
  FOLIO_ALWAYS_INLINE uint16_t* weights_of(int half) const {
    return is_over ? reinterpret_cast<uint16_t*>(scores_of(half)) : scratch_.weights;
  }
  FOLIO_ALWAYS_INLINE SoftmaxRow row_of(int r, int half) const {
    return {scores_of(half) + Row::keys * r, weights_of(half) + weight_stride * r,
            scratch_.sums + 16 * r};
  }

  FOLIO_ALWAYS_INLINE void step(const TileJob* before, const TileJob& job, const TileJob* next,
                                int half) {
    const StagedTile& tile = job.tile;
    if (tile.edge == nullptr && tile.key_scales == nullptr && tile.value_scales == nullptr) {
      step_as<WeighWhole>(before, job, next,
                          {row_of(0, half), job.rows.maximum, nullptr, {_mm512_set1_ps(scale_)}},
                          half);
    } else {
      const ColumnScales scale = column_scales(tile);
      const uint64_t* const seen = tile.edge != nullptr ? tile.edge->seen : scratch_.all;
      if (tile.edge != nullptr && tile.edge->has_terms)
        add_terms(scores_of(half), scale, tile.edge->terms, Rows);
      step_as<WeighSeen>(before, job, next, {row_of(0, half), job.rows.maximum, seen, scale}, half);
    }
  }

  template <class Work>
  __attribute__((noinline)) void step_as(const TileJob* before, const TileJob& job,
                                         const TileJob* next, Work work, int half) {
    const typename Work::Scale scale = work.scale;
    const uint64_t* const seen = work.seen;
    begin_rows(job.rows, scale, seen, half);
    if (Rows == 32 && before != nullptr && next != nullptr) {
      Product::both(value_operands(*before, 1 - half), score_operands(*next, 1 - half), work);
    } else {
      if (before != nullptr) Product::values(value_operands(*before, 1 - half));
      if (next != nullptr) Product::scores(score_operands(*next, 1 - half));
      for (int r = 0; r < rows_; ++r) work.step();
    }
    finish(job, scale, seen, half);
  }

  /// When its turn comes, so that it is in L1 for the products that add to it.
  FOLIO_ALWAYS_INLINE static void clear_output(float* output) {
    for (int i = 0; i < Rows * VDepth; i += 16) _mm512_store_ps(output + i, _mm512_setzero_ps());
  }

  ColumnScales column_scales(const StagedTile& tile) const {
    fill(scratch_.score_scales, scale_);
    if (tile.key_scales != nullptr)
      for (int i = 0; i < 64; i += 16) {
        const __m512 scale =
            _mm512_mul_ps(_mm512_load_ps(tile.key_scales + i), _mm512_set1_ps(scale_));
        _mm512_store_ps(scratch_.score_scales + i, scale);
      }
    if (tile.value_scales == nullptr) fill(scratch_.weight_scales, 1.0f);
    if (tile.edge == nullptr)
      for (uint64_t& seen : scratch_.all) seen = ~uint64_t{0};
    return {scratch_.score_scales,
            tile.value_scales != nullptr ? tile.value_scales : scratch_.weight_scales};
  }
  /// Scores become logits, whose scale is 1.
  void add_terms(float* scores, const ColumnScales& scale, const skeleton::LogitTerms* terms,
                 int rows) const {
    const auto product = [&scale](int key) {
      return Terms::V::load(scale.scores + key) * skeleton::Log2Units::ln_2;
    };
    for (int r = 0; r < rows; ++r) Terms::of_row(scores + Row::keys * r, product, terms[r]);
    fill(scratch_.score_scales, 1.0f);
  }
  FOLIO_ALWAYS_INLINE static void fill(float* to, float x) {
    for (int i = 0; i < 64; i += 16) _mm512_store_ps(to + i, _mm512_set1_ps(x));
  }

  /// Rows that have no maximum yet get the highest of their logits.
  template <class Scale>
  FOLIO_ALWAYS_INLINE void begin_rows(const RowTile& rows, const Scale& scale, const uint64_t* seen,
                                      int half) {
    for (int begin = 0; begin < Rows; begin += 16) {
      const __m512 old = _mm512_loadu_ps(rows.maximum + begin);
      const __mmask16 fresh = _mm512_cmp_ps_mask(old, _mm512_set1_ps(minus_infinity), _CMP_EQ_OQ);
      if (__builtin_expect(fresh == 0, 1)) continue;
      const __m512 highest = Row::highest(scores_of(half) + Row::keys * begin, scale,
                                          seen == nullptr ? nullptr : seen + begin);
      _mm512_storeu_ps(rows.maximum + begin, _mm512_mask_mov_ps(old, fresh, highest));
    }
  }

  /// Sums of the weights join the denominators. Rows whose weights are no good are done again.
  template <class Scale>
  FOLIO_ALWAYS_INLINE void finish(const TileJob& job, const Scale& scale, const uint64_t* seen,
                                  int half) {
    const RowTile& rows = job.rows;
    for (int begin = 0; begin < Rows; begin += 16) {
      const __m512 sum = Row::sum_rows(scratch_.sums + 16 * begin);
      const __m512 maximum = _mm512_loadu_ps(rows.maximum + begin);
      const __mmask16 again =
          Lanes::signs(Lazy::is_outgrown(reinterpret_cast<F>(sum), reinterpret_cast<F>(maximum)));
      if (__builtin_expect(again == 0, 1)) {
        _mm512_storeu_ps(rows.denominator + begin,
                         _mm512_add_ps(_mm512_loadu_ps(rows.denominator + begin), sum));
      } else {
        redo(job, scale, seen == nullptr ? nullptr : seen + begin, half, begin, again);
      }
    }
  }

  /// Rows `again` of the 16 from `begin` get the highest of their logits as maximum, if it is
  /// higher than theirs.
  template <class Scale>
  __attribute__((noinline)) void redo(const TileJob& job, const Scale& scale, const uint64_t* seen,
                                      int half, int begin, __mmask16 again) {
    const RowTile& rows = job.rows;
    const float* const scores =
        is_over ? scores_again(job, begin) : scores_of(half) + Row::keys * begin;
    const __m512 old = _mm512_loadu_ps(rows.maximum + begin);
    const __m512 highest = Row::highest(scores, scale, seen);
    const __m512 maximum = _mm512_mask_max_ps(old, again, old, highest);
    const auto reference = reinterpret_cast<__m512>(Lazy::reference(reinterpret_cast<F>(maximum)));
    _mm512_storeu_ps(rows.maximum + begin, maximum);
    _mm512_store_ps(scratch_.references, reference);
    for (int r = 0; r < 16; ++r) {
      if ((again >> r & 1) == 0) continue;
      SoftmaxRow row = row_of(begin + r, half);
      row.scores = scores + Row::keys * r;
      Row::weigh_rounded(row, scale, seen == nullptr ? ~uint64_t{0} : seen[r],
                         scratch_.references[r]);
    }
    const __m512 factor =
        _mm512_mask_mov_ps(_mm512_set1_ps(1.0f), again, Row::exp2(_mm512_sub_ps(old, reference)));
    const __m512 denominator = _mm512_mul_ps(_mm512_loadu_ps(rows.denominator + begin), factor);
    _mm512_storeu_ps(rows.denominator + begin,
                     _mm512_add_ps(denominator, Row::sum_rows(scratch_.sums + 16 * begin)));
    _mm512_store_ps(scratch_.references, factor);
    for (int r = 0; r < 16; ++r) {
      if (scratch_.references[r] == 1.0f) continue;
      float* const row = rows.output + int64_t{VDepth} * (begin + r);
      for (int d = 0; d < VDepth; d += 16)
        _mm512_store_ps(row + d,
                        _mm512_mul_ps(_mm512_load_ps(row + d), splat(scratch_.references[r])));
    }
  }
  /// The scores of 16 rows, from the same products as those that weights lie over.
  const float* scores_again(const TileJob& job, int begin) {
    using Again = Products<Tile, Depth, VDepth, 16>;
    const uint16_t* const queries = job.rows.queries + int64_t{begin} * Depth;
    Again::scores(Again::score_operands(queries, job.tile.keys, scratch_.again));
    const Edge* const edge = job.tile.edge;
    if (edge != nullptr && edge->has_terms)
      add_terms(scratch_.again, column_scales(job.tile), edge->terms + begin, 16);
    return scratch_.again;
  }
  FOLIO_ALWAYS_INLINE static __m512 splat(float x) { return _mm512_set1_ps(x); }

  const float scale_;
  ComputeScratch& scratch_;
  int rows_ = Rows;
  int first_row_ = 0;  // of few
};

/// The jobs in order; the states of their rows are updated. `scale_log2` = scale * log2(e),
/// positive. Tiles are configured as whole.
template <class Tile, int Depth, int VDepth, int Rows>
__attribute__((noinline)) void attend_jobs(const TileJob* jobs, int count, float scale_log2,
                                           ComputeScratch& scratch) {
  Compute<Tile, Depth, VDepth, Rows>(scale_log2, scratch).run(jobs, count);
}

}  // namespace folio::inline v1::amx
