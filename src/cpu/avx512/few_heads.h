// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/few_heads.h: a tile of at most 8 rows of each head: scores, weights, outputs, one
/// head after the other or all heads together.
///
/// Bits do not depend on the order (together.h). ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/copied_rows.h"
#include "cpu/avx512/few_rows.h"
#include "cpu/avx512/few_softmax.h"
#include "cpu/avx512/few_values.h"
#include "cpu/avx512/halves.h"
#include "cpu/avx512/head_tile.h"
#include "cpu/avx512/queries.h"
#include "cpu/avx512/together.h"
#include "cpu/avx512/upcoming.h"

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

/// Types that the products widen, and the scales that they apply, V's to weights; invalid and null:
/// none.
struct FewStored {
  DType key = DType::invalid, value = DType::invalid;
  HeadScales scales = {};
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
        tile_(view, stored.scales),
        steps_(Base::steps(view.problem)),
        width_(Base::width(view.problem)),
        rows_(few_padded(view.head_rows)),
        factor_(__builtin_fabsf(view.problem.scale)) {}

  /// Head h, whose scales are there.
  void attend(const skeleton::State& state, const FewTile& at, int h, Upcoming& upcoming) {
    const int groups = tile_.see(at.tile, 0, view_.head_rows), keys = groups * group_rows;
    if (groups == 0) return;
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
    const int groups = tile_.see(at.tile, 0, view_.head_rows), keys = groups * group_rows,
              heads = view_.task.heads;
    if (groups == 0) return;
    const Reading reading = reading_of(*at.values);
    const Together together{heads, at_once(), groups, value_groups(reading)};
    const PagedKVView& value = view_.problem.value_in_key ? view_.args.key : view_.args.value;
    with_stored<I>(stored_.key, [&]<class Key>(const Key&) {
      with_stored<I>(stored_.value, [&]<class Value>(const Value&) {
        Pace beside_scores =
            upcoming.beside_tile(0, heads * FewRows<I, Key>::score_steps(groups, steps_));
        Pace beside_values =
            upcoming.beside_tile(1, heads * FewValues<I, Value>::steps(rows_, keys, width_, true));
        together.attend(
            at, view_.args.key, value, [&](int h, int place) { gather_scales(at.tile, h, place); },
            [&](const HeadRows& of) { score<Key>(of, beside_scores); },
            [&](int h, int place) { weigh(state, at.tile, h, place, keys); },
            [&](const HeadRows& of) { add_together<Value>(state, of, reading, beside_values); });
      });
    });
  }

  /// Brings the scales of head h. `place`: of the head among those that are computed at once.
  void gather_scales(const KeyTile& tile, int h, int place) const {
    tile_.gather_scales(tile, h, place);
  }

 private:
  using Base = Layout<I::per_word>;
  static constexpr int group_rows = TileGroups::group_rows;
  [[nodiscard]] int at_once() const { return heads_at_once(rows_, Base::row_block); }

  /// V of all heads together. Rows that all begin in one set of the first-level cache are gone
  /// before their next line is read; beside 4 rows and more that costs more than a copy side by
  /// side, unless the copy would wait for memory itself.
  enum class Reading : uint8_t { in_place, from_few_sets, copied };
  [[nodiscard]] Reading reading_of(const TileRows& values) const {
    using T = Tuning<I::per_word>;
    const PagedKVView &key = view_.args.key, &value = view_.args.value;
    if (view_.problem.value_in_key || rows_ < 4) return Reading::in_place;
    if (values.stride_bytes % T::way_bytes != 0) return Reading::in_place;
    const int64_t bytes = tile_keys * view_.task.heads *
                          (folio::row_bytes(key.dtype, key.head_size) +
                           folio::row_bytes(value.dtype, value.head_size));
    return bytes <= T::kept_tile_bytes ? Reading::copied : Reading::from_few_sets;
  }

  /// Groups whose values are added before those of the next head: a state of 4 rows and more is
  /// worth keeping in registers for longer.
  [[nodiscard]] int value_groups(Reading reading) const {
    return rows_ >= 4 && reading != Reading::from_few_sets ? 2 : 1;
  }
  template <class Stored>
  void add_together(const skeleton::State& state, HeadRows of, Reading reading, Pace& pace) {
    const int row_bytes = width_ / lanes * Stored::vector_bytes;
    TileRows copies[Together::value_groups_max];
    if (reading == Reading::copied && row_bytes % 64 == 0) {
      for (int i = 0; i < of.groups; ++i) {
        std::byte* const to = s_.values + i * group_rows * row_bytes;
        copy_lines(of.rows[i], group_rows, row_bytes / 64, to);
        copies[i] = {to, row_bytes};
      }
      of.rows = copies;
    }
    add<Stored>(state, of, true, pace);
  }

  template <class Stored>
  void score(const HeadRows& of, Pace& pace) {
    const float* const scales = tile_.key_scales(of.place);
    FewRows<I, Stored>::scores(of.groups,
                               {.q = queries_.rows(of.head, 0).words,
                                .rows = rows_,
                                .steps = steps_,
                                .groups = of.rows,
                                .pace = &pace,
                                .scales = scales == nullptr ? nullptr : scales + of.first * lanes,
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
    c.value_scales = tile_.value_scales(place);
    c.maximum = state.maximum + h * rows_;
    c.denominator = state.denominator + h * rows_;
    c.output = state.output + int64_t{h * rows_} * width_;
    c.width = width_;
    for (int r = 0; view_.has_terms && r < c.rows; ++r)
      tile_.add_terms(tile, h, r, factor_, c.scores + r * FewSoftmax<I>::score_stride);
    for (int r = 0; tile_.is_masked() && r < c.rows; ++r)
      FewSoftmax<I>::hide(c.scores, r, keys, tile_.seen(r));
    FewSoftmax<I>::weigh(c);
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
  HeadTile<I> tile_;  // the one at hand
  const int steps_;
  const int width_;
  const int rows_;  // of each head, that tiles compute
  const float factor_;
};

}  // namespace folio::inline v1::avx512
