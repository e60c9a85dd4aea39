// SPDX-License-Identifier: Apache-2.0
/// tests/attention/poison_test.cpp: ragged batches over permuted, shared and poisoned pages,
/// whatever the lengths; reused pages.
#include <gtest/gtest.h>

#include <vector>

#include "folio/attention/append.h"
#include "reference/elements.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"
#include "support/tolerance.h"

namespace folio::test {
namespace {

/// Skewed: most sequences are short, one is long; decode, prefill and empty ones mixed.
std::vector<SequenceShape> skewed_lengths(Rng& rng) {
  std::vector<SequenceShape> sequences;
  const int64_t count = rng.between(1, 6);
  const int64_t longest = rng.between(0, count - 1);
  for (int64_t b = 0; b < count; ++b) {
    const int32_t context = rng.int_between(0, b == longest ? 400 : 70);
    const bool decodes = rng.chance(0.5);
    sequences.push_back(
        {decodes ? std::min(1, context) : rng.int_between(0, std::min(context, 40)), context});
  }
  return sequences;
}

TEST(Poison, any_ragged_batch_is_right_on_every_kernel) {
  Rng rng(test_seed());
  constexpr int32_t page_sizes[] = {1, 3, 16, 64};
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f8_e4m3};
  for (int round = 0; round < 200; ++round) {
    CaseOptions options;
    options.seed = rng.next();
    options.sequences = skewed_lengths(rng);
    options.page_size = rng.pick(page_sizes);
    options.kv_heads = rng.int_between(1, 2);
    options.q_heads = options.kv_heads * rng.int_between(1, 3);
    options.head_size = 8 * rng.int_between(1, 6);
    options.v_head_size = 8 * rng.int_between(1, 6);
    options.key_dtype = rng.pick(dtypes);
    options.value_dtype = rng.pick(dtypes);
    options.key_order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
    options.value_order = rng.chance(0.5) ? StorageOrder::token_major : StorageOrder::head_major;
    options.gap_bytes = 4 * rng.int_between(0, 3);
    options.mask = rng.chance(0.5)
                       ? Mask::causal()
                       : Mask::sliding_window(rng.int_between(1, 90), rng.int_between(0, 4));
    options.parallelism = rng.int_between(1, 4);
    expect_every_kernel_right(options);
    if (HasFatalFailure()) return;
  }
}

TEST(Poison, absent_kernels_are_counted) {
  EXPECT_FALSE(kernel_names().empty()) << "some kernel runs everywhere";
  if (!absent_kernel_names().empty())
    GTEST_SKIP() << absent_kernel_names().size() << " kernels need instructions this machine lacks";
}

/// One plane's geometry: K and V of one head, pages of four tokens.
struct ReuseShape {
  DType dtype;
  int32_t head_size, v_head_size;
  bool value_in_key;
};
constexpr ReuseShape reuse_shapes[] = {
    {DType::f32, 16, 16, false}, {DType::bf16, 32, 32, false}, {DType::bf16, 576, 512, true}};

constexpr int32_t reuse_page_size = 4, reuse_pages = 5;

PagedKVView reuse_view(DType dtype, int32_t head_size, std::vector<std::byte>& memory) {
  PagedKVView view;
  view.dtype = dtype;
  view.num_heads = 1;
  view.head_size = head_size;
  view.page_size = reuse_page_size;
  view.num_pages = reuse_pages;
  view.head_stride_bytes = view.slot_stride_bytes = int64_t{head_size} * bit_width(dtype) / 8;
  view.page_stride_bytes = reuse_page_size * view.slot_stride_bytes;
  memory.assign(static_cast<size_t>(reuse_pages * view.page_stride_bytes), std::byte{0xff});  // NaN
  view.data = memory.data();
  return view;
}

AttentionProblem reuse_problem(const ReuseShape& shape, std::vector<std::byte> (&memory)[2]) {
  AttentionProblem problem;
  problem.key = reuse_view(shape.dtype, shape.head_size, memory[0]);
  if (!shape.value_in_key) problem.value = reuse_view(shape.dtype, shape.v_head_size, memory[1]);
  problem.value_in_key = shape.value_in_key;
  problem.v_head_size = shape.v_head_size;
  problem.q_heads = 1;
  problem.q_dtype = shape.dtype;
  problem.out_dtype = DType::f32;
  problem.mask = Mask::sliding_window(reuse_page_size);
  return problem;
}

/// Two sequences decode with a window of one page; the page that one of them leaves behind becomes
/// the other's next page, contents and all. Every step writes one token per sequence.
void expect_reuse_is_right(const ReuseShape& shape, const std::string& kernel) {
  constexpr int32_t page_size = reuse_page_size, steps = 40;
  Rng rng(7);
  std::vector<std::byte> memory[2];
  const AttentionProblem problem = reuse_problem(shape, memory);
  const Attention attention = Attention::create(problem, {2, 2, steps, 1}, {}, kernel).value();
  const Precision precision = precision_of(kernel_of(kernel), problem);
  GuardedMemory plan_memory(attention.plan_bytes(), 64), workspace(attention.workspace_bytes(), 64);

  uint32_t table[2][steps / page_size] = {};
  std::vector<uint32_t> free = {4, 3, 2, 1, 0};
  const int32_t offsets[] = {0, 1, 2};
  const int64_t size = shape.head_size, v_size = shape.v_head_size;
  std::vector<float> k(static_cast<size_t>(2 * size)), v(k), out(k);
  std::vector<std::byte> q(k.size() * sizeof(float));
  for (int32_t step = 0; step < steps; ++step) {
    for (auto& row : table) {
      if (step % page_size != 0) continue;
      if (step >= 2 * page_size) {  // the last page but one lies before the window from now on
        uint32_t& left = row[step / page_size - 2];
        free.insert(free.begin(), left);
        left = 0xffffffffu;
      }
      row[step / page_size] = free.back();
      free.pop_back();
    }
    for (auto* x : {&k, &v}) {
      for (float& element : *x) element = rng.uniform(-1.0f, 1.0f);
    }
    for (int64_t i = 0; i < 2 * size; ++i)
      reference::store(q.data() + i * bit_width(shape.dtype) / 8, shape.dtype,
                       static_cast<double>(rng.uniform(-1.0f, 1.0f)));
    const int32_t contexts[] = {step + 1, step + 1};
    Batch batch;
    batch.size = 2;
    batch.query_offsets = offsets;
    batch.context_lengths = contexts;
    batch.table.entries = &table[0][0];
    batch.table.row_stride = steps / page_size;
    AppendArgs writes;
    writes.k = dense_tensor(k.data(), DType::f32, {2, 1, size});
    if (!shape.value_in_key) writes.v = dense_tensor(v.data(), DType::f32, {2, 1, v_size});
    writes.key = problem.key;
    writes.value = problem.value;
    ASSERT_TRUE(append(batch, writes, serial_executor()).is_ok());
    AttentionArgs args;
    args.q = dense_tensor(q.data(), shape.dtype, {2, 1, size});
    args.out = dense_tensor(out.data(), DType::f32, {2, 1, v_size});
    args.key = problem.key;
    args.value = problem.value;
    const Result<AttentionPlan> made = plan(attention, batch, plan_memory.span());
    ASSERT_TRUE(made.has_value()) << made.error().message();
    ASSERT_TRUE(attend(attention, *made, args, workspace.span(), serial_executor()).is_ok());
    for (int32_t b = 0; b < 2; ++b) {
      const reference::QueryResult exact =
          reference::attend_query(problem, batch, args, b, b, 0, error_weights(size));
      for (int64_t d = 0; d < v_size; ++d) {
        ASSERT_NEAR(static_cast<double>(out[static_cast<size_t>(b * v_size + d)]),
                    exact.out[static_cast<size_t>(d)], out_bound(exact, d, DType::f32, precision))
            << "step " << step;
      }
    }
  }
}

TEST(Poison, a_reused_page_carries_nothing_over) {
  for_each_kernel([](const std::string& kernel) {
    if (kernel_of(kernel).weights == DType::i8) return;  // of i8 alone, which cannot be poisoned
    int accepted = 0;
    for (const ReuseShape& shape : reuse_shapes) {
      std::vector<std::byte> memory[2];
      if (!Attention::create(reuse_problem(shape, memory), {}, {}, kernel)) continue;
      ++accepted;
      expect_reuse_is_right(shape, kernel);
    }
    EXPECT_GT(accepted, 0);
  });
}

}  // namespace
}  // namespace folio::test
