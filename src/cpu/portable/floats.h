// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/floats.h: the operands of the portable engine as float32: for every type, scale
/// and instruction set.
///
/// ISA-safe: templates on a tag type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/portable/stage.h"
#include "cpu/portable/tiles.h"
#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::portable {

template <class I>
class Floats {
 public:
  static int width(const AttentionProblem& problem) {
    return static_cast<int>(skeleton::round_up(problem.v_head_size, 16));
  }
  static int64_t scratch_bytes(const AttentionProblem& problem) {
    return scratch_at(nullptr, problem).bytes;
  }

  Floats(const skeleton::TaskView& view, void* memory)
      : view_(view), problem_(view.problem), s_(scratch_at(memory, view.problem)) {}

  void load_queries() const {
    for (int r = 0; r < view_.rows; ++r) {
      const std::byte* from = view_.query(r);
      float* to = s_.q + static_cast<int64_t>(r) * s_.head;
      Rows<I>::widen(problem_.q_dtype, &from, 1, to, s_.head, problem_.key.head_size);
      for (int d = 0; d < problem_.key.head_size; ++d) to[d] *= problem_.scale;
    }
    // columns behind the head: read by whole vectors, never written out
    if (s_.v_head != problem_.v_head_size)
      for (int key = 0; key < tile_keys; ++key)
        for (int d = problem_.v_head_size; d < s_.v_head; ++d)
          s_.values[static_cast<int64_t>(key) * s_.v_head + d] = 0.0f;
  }

  void stage_keys(const KeyTile& tile, const RowPointers& at, const Turn& turn) const {
    Stage<I>::keys(s_, view_.args.key, tile, at, turn,
                   problem_.value_in_key ? problem_.v_head_size : 0);
  }
  void stage_values(const RowPointers& at, const Turn& turn, int keys) const {
    Stage<I>::values(s_, view_.args.value, at, turn, keys);
  }

  void scores(int begin, int end) const {
    Tiles<I>::scores(s_, begin, end, problem_.key.head_size);
  }
  /// Of row r: [64], that become its probabilities.
  [[nodiscard]] float* scores_of(int r) const {
    return s_.scores + static_cast<int64_t>(r) * tile_keys;
  }
  /// What the output of row r is multiplied by.
  [[nodiscard]] float& rescale(int r) const { return s_.rescale[r]; }
  void values(float* output, int begin, int end, int keys) const {
    Tiles<I>::values(s_, output, begin, end, keys);
  }

 private:
  const skeleton::TaskView& view_;
  const AttentionProblem& problem_;
  const Scratch s_;
};

}  // namespace folio::inline v1::portable
