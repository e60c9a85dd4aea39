// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/engine.h: the engine of the portable kernel: every problem of the supported
/// set, one source for every instruction set.
///
/// A task is up to 64 rows of one KV head or, where these are few, of several. Keys of a tile are
/// staged as f32 and transposed, so that inner loops know one type and a score needs no horizontal
/// sum. Each element is one chain of fused multiply-adds, so rows never influence one another:
/// per_query.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/portable/floats.h"
#include "cpu/skeleton/task_runner.h"
#include "cpu/softmax/one_row.h"
#include "cpu/softmax/state_math.h"

namespace folio::inline v1::portable {

/// `Operands`: in which form q, K and V are multiplied.
template <class I, template <class> class Operands = Floats>
class PortableEngine {
 public:
  using InstructionSet = I;
  using Math = softmax::StateMath<I, typename softmax::OneRow<I>::Units>;
  FOLIO_ALWAYS_INLINE static Mutant mutant() { return I::mutant; }
  static constexpr int tiles_max = 1, ahead_max = 1;
  static int state_rows(const AttentionProblem&) { return row_tile; }
  static int width(const AttentionProblem& problem) { return Operands<I>::width(problem); }
  static int64_t scratch_bytes(const AttentionProblem& problem) {
    return Operands<I>::scratch_bytes(problem);
  }

  PortableEngine(const skeleton::TaskView& view, void* memory)
      : view_(view), problem_(view.problem), operands_(view, memory) {}

  static int tiles_at_once() { return tiles_max; }
  static bool begins_rows() { return false; }
  [[nodiscard]] int state_row(int r) const {
    return mutant() == Mutant::heads_interleaved
               ? r % view_.task.heads * view_.head_rows + r / view_.task.heads
               : r;
  }

  void load_queries() const { operands_.load_queries(); }

  void run(const skeleton::State& state, KeyTile* const* tiles, int, int known) {
    const KeyTile& tile = *tiles[0];
    if (pointers_of_ != &tile) find_rows(tile, now_);
    pointers_of_ = known > 1 ? tiles[1] : nullptr;
    if (known > 1) find_rows(*tiles[1], next_);
    const int keys = 64 - __builtin_clzll(tile.seen);
    const int heads = view_.task.heads;
    for (int h = 0; h < heads; ++h) {
      operands_.stage_keys(tile, now_->key, {h, heads, known > 1 ? &next_->key : nullptr});
      if (!problem_.value_in_key)
        operands_.stage_values(now_->value, {h, heads, known > 1 ? &next_->value : nullptr}, keys);
      attend(state, tile, h * view_.head_rows, keys);
    }
    TilePointers* const done = now_;
    now_ = next_;
    next_ = done;
  }

  void write_row(const float* output, float factor, std::byte* to) const {
    float row[head_max];
    for (int d = 0; d < problem_.v_head_size; ++d) row[d] = output[d] * factor + 0.0f;
    Rows<I>::narrow(problem_.out_dtype, row, to, problem_.v_head_size);
  }

 private:
  using V = Simd<I>;
  static constexpr int head_max = 576;

  struct TilePointers {
    RowPointers key, value;
  };

  void find_rows(const KeyTile& tile, TilePointers* to) const {
    skeleton::find_rows(view_.args.key, tile, view_.task.head, mutant(), to->key);
    if (!problem_.value_in_key)
      skeleton::find_rows(view_.args.value, tile, view_.task.head, mutant(), to->value);
  }

  void attend(const skeleton::State& state, const KeyTile& tile, int begin, int keys) const {
    const int end = begin + view_.head_rows;
    operands_.scores(begin, end);
    for (int r = begin; r < end; ++r)
      operands_.rescale(r) = softmax::OneRow<I>::run(operands_.scores_of(r), state, r,
                                                     view_.seen_by_row(r, tile, mutant()),
                                                     view_.terms_of(r, tile.first, mutant()));
    operands_.values(state.output, begin, end, keys);
  }

  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Operands<I> operands_;
  TilePointers pointers_[2];
  TilePointers* now_ = &pointers_[0];
  TilePointers* next_ = &pointers_[1];
  const KeyTile* pointers_of_ = nullptr;  // the tile that now_ belongs to
};

}  // namespace folio::inline v1::portable
