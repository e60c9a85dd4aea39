// SPDX-License-Identifier: Apache-2.0
/// tests/attention/turned_queries_test.cpp: queries that `rotate` has turned for their keys, and
/// those that `attend` turns itself: one result, bit for bit.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/plan.h"
#include "folio/attention/rotate.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "reference/attention.h"
#include "reference/elements.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr int32_t tokens = 20, kv_heads = 2, q_heads = 6, page_size = 4;

/// K and V of one layer that are turned, a query of the last token, and what it attends with.
class Step {
 public:
  explicit Step(Rng& rng, DType q_dtype = DType::invalid) {
    constexpr int32_t head_sizes[] = {32, 64, 96, 128};
    constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::i4, DType::u4, DType::f4_e2m1};
    constexpr DType activations[] = {DType::f32, DType::bf16, DType::f16};
    head_size_ = rng.pick(head_sizes);
    q_dtype_ = q_dtype == DType::invalid ? rng.pick(activations) : q_dtype;
    KVShape shape{.num_heads = kv_heads,
                  .head_size = head_size_,
                  .page_size = page_size,
                  .dtype = rng.pick(dtypes)};
    if (folio::detail::is_packed(shape.dtype)) {
      shape.scale_dtype = DType::f16;
      shape.quantization_granularity = 32;
    }
    if (rng.chance(0.8))
      shape.hadamard = {rng.chance(0.5) ? 16 : head_size_ & -head_size_, rng.chance(0.5) ? 7u : 0u};
    constexpr int64_t pages = tokens / page_size;
    blocks_ = Buffer::allocate(page_bytes(shape).value() * pages).value();
    scales_ = Buffer::allocate(scale_page_bytes(shape).value() * pages).value();
    planes_ = make_planes(shape, pages, blocks_.span(), scales_.span()).value().front();
    if (shape.hadamard.block == 0 || rng.chance(0.4)) give_channel_scales(rng);
    append_rows(rng);
    q_.resize(static_cast<size_t>(q_heads * head_size_ * bit_width(q_dtype_) / 8));
    for (size_t i = 0; i < q_.size(); i += static_cast<size_t>(bit_width(q_dtype_) / 8))
      reference::store(q_.data() + i, q_dtype_, static_cast<double>(rng.uniform(-2.0f, 2.0f)));
  }

  [[nodiscard]] AttentionProblem problem(bool q_is_turned) const {
    AttentionProblem problem;
    problem.key = planes_.key;
    problem.value = planes_.value;
    problem.q_heads = q_heads;
    problem.q_dtype = q_dtype_;
    problem.out_dtype = DType::f32;
    problem.q_is_turned = q_is_turned;
    return problem;
  }
  [[nodiscard]] std::vector<std::byte> turned() const {
    std::vector<std::byte> out(q_.size());
    RotateArgs args;
    args.q = query(q_);
    args.out = dense_tensor<3>(out.data(), q_dtype_, {1, q_heads, int64_t{head_size_}});
    args.key = &planes_.key;
    const Status status = rotate({}, args, serial_executor());
    EXPECT_EQ(status.message(), "");
    return out;
  }
  [[nodiscard]] std::vector<float> attended(const std::vector<std::byte>& q,
                                            bool q_is_turned) const {
    std::vector<float> out(static_cast<size_t>(q_heads * head_size_));
    const Result<Attention> attention =
        Attention::create(problem(q_is_turned), {.batch = 1, .tokens = 1, .context = tokens});
    EXPECT_EQ(attention.error().message(), "");
    Buffer memory = Buffer::allocate(attention->plan_bytes()).value(),
           workspace = Buffer::allocate(attention->workspace_bytes()).value();
    const Result<AttentionPlan> made = plan(*attention, batch_, memory.span());
    EXPECT_EQ(made.error().message(), "");
    AttentionArgs args = inputs(q);
    args.out = dense_tensor<3>(out.data(), DType::f32, {1, q_heads, int64_t{head_size_}});
    const Status status = attend(*attention, *made, args, workspace.span(), serial_executor());
    EXPECT_EQ(status.message(), "");
    return out;
  }
  [[nodiscard]] reference::QueryResult exact(const std::vector<std::byte>& q, bool q_is_turned,
                                             int32_t head) const {
    return reference::attend_query(problem(q_is_turned), batch_, inputs(q), 0, 0, head);
  }
  [[nodiscard]] const std::vector<std::byte>& q() const { return q_; }
  [[nodiscard]] DType q_dtype() const { return q_dtype_; }
  [[nodiscard]] int32_t head_size() const { return head_size_; }

 private:
  [[nodiscard]] ConstTensor<3> query(const std::vector<std::byte>& q) const {
    return dense_tensor<3>(q.data(), q_dtype_, {1, q_heads, int64_t{head_size_}});
  }
  [[nodiscard]] AttentionArgs inputs(const std::vector<std::byte>& q) const {
    AttentionArgs args;
    args.q = query(q);
    args.key = planes_.key;
    args.value = planes_.value;
    return args;
  }
  void give_channel_scales(Rng& rng) {
    for (int i = 0; i < kv_heads * head_size_; ++i)
      channel_scales_.push_back(rng.uniform(0.1f, 4.0f));
    planes_.key.has_channel_scales = true;
    planes_.key.channel_scales = channel_scales_.data();
  }
  void append_rows(Rng& rng) {
    std::vector<float> rows(static_cast<size_t>(tokens * kv_heads * head_size_));
    for (float& x : rows) x = rng.uniform(-1.0f, 1.0f);
    std::vector<int64_t> slots(tokens);
    std::iota(slots.begin(), slots.end(), int64_t{0});
    AppendArgs args;
    args.k = args.v =
        dense_tensor<3>(rows.data(), DType::f32, {tokens, kv_heads, int64_t{head_size_}});
    args.key = planes_.key;
    args.value = planes_.value;
    args.slots = slots.data();
    ASSERT_EQ(append({}, args, serial_executor()).message(), "");
  }

  int32_t head_size_ = 0;
  DType q_dtype_ = DType::f32;
  Buffer blocks_, scales_;
  KVPlanes planes_;
  std::vector<float> channel_scales_;
  std::vector<std::byte> q_;
  int32_t offsets_[2] = {0, 1}, lengths_[1] = {tokens};
  uint32_t table_[tokens / page_size] = {3, 0, 4, 1, 2};
  Batch batch_{1, offsets_, lengths_, {table_, tokens / page_size, nullptr}};
};

TEST(TurnedQueries, of_rotate_give_the_bits_that_attend_gives_of_those_it_turns) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const Step step(rng, DType::f32);  // others are rounded by rotate
    const std::vector<float> own = step.attended(step.q(), false);
    EXPECT_EQ(own, step.attended(step.turned(), true));
    EXPECT_NE(own, step.attended(step.q(), true)) << "turned by nobody";
  }
}

TEST(TurnedQueries, are_what_the_reference_says) {
  Rng rng(test_seed());
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const Step step(rng);
    const std::vector<std::byte> turned = step.turned();
    const std::vector<float> out = step.attended(turned, true);
    const double slack = step.q_dtype() == DType::f32   ? 0.0
                         : step.q_dtype() == DType::f16 ? 4e-3
                                                        : 3e-2;
    for (int32_t head = 0; head < q_heads; ++head) {
      const reference::QueryResult result = step.exact(turned, true, head),
                                   unturned = step.exact(step.q(), false, head);
      for (int32_t d = 0; d < step.head_size(); ++d) {
        const auto i = static_cast<size_t>(d);
        const float got = out[static_cast<size_t>(head * step.head_size() + d)];
        ASSERT_NEAR(static_cast<double>(got), result.out[i], 2e-5) << head << ' ' << d;
        ASSERT_NEAR(result.out[i], unturned.out[i], slack + 1e-5) << head << ' ' << d;
      }
    }
  }
}

TEST(TurnedQueries, mean_nothing_to_keys_that_are_not_turned) {
  AttentionProblem problem;
  problem.key.num_heads = problem.value.num_heads = kv_heads;
  problem.q_heads = q_heads;
  for (PagedKVView* view : {&problem.key, &problem.value}) {
    view->dtype = DType::bf16;
    view->head_size = 64;
    view->page_size = page_size;
    view->head_stride_bytes = 128;
    view->slot_stride_bytes = kv_heads * 128;
    view->page_stride_bytes = page_size * kv_heads * 128;
  }
  const char* const reason = refuse(problem);
  problem.q_is_turned = true;
  EXPECT_EQ(reason, nullptr);
  EXPECT_EQ(refuse(problem), nullptr);
}

}  // namespace
}  // namespace folio::test
