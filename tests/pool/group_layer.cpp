// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_layer.cpp: a step's batch of one group, and its dense twin.
#include "pool/group_layer.h"

#include <algorithm>
#include <cmath>

#include "attention/internals.h"
#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/core/buffer.h"
#include "reference/attention.h"
#include "reference/quantise.h"
#include "reference/visibility.h"
#include "support/run_case.h"
#include "support/tolerance.h"

namespace folio::test {

namespace {

constexpr int32_t q_heads_per_head = 2;

/// The batch of a step with the arrays that it points to.
class StepBatch {
 public:
  StepBatch(const PagePool& pool, uint32_t group, std::span<const StepRow> rows)
      : starts_(rows.size()) {
    std::vector<SequenceId> ids;
    for (const StepRow& row : rows) {
      ids.push_back(row.id);
      lengths_.push_back(row.end);
      offsets_.push_back(offsets_.back() + row.end - row.begin);
    }
    pool.batch_rows(ids, starts_, group).or_throw();
    batch.size = static_cast<int32_t>(rows.size());
    batch.query_offsets = offsets_.data();
    batch.context_lengths = lengths_.data();
    batch.table = pool.table(group);
    batch.table.row_starts = starts_.data();
  }
  StepBatch(const StepBatch&) = delete;
  StepBatch& operator=(const StepBatch&) = delete;

  [[nodiscard]] AttentionLimits limits() const {
    return {.batch = batch.size,
            .tokens = offsets_.back(),
            .context = *std::max_element(lengths_.begin(), lengths_.end()),
            .parallelism = 1};
  }
  [[nodiscard]] int64_t tokens() const { return offsets_.back(); }

  Batch batch;

 private:
  std::vector<int32_t> offsets_{0}, lengths_;
  std::vector<int64_t> starts_;
};

}  // namespace

struct GroupLayer::Answer {
  const float* out = nullptr;  ///< [q_heads, head_size]
  Precision precision;         ///< of the kernel that made it
};

float GroupLayer::element(int32_t plane, TokenId token, int32_t position, int32_t head,
                          int32_t dim) const {
  uint64_t x = static_cast<uint64_t>(token) * 31 + static_cast<uint64_t>(position);
  for (const int32_t part : {number_, plane, head, dim})
    x = (x + static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15U;
  return static_cast<float>(static_cast<int64_t>((x >> 40) % 129) - 64) / 64.0F;
}

void GroupLayer::stored(int32_t plane, TokenId token, int32_t position, int32_t head,
                        double* out) const {
  const PagedKVView& view = plane == 0 ? planes_.key : planes_.value;
  std::vector<float> row(static_cast<size_t>(view.head_size));
  for (int32_t d = 0; d < view.head_size; ++d)
    row[static_cast<size_t>(d)] = element(plane, token, position, head, d);
  reference::stored_row(row, view.dtype, view.scales.dtype, view.scales.granularity, 1.0, out);
}

std::vector<float> GroupLayer::rows_of(int32_t plane, std::span<const StepRow> rows,
                                       int32_t heads) const {
  std::vector<float> all;
  for (const StepRow& row : rows) {
    for (int32_t i = row.begin; i < row.end; ++i)
      for (int32_t head = 0; head < heads; ++head)
        for (int32_t d = 0; d < planes_.key.head_size; ++d)
          all.push_back(element(plane, (*row.tokens)[static_cast<size_t>(i)], i, head, d));
  }
  return all;
}

void GroupLayer::append(const PagePool& pool, std::span<const StepRow> rows) const {
  const StepBatch step(pool, group_, rows);
  const PagedKVView& key = planes_.key;
  const std::vector<float> k = rows_of(0, rows, key.num_heads), v = rows_of(1, rows, key.num_heads);
  const auto tensor = [&](const std::vector<float>& of) {
    return dense_tensor<3>(of.data(), DType::f32, {step.tokens(), key.num_heads, key.head_size});
  };
  folio::append(step.batch,
                {.k = tensor(k), .v = tensor(v), .key = planes_.key, .value = planes_.value},
                serial_executor())
      .or_throw();
}

void GroupLayer::expect_right(const PagePool& pool, std::span<const StepRow> rows) const {
  const StepBatch step(pool, group_, rows);
  const int32_t q_heads = q_heads_per_head * planes_.key.num_heads;
  AttentionProblem problem{.key = planes_.key, .value = planes_.value, .q_heads = q_heads};
  problem.q_dtype = problem.out_dtype = DType::f32;
  problem.mask = mask_;
  const Attention attention = Attention::create(problem, step.limits()).value();
  const Buffer plan_memory = Buffer::allocate(attention.plan_bytes()).value();
  const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
  const AttentionPlan work = plan(attention, step.batch, plan_memory.span()).value();
  const std::vector<float> q = rows_of(2, rows, q_heads);
  std::vector<float> out(q.size(), NAN);
  const int64_t shape[] = {step.tokens(), q_heads, planes_.key.head_size};
  attend(attention, work,
         {.q = dense_tensor<3>(q.data(), DType::f32, {shape[0], shape[1], shape[2]}),
          .out = dense_tensor<3>(out.data(), DType::f32, {shape[0], shape[1], shape[2]}),
          .key = planes_.key,
          .value = planes_.value},
         workspace.span(), serial_executor())
      .or_throw();
  Answer answer{out.data(), precision_of(*kernel_entry(attention), attention.problem())};
  for (const StepRow& row : rows) {
    for (int32_t i = row.begin; i < row.end; ++i) {
      expect_row(row, i, answer);
      answer.out += shape[1] * shape[2];
    }
  }
}

void GroupLayer::expect_row(const StepRow& row, int32_t position, const Answer& answer) const {
  const int32_t size = planes_.key.head_size;
  std::vector<int32_t> visible;
  for (int32_t j = 0; j < row.end; ++j)
    if (reference::mask_shows(mask_, position, j)) visible.push_back(j);
  const TokenId token = (*row.tokens)[static_cast<size_t>(position)];
  std::vector<double> q(static_cast<size_t>(size)), keys(visible.size() * q.size()), values = keys;
  for (int32_t head = 0; head < planes_.key.num_heads; ++head) {
    for (size_t j = 0; j < visible.size(); ++j) {
      const TokenId of = (*row.tokens)[static_cast<size_t>(visible[j])];
      stored(0, of, visible[j], head, &keys[j * q.size()]);
      stored(1, of, visible[j], head, &values[j * q.size()]);
    }
    for (int32_t h = head * q_heads_per_head; h < (head + 1) * q_heads_per_head; ++h) {
      for (int32_t d = 0; d < size; ++d)
        q[static_cast<size_t>(d)] = double{element(2, token, position, h, d)};
      const reference::QueryResult exact =
          reference::attend_rows({.q = q.data(),
                                  .keys = keys.data(),
                                  .values = values.data(),
                                  .count = static_cast<int64_t>(visible.size()),
                                  .head_size = size,
                                  .v_head_size = size,
                                  .key_stride = size,
                                  .value_stride = size,
                                  .scale = 1.0 / std::sqrt(static_cast<double>(size))},
                                 error_weights(size, answer.precision));
      for (int32_t d = 0; d < size; ++d) {
        ASSERT_NEAR(double{answer.out[h * size + d]}, exact.out[static_cast<size_t>(d)],
                    out_bound(exact, d, DType::f32, answer.precision))
            << "layer " << number_ << ", position " << position << ", head " << h << ", " << d;
      }
    }
  }
}

}  // namespace folio::test
