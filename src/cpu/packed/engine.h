// SPDX-License-Identifier: Apache-2.0
/// src/cpu/packed/engine.h: the engine of the kernel that multiplies codes: K and V of four bits,
/// or i8, as whole numbers with q and weights rounded to 8 bits.
///
/// A tile of a head is unpacked once, to bytes, for all rows of the task. What a row gets depends
/// on that row alone. ISA-safe: templates on a tag type.
#pragma once

#include "cpu/convert/rows.h"
#include "cpu/packed/queries.h"
#include "cpu/packed/scores.h"
#include "cpu/packed/stage.h"
#include "cpu/packed/values.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/one_row.h"
#include "cpu/softmax/state_math.h"

namespace folio::inline v1::packed {

template <class I>
class PackedEngine {
 public:
  using InstructionSet = I;
  using Math = softmax::StateMath<I, typename softmax::OneRow<I>::Units>;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  static constexpr int tiles_max = 1, ahead_max = 1;
  static int state_rows(const AttentionProblem&) { return row_tile; }
  static int width(const AttentionProblem& problem) {
    return value_form(problem, I::bytes).codes();
  }
  static int64_t scratch_bytes(const AttentionProblem& problem) {
    return scratch_at(nullptr, problem, I::bytes).bytes;
  }

  PackedEngine(const skeleton::TaskView& view, void* memory)
      : view_(view),
        problem_(view.problem),
        key_(key_form(problem_, I::bytes)),
        value_(value_form(problem_, I::bytes)),
        s_(scratch_at(memory, problem_, I::bytes)) {}

  static int tiles_at_once() { return tiles_max; }
  static bool begins_rows() { return false; }
  [[nodiscard]] int state_row(int r) const {
    return mutant() == Mutant::heads_interleaved
               ? r % view_.task.heads * view_.head_rows + r / view_.task.heads
               : r;
  }

  void load_queries() const {
    const int n = problem_.key.head_size;
    for (int r = 0; r < view_.rows; ++r) {
      const std::byte* from = view_.query(r);
      Rows<I>::widen(problem_.q_dtype, &from, 1, s_.row, n, n);
      Queries<I>::set(s_, key_, r, s_.row, n, problem_.scale);
    }
  }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    if (pointers_of_ != &tile) find_rows(tile, now_);
    pointers_of_ = known > 1 ? tiles[1] : nullptr;
    if (known > 1) find_rows(*tiles[1], next_);
    const int keys = static_cast<int>(skeleton::round_up(64 - __builtin_clzll(tile.seen), 8));
    for (int h = 0; h < view_.task.heads; ++h) {
      prefetch_scales(tile, known > 1 ? tiles[1] : nullptr, h + 1);
      Stage<I>::keys(s_, key_, view_.args.key, tile, now_->key, turn(h, known, next_->key), keys);
      value_scales_ = Stage<I>::values(s_, value_, view_.args.value, tile, now_->value,
                                       turn(h, known, next_->value), keys);
      attend(state, tile, h * view_.head_rows, keys);
    }
    TilePointers* const done = now_;
    now_ = next_;
    next_ = done;
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    natural_order(output, factor);
    Rows<I>::narrow(problem_.out_dtype, s_.row, to, problem_.v_head_size);
  }

 private:
  struct TilePointers {
    skeleton::RowPointers key, value;
  };

  void find_rows(const KeyTile& tile, TilePointers* to) const {
    skeleton::find_rows(view_.args.key, tile, view_.task.head, mutant(), to->key);
    skeleton::find_rows(view_.args.value, tile, view_.task.head, mutant(), to->value);
  }
  /// Of head `h` of the tile, or of the first of the next tile behind the last.
  void prefetch_scales(const KeyTile& tile, const KeyTile* next, int h) const {
    const bool is_last = h == view_.task.heads;
    const KeyTile* const of = is_last ? next : &tile;
    const int64_t head = view_.task.head + (is_last ? 0 : h);
    Readings<I>::prefetch(view_.args.key, of, head);
    Readings<I>::prefetch(view_.args.value, of, head);
  }
  [[nodiscard]] skeleton::Turn turn(int h, int known, const skeleton::RowPointers& ahead) const {
    return {h, view_.task.heads, known > 1 ? &ahead : nullptr};
  }

  /// Columns of a State lie as words of four keys' codes are added: each register has one word of
  /// every four of a lane.
  void natural_order(const float* output, float factor) const {
    for (int part = 0; part < value_.parts; ++part) {
      for (int byte = 0; byte < value_.row; ++byte) {
        const int chunk = byte / I::bytes, in_chunk = byte % I::bytes;
        const int lane = in_chunk / lane_bytes, word = in_chunk % lane_bytes;
        const int vector = (chunk * value_.parts + part) * 4 + word / 4;
        s_.row[value_.element(byte, part)] =
            output[vector * I::width + lane * 4 + word % 4] * factor + 0.0f;
      }
    }
  }

  void attend(const skeleton::State& state, const KeyTile& tile, int begin, int keys) const {
    const int end = begin + view_.head_rows;
    const bool has_key_offsets = Readings<I>::has_offsets(view_.args.key);
    Scores<I>::of_rows(s_, key_, has_key_offsets, begin, end, keys);
    for (int r = begin; r < end; ++r) {
      float* const scores = s_.scores + static_cast<int64_t>(r) * tile_keys;
      s_.rescale[r] =
          softmax::OneRow<I>::run(scores, state, r, view_.seen_by_row(r, tile, mutant()),
                                  view_.terms_of(r, tile.first, mutant()));
      Values<I>::of_row(s_, value_, value_scales_, r, keys,
                        state.output + static_cast<int64_t>(r) * value_.codes());
    }
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Form key_, value_;
  const Scratch s_;
  TilePointers pointers_[2];
  TilePointers* now_ = &pointers_[0];
  TilePointers* next_ = &pointers_[1];
  const KeyTile* pointers_of_ = nullptr;  // the tile that now_ belongs to
  ValueScales value_scales_ = {};         // of the staged head
};

}  // namespace folio::inline v1::packed
