// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/integer_engine.h: the engine of the kernel that multiplies integers: K and V of
/// i8 as they are stored, q and weights rounded to 8 bits.
///
/// A task's rows lie in blocks of 8 of one KV head; for each tile and head the products of each
/// block are requested beside (upcoming.h) what the next head or tile needs; those of few rows of
/// all heads together where they lie side by side (integer_heads.h). ISA-safe: templates on a tag
/// type.
#pragma once

#include "cpu/avx512/integer_heads.h"
#include "cpu/avx512/output.h"
#include "cpu/avx512/row_loader.h"
#include "cpu/convert/rows.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/state_math.h"

namespace folio::inline v1::avx512 {

template <class I>
class IntegerEngine : public IntegerLayout {
 public:
  using InstructionSet = I;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  struct Math : softmax::StateMath<I, skeleton::Log2Units> {
    static float exp(float x) { return exp2_one(x); }
  };

  IntegerEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        s_(scratch_at(memory, view.problem)),
        width_(width(problem_)),
        heads_(view, s_),
        upcoming_(view, view.head_rows <= block_rows),
        keys_(plane(view.args.key), view.batch.table, options(problem_.key.head_size), s_.keys),
        values_(plane(view.args.value), view.batch.table, options(width_), s_.values) {}

  static int tiles_at_once() { return 1; }
  static bool begins_rows() { return true; }
  [[nodiscard]] int state_row(int r) const {
    return view_.padded_row(r, heads_.state_rows(), mutant());
  }

  void load_queries() const {
    const int columns = problem_.key.head_size, padded = heads_.state_rows();
    __builtin_memset(s_.q, 0, static_cast<size_t>(view_.task.heads * padded * columns) * 4);
    const float sign = problem_.scale < 0.0f ? -1.0f : 1.0f;
    const auto widen = Rows<I>::template row_to<float>(problem_.q_dtype);
    for (skeleton::RowWalk at(view_); at.row < view_.rows; at.next()) {
      widen(view_.query(at.token, at.q_head), s_.row, columns);
      int32_t sum = 0;
      const float step = IntegerRounding<I>::query(s_.row, columns, sign, s_.bytes_of_row, sum);
      heads_.set_query(at.row / view_.head_rows * padded + at.row % view_.head_rows,
                       s_.bytes_of_row, sum, step);
    }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    const KeyTile* const next = known > 1 ? tiles[1] : nullptr;
    if (loaded_ != &tile) {
      const bool is_in_place = bring(tile, 0);
      if (is_in_place && upcoming_.is_by_tile()) {  // all heads at once
        upcoming_.begin_tile(tile, next, heads_.is_one_go());
        return heads_.attend_together(state, rows(tile, stage_ ^ 1), upcoming_);
      }
    }
    const int heads = view_.task.heads;
    const KeyTile* const after = upcoming_.is_by_tile() ? nullptr : next;
    for (int h = 0; h < heads; ++h) {
      stage_ ^= 1;
      heads_.gather_scales(tile, h, 0);
      loaded_ = h + 1 < heads ? &tile : after;
      if (loaded_ != nullptr) bring(*loaded_, h + 1 < heads ? h + 1 : 0);
      if (upcoming_.is_fetching())
        upcoming_.begin(loaded_ != nullptr ? &keys_.fetches(stage_ ^ 1) : nullptr,
                        loaded_ != nullptr ? &values_.fetches(stage_ ^ 1) : nullptr, loaded_, next,
                        h);
      heads_.attend(state, rows(tile, stage_), h, upcoming_);
    }
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    alignas(64) float row[head_size_max];
    IntegerProducts<I>::natural_order(output, factor, row, width_);
    Rows<I>::narrow(problem_.out_dtype, row, to, problem_.v_head_size);
  }

 private:
  static PagedKVView plane(PagedKVView view) {
    view.scales = {};
    return mutant() == Mutant::dense_page_stride ? with_dense_pages(view) : view;
  }
  [[nodiscard]] static RowOptions options(int columns) {
    return {.read_as_vectors = columns, .is_as_stored = true};
  }

  /// Head h of the task, into the stage that is not computed; whether its rows lie in place.
  bool bring(const KeyTile& tile, int h) {
    const bool has_keys = keys_.begin(tile, view_.task.head + h, stage_ ^ 1);
    if (has_keys) keys_.finish();
    const bool has_values = values_.begin(tile, view_.task.head + h, stage_ ^ 1);
    if (has_values) values_.finish();
    return !has_keys && !has_values;
  }
  [[nodiscard]] FewTile rows(const KeyTile& tile, int stage) const {
    return {tile, keys_.groups(stage), values_.groups(stage)};
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const IntegerScratch s_;
  const int width_;
  IntegerHeads<I> heads_;
  Upcoming upcoming_;
  Plane<I, true> keys_;
  Plane<I, false> values_;
  // what the stage after this one holds, for the head that comes next
  const KeyTile* loaded_ = nullptr;
  int stage_ = 1;
};

}  // namespace folio::inline v1::avx512
