// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/head_tile.h: what at most 8 rows of a head have to do with a tile of keys beside
/// its rows: which keys they see, its scales, what is added to their scores.
///
/// Of both engines of few rows (few_heads.h, integer_heads.h). ISA-safe: templates on a tag type.
#pragma once

#include "cpu/avx512/layout.h"
#include "cpu/convert/row_scales.h"
#include "cpu/skeleton/task_view.h"
#include "cpu/softmax/terms.h"

namespace folio::inline v1::avx512 {

/// Where scales of rows are gathered, [heads at once][64] of K and V; null: not at all.
struct HeadScales {
  float* keys = nullptr;
  float* values = nullptr;
};

template <class I>
class HeadTile {
 public:
  static constexpr int rows_max = 8;

  FOLIO_ALWAYS_INLINE HeadTile(const skeleton::TaskView& view, HeadScales scales)
      : view_(view), scales_(scales) {}

  /// Finds what the rows [begin, end) of each head see of a tile; returns how many groups of keys
  /// that reaches.
  int see(const KeyTile& tile, int begin, int end) {
    const skeleton::Coverage covered = view_.coverage(begin, end, tile, I::mutant);
    is_masked_ = covered == skeleton::Coverage::some;
    if (!is_masked_) return covered == skeleton::Coverage::all ? TileGroups::num_groups : 0;
    uint64_t any = 0;
    for (int r = begin; r < end; ++r)
      any |= seen_[r - begin] = view_.seen_by_row(r, tile, I::mutant);
    return any == 0 ? 0 : (64 - __builtin_clzll(any) + lanes - 1) / lanes;
  }
  /// Of the tile that was seen: whether a row misses a key; bit k of row begin + i: whether it sees
  /// key k.
  [[nodiscard]] bool is_masked() const { return is_masked_; }
  [[nodiscard]] uint64_t seen(int i) const { return is_masked_ ? seen_[i] : ~uint64_t{0}; }

  /// Brings the scales of head h. `place`: of the head among those that are computed at once.
  [[gnu::noinline]] void gather_scales(const KeyTile& tile, int h, int place) const {
    gather(view_.args.key, tile, h, place, scales_.keys);
    if (!view_.problem.value_in_key) gather(view_.args.value, tile, h, place, scales_.values);
  }
  /// Of the head at a place, as gathered; null: none.
  [[nodiscard]] const float* key_scales(int place) const { return at(scales_.keys, place); }
  [[nodiscard]] const float* value_scales(int place) const { return at(scales_.values, place); }

  /// Scores of row r of head h, [64], times `factor`, to logits.
  [[gnu::noinline]] void add_terms(const KeyTile& tile, int h, int r, float factor,
                                   float* scores) const {
    softmax::Terms<I, skeleton::Log2Units>::of_row(
        scores, [factor](int) { return factor; },
        view_.terms_of(h * view_.head_rows + r, tile.first, I::mutant));
  }

 private:
  void gather(const PagedKVView& view, const KeyTile& tile, int h, int place, float* to) const {
    if (to != nullptr)
      RowScales<I>::gather(view, tile, view_.task.head + h, to + place * tile_keys);
  }
  static const float* at(const float* scales, int place) {
    return scales != nullptr ? scales + place * tile_keys : nullptr;
  }

  const skeleton::TaskView& view_;
  const HeadScales scales_;
  bool is_masked_ = false;
  uint64_t seen_[rows_max];
};

}  // namespace folio::inline v1::avx512
