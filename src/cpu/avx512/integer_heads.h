// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/integer_heads.h: a tile of the rows of each head, for the kernel of integers:
/// scores, weights, outputs, a block of 8 rows of a head after the other, or those of all heads
/// together.
///
/// Scales of K multiply sums, those of V weights before they are rounded. ISA-safe: templates on a
/// tag type.
#pragma once

#include "cpu/avx512/head_tile.h"
#include "cpu/avx512/integer_products.h"
#include "cpu/avx512/integer_rounding.h"
#include "cpu/avx512/together.h"
#include "cpu/avx512/upcoming.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::avx512 {

template <class I>
class IntegerHeads {
 public:
  FOLIO_ALWAYS_INLINE IntegerHeads(const skeleton::TaskView& view, const IntegerScratch& scratch)
      : view_(view),
        s_(scratch),
        tile_(view, {view.args.key.scales.data != nullptr ? scratch.key_scales : nullptr,
                     view.args.value.scales.data != nullptr ? scratch.value_scales : nullptr}),
        chunks_(view.problem.key.head_size / Layout::chunk),
        width_(Layout::width(view.problem)),
        is_few_(view.head_rows <= block_rows),
        state_rows_(static_cast<int>(skeleton::round_up(view.head_rows, block_rows))),
        rows_(is_few_ ? few_padded(view.head_rows) : block_rows) {
    for (int k = 0; k < heads_max * tile_keys; k += lanes)
      _mm512_store_ps(s_.key_scales + k, splat(1.0f));
  }

  /// Of each head in a State, padding included.
  [[nodiscard]] int state_rows() const { return state_rows_; }
  /// That tiles compute.
  [[nodiscard]] int rows() const { return rows_; }

  /// Row `row` of a State: its products with K, in units of `step`.
  void set_query(int row, const int8_t* bytes, int32_t sum, float step) const {
    s_.steps[row] = step;
    s_.corrections[row] = -128 * sum;
    Products::pack_query(bytes, chunks_, rows_, row % block_rows,
                         query_block(row / block_rows * block_rows));
  }

  /// Brings the scales of head h. `place`: of the head among those that are computed at once.
  void gather_scales(const KeyTile& tile, int h, int place) const {
    tile_.gather_scales(tile, h, place);
  }

  /// Head h, whose scales are there.
  void attend(const skeleton::State& state, const FewTile& at, int h, Upcoming& upcoming) {
    for (int begin = 0; begin < view_.head_rows; begin += block_rows) {
      const int end = begin + block_rows;
      const Block block{begin, end < view_.head_rows ? end : view_.head_rows};
      const int groups = tile_.see(at.tile, block.begin, block.end);
      if (groups == 0) continue;
      Pace beside_scores = upcoming.beside_scores(is_few_, Products::score_steps(groups, chunks_));
      score(block, {h, 0, 0, groups, at.keys}, beside_scores);
      weigh(state, at.tile, h, 0, block);
      Pace beside_values =
          upcoming.beside_values(Products::value_steps(rows_, groups * lanes, width_));
      for (int g = 0; g < groups; g += value_groups)
        add(state, block,
            {h, 0, g, groups - g < value_groups ? groups - g : value_groups, at.values + g},
            beside_values);
    }
  }

  /// Whether the scores of all heads of the task are held at once.
  [[nodiscard]] bool is_one_go() const { return view_.task.heads <= at_once(); }

  /// All heads, which lie in place and are one block each.
  void attend_together(const skeleton::State& state, const FewTile& at, const Upcoming& upcoming) {
    const Block block{0, view_.head_rows};
    const int groups = tile_.see(at.tile, 0, view_.head_rows), heads = view_.task.heads;
    if (groups == 0) return;
    Pace beside_scores = upcoming.beside_tile(0, heads * Products::score_steps(groups, chunks_));
    Pace beside_values =
        upcoming.beside_tile(1, heads * Products::value_steps(rows_, groups * lanes, width_));
    const Together together{heads, at_once(), groups, value_groups};
    together.attend(
        at, view_.args.key, view_.args.value,
        [&](int h, int place) { gather_scales(at.tile, h, place); },
        [&](const HeadRows& of) { score(block, of, beside_scores); },
        [&](int h, int place) { weigh(state, at.tile, h, place, block); },
        [&](const HeadRows& of) { add(state, block, of, beside_values); });
  }

 private:
  using Products = IntegerProducts<I>;
  using Layout = IntegerLayout;
  static constexpr int block_rows = Layout::block_rows;
  static constexpr int value_groups = 2;  // that are added before those of the next head

  [[nodiscard]] int at_once() const { return heads_at_once(rows_, Layout::rows_at_once); }

  /// Local rows of a head, at most 8.
  struct Block {
    int begin, end;
  };

  /// Of the block that begins with row `row` of the state.
  [[nodiscard]] int8_t* query_block(int row) const {
    return s_.q + int64_t{row} * view_.problem.key.head_size * 4;
  }

  void score(Block block, const HeadRows& of, Pace& pace) const {
    const int first = of.head * state_rows_ + block.begin;
    Products::scores(rows_, of.groups,
                     {.q = query_block(first),
                      .corrections = s_.corrections + first,
                      .chunks = chunks_,
                      .groups = of.rows,
                      .key_scales = s_.key_scales + of.place * tile_keys + of.first * lanes,
                      .pace = &pace,
                      .to = s_.scores + of.place * rows_ * tile_keys + of.first * lanes});
  }

  void weigh(const skeleton::State& state, const KeyTile& tile, int h, int place, Block block) {
    bool has_negative = false;
    for (int r = block.begin; r < block.end; ++r)
      has_negative |= weigh_row(state, tile, h, place, r, r - block.begin);
    has_negative_[place] = has_negative;
  }
  /// Local row r, row i of its block.
  bool weigh_row(const skeleton::State& state, const KeyTile& tile, int h, int place, int r,
                 int i) const {
    const int at = h * state_rows_ + r, held = place * rows_ + i;
    IntegerRow row;
    row.logits = s_.scores + held * tile_keys;
    row.factor = s_.steps[at] * __builtin_fabsf(view_.problem.scale);
    if (view_.has_terms) {
      tile_.add_terms(tile, h, r, row.factor, row.logits);
      row.factor = 1.0f;
    } else {
      row.factor *= log2_e;
    }
    row.seen = tile_.seen(i);
    row.value_scales = tile_.value_scales(place);
    for (int sign = 0; sign < 2; ++sign) {
      row.weights[sign] = s_.weights[sign] + held * tile_keys;
      row.units[sign] = s_.units[sign] + held;
    }
    row.maximum = state.maximum + at;
    row.denominator = state.denominator + at;
    row.output = state.output + int64_t{at} * width_;
    row.width = width_;
    return IntegerRounding<I>::weigh(row);
  }

  void add(const skeleton::State& state, Block block, const HeadRows& of, Pace& pace) const {
    const int held = of.place * rows_;
    for (int sign = 0; sign < (has_negative_[of.place] ? 2 : 1); ++sign)
      Products::values(
          rows_, {.weights = s_.weights[sign] + held * tile_keys + of.first * lanes,
                  .units = s_.units[sign] + held,
                  .rows = block.end - block.begin,
                  .groups = of.rows,
                  .keys = of.groups * lanes,
                  .width = width_,
                  .pace = &pace,
                  .output = state.output + int64_t{of.head * state_rows_ + block.begin} * width_});
  }

  const skeleton::TaskView& view_;
  const IntegerScratch& s_;
  HeadTile<I> tile_;  // the one at hand
  const int chunks_;
  const int width_;
  const bool is_few_;
  const int state_rows_;
  const int rows_;
  bool has_negative_[heads_max] = {};
};

}  // namespace folio::inline v1::avx512
