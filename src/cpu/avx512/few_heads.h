// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/few_heads.h: a tile of at most 8 rows of each head: scores, weights, outputs, one
/// head after the other or all heads together.
///
/// Bits do not depend on the order (together.h). ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/few_rows.h"
#include "cpu/avx512/few_softmax.h"
#include "cpu/avx512/few_values.h"
#include "cpu/avx512/halves.h"
#include "cpu/avx512/queries.h"
#include "cpu/avx512/together.h"
#include "cpu/avx512/upcoming.h"
#include "cpu/convert/row_scales.h"
#include "cpu/softmax/terms.h"

namespace folio::inline v1::avx512 {

/// Calls use(Stored{}) with what widens rows of a type; words where `type` is another.
template <class I, class Use>
FOLIO_ALWAYS_INLINE void with_stored(DType type, Use use) {
  if (type == DType::f16) return use(Halves<I, DType::f16>{});
  if constexpr (I::per_word == 1) {
    if (type == DType::bf16) return use(Halves<I, DType::bf16>{});
  } else {
    if (type == DType::i8) return use(Bytes<I, DType::i8>{});
    if (type == DType::f8_e4m3) return use(Bytes<I, DType::f8_e4m3>{});
    if (type == DType::f8_e5m2) return use(Bytes<I, DType::f8_e5m2>{});
  }
  use(Words<I>{});
}

/// Types that the products widen, and the scales that they apply; invalid and null: none.
struct FewStored {
  DType key = DType::invalid, value = DType::invalid;
  float* key_scales = nullptr;    // [heads at once][64]
  float* value_scales = nullptr;  // of weights
};

template <class I>
class FewHeads {
 public:
  FOLIO_ALWAYS_INLINE FewHeads(const skeleton::TaskView& view, const Scratch& scratch,
                               const Queries<I>& queries, const FewStored& stored)
      : view_(view),
        s_(scratch),
        queries_(queries),
        stored_(stored),
        steps_(Base::steps(view.problem)),
        width_(Base::width(view.problem)),
        rows_(few_padded(view.head_rows)),
        factor_(__builtin_fabsf(view.problem.scale)) {}

  /// Head h, whose scales are there.
  void attend(const skeleton::State& state, const FewTile& at, int h, Upcoming& upcoming) {
    const int keys = see(at.tile), groups = keys / group_rows;
    if (keys == 0) return;
    with_stored<I>(stored_.key, [&]<class Stored>(const Stored&) {
      Pace pace = upcoming.beside_scores(true, FewRows<I, Stored>::score_steps(groups, steps_));
      score<Stored>({h, 0, 0, groups, at.keys}, pace);
    });
    weigh(state, at.tile, h, 0, keys);
    with_stored<I>(stored_.value, [&]<class Stored>(const Stored&) {
      Pace pace = upcoming.beside_values(FewValues<I, Stored>::steps(rows_, keys, width_, false));
      add<Stored>(state, {h, 0, 0, groups, at.values}, false, pace);
    });
  }

  /// Whether the scores of all heads of the task are held at once.
  [[nodiscard]] bool is_one_go() const { return view_.task.heads <= at_once(); }

  /// All heads, which lie in place.
  void attend_together(const skeleton::State& state, const FewTile& at, const Upcoming& upcoming) {
    const int keys = see(at.tile), heads = view_.task.heads;
    if (keys == 0) return;
    const Together together{heads, at_once(), keys / group_rows, value_groups()};
    const PagedKVView& value = view_.problem.value_in_key ? view_.args.key : view_.args.value;
    with_stored<I>(stored_.key, [&]<class Key>(const Key&) {
      with_stored<I>(stored_.value, [&]<class Value>(const Value&) {
        Pace beside_scores = upcoming.beside_tile(
            0, heads * FewRows<I, Key>::score_steps(keys / group_rows, steps_));
        Pace beside_values =
            upcoming.beside_tile(1, heads * FewValues<I, Value>::steps(rows_, keys, width_, true));
        together.attend(
            at, view_.args.key, value, [&](int h, int place) { gather_scales(at.tile, h, place); },
            [&](const HeadRows& of) { score<Key>(of, beside_scores); },
            [&](int h, int place) { weigh(state, at.tile, h, place, keys); },
            [&](const HeadRows& of) { add<Value>(state, of, true, beside_values); });
      });
    });
  }

  /// Brings the scales of head h. `place`: of the head among those that are computed at once.
  void gather_scales(const KeyTile& tile, int h, int place) const {
    const auto gather = [&](const PagedKVView& view, float* to) {
      RowScales<I>::gather(view, tile, view_.task.head + h, to + place * tile_keys);
    };
    if (stored_.key_scales != nullptr) gather(view_.args.key, stored_.key_scales);
    if (stored_.value_scales != nullptr && !view_.problem.value_in_key)
      gather(view_.args.value, stored_.value_scales);
  }

 private:
  using Base = Layout<I::per_word>;
  static constexpr int group_rows = TileGroups::group_rows;
  [[nodiscard]] int at_once() const { return heads_at_once(rows_, Base::row_block); }
  /// Groups whose values are added before those of the next head: a state of 8 rows is worth
  /// keeping in registers for longer.
  [[nodiscard]] int value_groups() const { return rows_ == 8 ? 2 : 1; }

  /// Finds what the rows see of a tile; returns how far that reaches, whole groups.
  int see(const KeyTile& tile) {
    const skeleton::Coverage covered = view_.coverage(0, view_.head_rows, tile, I::mutant);
    is_masked_ = covered == skeleton::Coverage::some;
    if (!is_masked_) return covered == skeleton::Coverage::all ? tile_keys : 0;
    uint64_t any = 0;
    for (int r = 0; r < view_.head_rows; ++r)
      any |= seen_[r] = view_.seen_by_row(r, tile, I::mutant);
    return any == 0 ? 0 : static_cast<int>(skeleton::round_up(64 - __builtin_clzll(any), lanes));
  }

  template <class Stored>
  void score(const HeadRows& of, Pace& pace) {
    const float* const scales = stored_.key_scales;
    FewRows<I, Stored>::scores(
        of.groups,
        {.q = queries_.rows(of.head, 0).words,
         .rows = rows_,
         .steps = steps_,
         .groups = of.rows,
         .pace = &pace,
         .scales = scales == nullptr ? nullptr : scales + of.place * tile_keys + of.first * lanes,
         .to = scores_of(of.place) + of.first * lanes});
  }
  void weigh(const skeleton::State& state, const KeyTile& tile, int h, int place, int keys) {
    Column c;
    c.scores = scores_of(place);
    c.weights = weights_of(place);
    c.rows = view_.head_rows;
    c.written = rows_;
    c.keys = keys;
    c.factor = view_.has_terms ? 1.0f : factor_ * log2_e;
    if (stored_.value_scales != nullptr) c.value_scales = stored_.value_scales + place * tile_keys;
    c.maximum = state.maximum + h * rows_;
    c.denominator = state.denominator + h * rows_;
    c.output = state.output + int64_t{h * rows_} * width_;
    c.width = width_;
    if (view_.has_terms) add_terms(tile, h, c.scores);
    if (is_masked_)
      for (int r = 0; r < c.rows; ++r) FewSoftmax<I>::hide(c.scores, r, keys, seen_[r]);
    FewSoftmax<I>::weigh(c);
  }
  [[gnu::noinline]] void add_terms(const KeyTile& tile, int h, float* scores) const {
    for (int r = 0; r < view_.head_rows; ++r)
      softmax::Terms<I, skeleton::Log2Units>::of_row(
          scores + r * FewSoftmax<I>::score_stride, [this](int) { return factor_; },
          view_.terms_of(h * view_.head_rows + r, tile.first, I::mutant));
  }
  template <class Stored>
  void add(const skeleton::State& state, const HeadRows& of, bool by_lines, Pace& pace) {
    FewValues<I, Stored>::add({.weights = weights_of(of.place) + of.first * lanes / I::per_word,
                               .rows = rows_,
                               .groups = of.rows,
                               .keys = of.groups * group_rows,
                               .output = state.output + int64_t{of.head * rows_} * width_,
                               .width = width_,
                               .by_lines = by_lines,
                               .pace = &pace});
  }
  [[nodiscard]] float* scores_of(int place) const {
    return s_.scores + place * rows_ * FewSoftmax<I>::score_stride;
  }
  [[nodiscard]] uint32_t* weights_of(int place) const {
    return s_.weights + place * rows_ * FewSoftmax<I>::weight_stride;
  }

  const skeleton::TaskView& view_;
  const Scratch& s_;
  const Queries<I>& queries_;
  const FewStored stored_;
  const int steps_;
  const int width_;
  const int rows_;  // of each head, that tiles compute
  const float factor_;
  bool is_masked_ = false;  // the tile at hand
  uint64_t seen_[Base::few_rows];
};

}  // namespace folio::inline v1::avx512
