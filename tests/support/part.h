// SPDX-License-Identifier: Apache-2.0
/// tests/support/part.h: some queries of one sequence of a case over some of its keys, as a batch
/// of its own.
///
/// What an engine does when it prefills in chunks, decodes, or shards a context: the same memory,
/// other batches. Outputs go to the rows of the case that the queries have there, unless the caller
/// redirects them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/visibility.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {

struct PartShape {
  int32_t sequence = 0;
  int32_t first_query = 0;  ///< within the sequence
  int32_t queries = 0;
  int32_t first_key = 0;  ///< a multiple of the page size
  int32_t keys = 0;
};

/// Queries [first, end) of a sequence over all its keys.
inline PartShape queries_of(const AttentionCase& c, int32_t sequence, int32_t first, int32_t end) {
  return {sequence, first, end - first, 0, c.batch().context_lengths[sequence]};
}

/// Holds the arrays that its batch points into: it stays where it is.
class Part {
 public:
  Part(const AttentionCase& c, const PartShape& shape) : args_(c.args()), batch_(c.batch()) {
    const Batch& whole = c.batch();
    const int64_t row = whole.query_offsets[shape.sequence] + shape.first_query;
    offsets_[1] = shape.queries;
    context_ = shape.keys;
    key_position_ = (whole.key_positions != nullptr ? whole.key_positions[shape.sequence] : 0) +
                    shape.first_key;
    query_position_ = static_cast<int32_t>(reference::query_position(whole, shape.sequence, row));
    row_start_ = whole.table.row_start(shape.sequence) + shape.first_key / c.options().page_size;
    batch_.size = 1;
    batch_.query_offsets = offsets_;
    batch_.context_lengths = &context_;
    batch_.query_positions = &query_position_;
    batch_.key_positions = &key_position_;
    batch_.table.row_starts = &row_start_;
    // of all new tokens of a sequence, or they mean others
    if (whole.tree != nullptr) batch_.tree += row * whole.tree_words;
    if (whole.visible_begin != nullptr) batch_.visible_begin += row;
    if (whole.visible_end != nullptr) batch_.visible_end += row;
    args_.q.data = static_cast<const std::byte*>(args_.q.data) + row * args_.q.stride_bytes[0];
    args_.out.data = static_cast<std::byte*>(args_.out.data) + row * args_.out.stride_bytes[0];
    args_.q.extent[0] = args_.out.extent[0] = shape.queries;
    if (args_.lse != nullptr) args_.lse += row * c.options().q_heads;
    const int64_t lists = c.problem().selection_per_head ? c.problem().key.num_heads : 1;
    if (whole.selected != nullptr) batch_.selected += row * lists * whole.selected_stride;
    if (whole.alibi_positions != nullptr)
      batch_.alibi_positions += shape.sequence * whole.alibi_positions_stride + shape.first_key;
    move_sinks(c.problem(), row);
    move_bias(c.problem(), shape, row);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  [[nodiscard]] const Batch& batch() const { return batch_; }
  AttentionArgs& args() { return args_; }

  /// create, plan and attend of this part alone.
  [[nodiscard]] Status run(const AttentionProblem& problem, const AttentionLimits& limits,
                           std::string_view kernel,
                           const Executor& executor = serial_executor()) const {
    const Result<Attention> attention = Attention::create(problem, limits, {}, kernel);
    if (!attention) return attention.error();
    const GuardedMemory plan_memory(attention->plan_bytes(), 64),
        workspace(attention->workspace_bytes(), 64);
    const Result<AttentionPlan> made = plan(*attention, batch_, plan_memory.span());
    if (!made) return made.error();
    return attend(*attention, *made, args_, workspace.span(), executor);
  }
  /// The smallest limits that admit this part.
  [[nodiscard]] AttentionLimits limits(int32_t parallelism = 1) const {
    return {1, std::max(1, offsets_[1]), std::max({1, context_, batch_.selected_stride}),
            parallelism};
  }

 private:
  void move_sinks(const AttentionProblem& problem, int64_t row) {
    if (!problem.sink_per_query) return;
    const int64_t stride = args_.sink_stride != 0 ? args_.sink_stride : problem.q_heads;
    args_.sink_logits = static_cast<const std::byte*>(args_.sink_logits) +
                        row * stride * bit_width(problem.sink_dtype) / 8;
  }
  void move_bias(const AttentionProblem& problem, const PartShape& shape, int64_t row) {
    if (!problem.bias) return;
    ConstTensor<3>& bias = args_.bias;
    const bool is_own = problem.bias_per_sequence;
    const int64_t first = is_own ? shape.first_query : row;
    bias.data = static_cast<const std::byte*>(bias.data) + first * bias.stride_bytes[1] +
                shape.first_key * bias.stride_bytes[2] +
                (is_own ? shape.sequence * args_.bias_sequence_stride_bytes : 0);
    bias.extent[1] = shape.queries;
    bias.extent[2] -= shape.first_key;
  }

  AttentionArgs args_;
  Batch batch_;
  int32_t offsets_[2] = {0, 0};
  int32_t context_ = 0;
  int32_t query_position_ = 0;
  int32_t key_position_ = 0;
  int64_t row_start_ = 0;
};

}  // namespace folio::test
