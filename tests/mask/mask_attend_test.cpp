// SPDX-License-Identifier: Apache-2.0
/// tests/mask/mask_attend_test.cpp: attention over the batch of a mask is attention by the mask:
/// every kernel against the reference, which is computed from the matrix alone.
///
/// Slots that no query of the mask sees hold NaN.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "folio/attention/attend.h"
#include "folio/attention/plan_fingerprint.h"
#include "folio/core/buffer.h"
#include "mask/mask_case.h"
#include "reference/attention.h"

namespace folio::test {
namespace {

constexpr int32_t q_heads = 4, kv_heads = 2, head_size = 32;
constexpr float hidden = -std::numeric_limits<float>::infinity();
constexpr float slopes[q_heads] = {0.5f, 0.25f, 0.125f, 0.0f};

/// Queries and keys for one mask, and what attention makes of them.
class Workload {
 public:
  explicit Workload(const MaskCase& mask) : mask_(mask) {
    Rng rng(mask.spec().seed + 1);
    const int64_t tokens = int64_t{mask.spec().streams} * mask.spec().queries;
    fill(q_, tokens * q_heads * head_size, rng);
    fill(key_, mask.rows() * kv_heads * head_size, rng);
    fill(value_, mask.rows() * kv_heads * head_size, rng);
    poison_dead_rows();
    out_.resize(q_.size());
    lse_.resize(static_cast<size_t>(tokens * q_heads));
  }

  AttentionProblem problem(const MaskedBatch& masked) {
    AttentionProblem p;
    p.key = plane(key_, masked.page_size);
    p.value = plane(value_, masked.page_size);
    p.q_heads = q_heads;
    p.q_dtype = p.out_dtype = DType::f32;
    return masked_problem(p, masked);
  }
  AttentionArgs args(const MaskedBatch& masked) {
    AttentionArgs args;
    args.q = dense_tensor<3>(q_.data(), DType::f32, {masked.tokens, q_heads, head_size});
    args.out = dense_tensor<3>(out_.data(), DType::f32, {masked.tokens, q_heads, head_size});
    args.key = plane(key_, masked.page_size);
    args.value = plane(value_, masked.page_size);
    args.lse = lse_.data();
    if (masked.alibi) args.alibi_slopes = slopes;
    args.bias = masked.bias;
    args.bias_sequence_stride_bytes = masked.bias_sequence_stride_bytes;
    return args;
  }
  void poison_output() {
    std::fill(out_.begin(), out_.end(), std::nanf(""));
    std::fill(lse_.begin(), lse_.end(), std::nanf(""));
  }
  [[nodiscard]] const std::vector<float>& out() const { return out_; }

  void expect_right(bool has_slopes) const {
    const MaskSpec& spec = mask_.spec();
    for (int64_t s = 0; s < spec.streams; ++s)
      for (int64_t t = 0; t < spec.queries; ++t)
        for (int32_t h = 0; h < q_heads; ++h) {
          const reference::QueryResult expected = expected_of(s, t, h, has_slopes);
          const auto row = static_cast<size_t>((s * spec.queries + t) * q_heads + h);
          for (size_t d = 0; d < head_size; ++d)
            ASSERT_NEAR(out_[row * head_size + d], expected.out[d], tolerance)
                << "stream " << s << ", query " << t << ", head " << h;
          if (expected.keys == 0) {
            ASSERT_EQ(lse_[row], hidden);
          } else {
            ASSERT_NEAR(lse_[row], expected.lse, 4 * tolerance);
          }
        }
  }

 private:
  // Values within 1 and logits within 60: some thousand roundings of float32 of such numbers.
  static constexpr double tolerance = 4e-5;

  static void fill(std::vector<float>& numbers, int64_t count, Rng& rng) {
    for (int64_t i = 0; i < count; ++i) numbers.push_back(rng.uniform(-1.0f, 1.0f));
  }
  void poison_dead_rows() {
    std::vector<bool> is_alive(static_cast<size_t>(mask_.rows()));
    const MaskSpec& spec = mask_.spec();
    for (int64_t s = 0; s < spec.streams; ++s)
      for (int64_t t = 0; t < spec.queries; ++t)
        for (int64_t j = 0; j < spec.keys; ++j)
          if (mask_.is_seen(s, t, j)) is_alive[static_cast<size_t>(mask_.first_row(s) + j)] = true;
    for (size_t row = 0; row < is_alive.size(); ++row) {
      if (is_alive[row]) continue;
      for (size_t i = 0; i < kv_heads * head_size; ++i)
        key_[row * kv_heads * head_size + i] = value_[row * kv_heads * head_size + i] =
            std::nanf("");
    }
  }
  [[nodiscard]] PagedKVView plane(std::vector<float>& numbers, int32_t page_size) const {
    constexpr int64_t row = kv_heads * head_size * 4;
    return {numbers.data(), DType::f32, kv_heads, head_size,     page_size,
            mask_.rows(),   row,        row,      head_size * 4, {}};
  }
  [[nodiscard]] reference::QueryResult expected_of(int64_t s, int64_t t, int32_t h,
                                                   bool has_slopes) const {
    const MaskSpec& spec = mask_.spec();
    std::vector<double> q, keys, values, bias;
    for (size_t d = 0; d < head_size; ++d)
      q.push_back(q_[static_cast<size_t>((s * spec.queries + t) * q_heads + h) * head_size + d]);
    for (int64_t j = 0; j < spec.keys; ++j) {
      const float x = mask_.number(s, spec.heads > 1 ? h : 0, t, j);
      if (x == hidden) continue;
      bias.push_back(has_slopes ? double{slopes[h]} * x : double{x});
      const auto at =
          static_cast<size_t>((mask_.first_row(s) + j) * kv_heads + h / (q_heads / kv_heads)) *
          head_size;
      for (size_t d = 0; d < head_size; ++d) {
        keys.push_back(key_[at + d]);
        values.push_back(value_[at + d]);
      }
    }
    reference::Rows rows;
    rows.q = q.data();
    rows.keys = keys.data();
    rows.values = values.data();
    rows.count = static_cast<int64_t>(bias.size());
    rows.head_size = rows.v_head_size = rows.key_stride = rows.value_stride = head_size;
    rows.scale = 1.0 / std::sqrt(static_cast<double>(head_size));
    rows.bias = bias.data();
    return reference::attend_rows(rows);
  }

  const MaskCase& mask_;
  std::vector<float> q_, key_, value_, out_, lse_;
};

AttentionLimits limits_of(const MaskedBatch& masked) {
  return {.batch = std::max(masked.batch.size, 1),
          .tokens = std::max(masked.tokens, 1),
          .context = std::max(masked.context, 1),
          .parallelism = 2};
}

/// Every kernel that takes the batch; how many those are.
int expect_right_everywhere(const MaskSpec& spec, bool has_slopes, MaskForm& form) {
  const MaskCase mask(spec);
  MaskOptions options = mask.options();
  options.q_heads = q_heads;
  if (has_slopes) options.slopes = slopes;
  MaskReader reader;
  const Result<MaskedBatch> masked = mask.read(reader, options);
  EXPECT_TRUE(masked.has_value()) << masked.error().message();
  if (!masked) return 0;
  form = masked->form;
  Workload workload(mask);
  int kernels = 0;
  for (int32_t k = 0; k < Attention::kernel_count(); ++k) {
    const Attention::KernelName name = Attention::kernel_name(k);
    if (!name.runs_here) continue;
    const Result<Attention> attention =
        Attention::create(workload.problem(*masked), limits_of(*masked), {}, name.name);
    if (!attention) continue;
    SCOPED_TRACE(name.name);
    const Buffer plan_memory = Buffer::allocate(attention->plan_bytes()).value();
    const Buffer workspace = Buffer::allocate(attention->workspace_bytes()).value();
    const Result<AttentionPlan> made = plan(*attention, masked->batch, plan_memory.span());
    EXPECT_TRUE(made.has_value()) << made.error().message();
    if (!made) continue;
    workload.poison_output();
    const Status status =
        attend(*attention, *made, workload.args(*masked), workspace.span(), serial_executor());
    EXPECT_TRUE(status.is_ok()) << status.message();
    workload.expect_right(has_slopes);
    ++kernels;
  }
  return kernels;
}

TEST(MaskAttend, all_forms_are_right_on_every_kernel) {
  for (int kind = 0; kind < num_mask_kinds; ++kind) {
    if (static_cast<MaskKind>(kind) == MaskKind::numbers) continue;
    for (const bool alibi : {false, true}) {
      for (const bool has_slopes : {false, true}) {
        if (!alibi && has_slopes) continue;
        SCOPED_TRACE(kind * 10 + alibi * 2 + has_slopes);
        MaskForm form = MaskForm::runs;
        EXPECT_GE(expect_right_everywhere({.kind = static_cast<MaskKind>(kind),
                                           .streams = 2,
                                           .queries = 37,
                                           .keys = 200,
                                           .alibi = alibi,
                                           .hides_queries = kind % 2 == 0,
                                           .seed = static_cast<uint64_t>(kind)},
                                          has_slopes, form),
                  1);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(MaskAttend, numbers_and_heads_are_right_on_every_kernel) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const int32_t heads : {1, q_heads}) {
      for (const int32_t padding : {0, 4}) {
        MaskForm form = MaskForm::runs;
        EXPECT_GE(expect_right_everywhere({.kind = MaskKind::numbers,
                                           .dtype = dtype,
                                           .streams = 2,
                                           .heads = heads,
                                           .queries = 9,
                                           .keys = 150,
                                           .padding = padding},
                                          padding == 0, form),
                  1);
        EXPECT_EQ(form, MaskForm::bias);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

RC_GTEST_PROP(MaskAttend, any_mask_is_attended_by, ()) {
  MaskSpec spec;
  spec.kind = static_cast<MaskKind>(*rc::gen::inRange(0, num_mask_kinds));
  spec.dtype = *rc::gen::element(DType::f16, DType::bf16, DType::f32, DType::invalid);
  const bool is_bits = spec.dtype == DType::invalid;
  spec.streams = *rc::gen::inRange(1, 4);
  spec.heads = is_bits ? 1 : *rc::gen::element(1, 1, 1, q_heads);
  spec.queries = *rc::gen::inRange(1, 24);
  spec.keys = *rc::gen::inRange(1, 180);
  spec.alibi = !is_bits && *rc::gen::arbitrary<bool>();
  spec.shares_streams = *rc::gen::element(false, false, true);
  spec.padding = *rc::gen::element(0, 0, 5);
  spec.first_rows = *rc::gen::arbitrary<bool>();
  spec.hides_queries = *rc::gen::arbitrary<bool>();
  spec.seed = *rc::gen::arbitrary<uint64_t>();
  MaskForm form = MaskForm::runs;
  const bool has_slopes = *rc::gen::arbitrary<bool>();
  int kernels = 0;
  const std::string failures =
      failures_of([&] { kernels = expect_right_everywhere(spec, has_slopes, form); });
  RC_ASSERT(failures == "");
  RC_ASSERT(kernels >= 1);
  RC_CLASSIFY(form == MaskForm::cells, "cells");
  RC_CLASSIFY(form == MaskForm::bias, "bias");
}

/// What clients do from layer to layer and from step to step: the mask is read anew, the plan is
/// not made anew.
TEST(MaskAttend, a_plan_that_is_used_again_by_its_fingerprint_gives_the_same_bits) {
  for (const MaskKind kind : {MaskKind::causal, MaskKind::sequences, MaskKind::shifted}) {
    const MaskSpec spec{.kind = kind, .queries = 20, .keys = 300, .alibi = true, .seed = 5};
    const MaskCase mask(spec), same(spec);
    MaskOptions options;
    options.slopes = slopes;
    options.q_heads = q_heads;
    MaskReader first, second;
    const MaskedBatch a = mask.read(first, options).value();
    const MaskedBatch b = same.read(second, options).value();
    Workload workload(mask);
    const Attention attention = Attention::create(workload.problem(a), limits_of(a)).value();
    const auto by_content = BorrowedArrays::by_content;
    EXPECT_EQ(*plan_fingerprint(attention, a.batch, by_content),
              *plan_fingerprint(attention, b.batch, by_content));
    EXPECT_NE(*plan_fingerprint(attention, a.batch), *plan_fingerprint(attention, b.batch));
    const PlanFingerprint before = *plan_fingerprint(attention, a.batch);

    const Buffer memory = Buffer::allocate(attention.plan_bytes()).value();
    const Buffer other_memory = Buffer::allocate(attention.plan_bytes()).value();
    const Buffer workspace = Buffer::allocate(attention.workspace_bytes()).value();
    const AttentionPlan kept = plan(attention, a.batch, memory.span()).value();
    const AttentionPlan made = plan(attention, b.batch, other_memory.span()).value();
    const auto bits_of_plan = [&](const AttentionPlan& p) {
      workload.poison_output();
      attend(attention, p, workload.args(a), workspace.span(), serial_executor()).or_throw();
      return workload.out();
    };
    const std::vector<float> bits = bits_of_plan(made);
    EXPECT_EQ(bits_of_plan(kept), bits);
    // the same reader reads the same mask into the same memory
    const MaskedBatch again = same.read(first, options).value();
    EXPECT_EQ(*plan_fingerprint(attention, again.batch), before);
    EXPECT_EQ(bits_of_plan(kept), bits);
  }
}

}  // namespace
}  // namespace folio::test
