// SPDX-License-Identifier: Apache-2.0
/// tests/attention/algebra_test.cpp: the algebra closes: parts of the keys, attended apart and
/// merged, are the whole; empty is defined.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "folio/attention/merge.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/part.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Output and lse of one part in memory of its own, f32, poisoned.
struct PartResult {
  PartResult(int64_t tokens, int64_t heads, int64_t size)
      : out(static_cast<size_t>(tokens * heads * size), std::nanf("")),
        lse(static_cast<size_t>(tokens * heads), std::nanf("")) {
    written = dense_tensor(out.data(), DType::f32, {tokens, heads, size});
    partial = {written, lse.data()};
  }
  std::vector<float> out, lse;
  AnyTensor<3> written;
  Partial partial;
};

CaseOptions split_options(uint64_t seed) {
  CaseOptions options;
  options.seed = seed;
  options.sequences = {{6, 230}};
  options.page_size = 8;
  options.head_size = 24;
  options.v_head_size = 40;
  options.sink_logits = true;
  options.alibi = true;
  options.bias = BiasForm::per_head;
  options.softcap = 4.0f;
  options.mask = seed % 2 == 0 ? Mask::causal() : Mask::sliding_window(100, 9);
  return options;
}

/// Attends to [cuts[i], cuts[i + 1]) apart; the sink logits go to part `sink_part`.
std::vector<std::unique_ptr<PartResult>> attend_parts(AttentionCase& c,
                                                      const std::vector<int32_t>& cuts,
                                                      size_t sink_part, const std::string& kernel) {
  std::vector<std::unique_ptr<PartResult>> results;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    auto result =
        std::make_unique<PartResult>(c.tokens(), c.options().q_heads, c.options().v_head_size);
    Part part(c, {0, 0, static_cast<int32_t>(c.tokens()), cuts[i], cuts[i + 1] - cuts[i]});
    AttentionProblem problem = c.problem();
    problem.out_dtype = DType::f32;
    problem.sink_logits = i == sink_part;
    if (!problem.sink_logits) part.args().sink_logits = nullptr;
    part.args().out = result->written;
    part.args().lse = result->lse.data();
    const Status status = part.run(problem, part.limits(), kernel);
    EXPECT_TRUE(status.is_ok()) << status.message();
    results.push_back(std::move(result));
  }
  return results;
}

/// Merges neighbours in a random tree until one part is left, into the output of the case.
void merge_in_random_tree(AttentionCase& c, std::vector<std::unique_ptr<PartResult>> parts,
                          Rng& rng) {
  while (parts.size() > 1) {
    const auto i = static_cast<size_t>(rng.between(0, static_cast<int64_t>(parts.size()) - 2));
    auto joined =
        std::make_unique<PartResult>(c.tokens(), c.options().q_heads, c.options().v_head_size);
    const Partial pair[] = {parts[i]->partial, parts[i + 1]->partial};
    ASSERT_TRUE(merge(pair, joined->written, joined->lse.data(), serial_executor()).is_ok());
    parts[i] = std::move(joined);
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  const Partial last[] = {parts[0]->partial};
  c.poison_output();
  ASSERT_TRUE(merge(last, c.args().out, c.args().lse, serial_executor()).is_ok());
}

TEST(Algebra, split_keys_merge_to_the_whole_whichever_part_has_the_sink) {
  Rng rng(test_seed());
  for (int round = 0; round < 6; ++round) {
    const CaseOptions options = split_options(rng.next());
    std::vector<int32_t> cuts = {0, 230};
    for (int64_t i = rng.between(0, 4); i > 0; --i) cuts.push_back(8 * rng.int_between(0, 28));
    std::sort(cuts.begin(), cuts.end());  // equal cuts: an empty part
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      for (size_t sink_part = 0; sink_part + 1 < cuts.size(); ++sink_part) {
        merge_in_random_tree(c, attend_parts(c, cuts, sink_part, kernel), rng);
        EXPECT_TRUE(matches_reference(c)) << describe(c.options());
      }
    });
  }
}

TEST(Algebra, a_sink_given_to_two_parts_is_a_different_result) {
  for_each_kernel_case(split_options(3), [&](AttentionCase& c, const std::string& kernel) {
    auto parts = attend_parts(c, {0, 96, 230}, 0, kernel);
    auto again = attend_parts(c, {0, 96, 230}, 1, kernel);
    parts[1] = std::move(again[1]);
    Rng rng(1);
    merge_in_random_tree(c, std::move(parts), rng);
    EXPECT_FALSE(matches_reference(c));
  });
}

TEST(Algebra, a_sink_logit_enters_once_however_many_spans_there_are) {
  for (const int32_t parallelism : {1, 6}) {
    CaseOptions options;
    options.head_size = 16;
    options.sink_logits = true;
    options.parallelism = parallelism;
    options.sequences = {{1, 5000}, {3, 9001}, {1, 20}};
    const std::vector<float> sinks(4, 9.0f);  // as heavy as thousands of keys
    expect_every_kernel_right(
        options, {Adapt::shapes, [&](AttentionCase& c) { c.args().sink_logits = sinks.data(); }});
  }
}

TEST(Algebra, a_query_without_keys_is_zero_and_minus_infinity_or_its_sink_logit) {
  for (const bool sinks : {false, true}) {
    CaseOptions options;
    options.head_size = 16;
    options.sink_logits = sinks;
    options.query_positions = sinks;
    options.intervals = !sinks;
    options.sequences = {{3, 0}, {2, 20}, {4, 0}};
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      ASSERT_TRUE(kernel_is_right(c, kernel));
      for (const int64_t row : {0, 1, 2, 5, 8}) {
        for (int32_t head = 0; head < c.options().q_heads; ++head) {
          EXPECT_EQ(c.output_lse(row, head), sinks ? c.sink_logits()[head] : -infinity);
          EXPECT_EQ(c.output(row, head, 5), 0.0);
        }
      }
    });
  }
}

/// A zero is not a negative one, whatever signs V's rotation and channels have.
TEST(Algebra, a_query_without_keys_is_a_positive_zero_where_values_are_turned) {
  for (const uint32_t signs : {0u, 1u, 77u}) {
    CaseOptions options;
    options.head_size = 32;
    options.value_turn = {.hadamard = {32, signs}, .channel_scales = true};
    options.sequences = {{3, 0}, {2, 20}};
    options.query_positions = true;
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      ASSERT_TRUE(kernel_is_right(c, kernel));
      for (int32_t dim = 0; dim < 32; ++dim) EXPECT_FALSE(std::signbit(c.output(0, 0, dim)));
    });
  }
}

TEST(Algebra, empty_batches_sequences_and_steps_succeed_and_write_nothing) {
  const std::vector<std::vector<SequenceShape>> shapes = {{}, {{0, 0}}, {{0, 50}, {0, 3}}};
  for (const auto& sequences : shapes) {
    CaseOptions options;
    options.head_size = 16;
    options.sequences = sequences;
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      ASSERT_EQ(run_case(c, kernel).message(), "");
      EXPECT_TRUE(c.output_gaps_untouched());
    });
  }
}

TEST(Algebra, an_empty_batch_needs_no_arrays) {
  for_each_kernel_case({}, [&](AttentionCase& c, const std::string& kernel) {
    const Attention attention = Attention::create(c.problem(), {}, {}, kernel).value();
    const GuardedMemory plan_memory(attention.plan_bytes(), 64),
        workspace(attention.workspace_bytes(), 64);
    const Result<AttentionPlan> made = plan(attention, Batch{}, plan_memory.span());
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_EQ(made->num_tasks, 0);
    AttentionArgs args;
    const CaseOptions& o = c.options();
    args.q = dense_tensor(nullptr, o.q_dtype, {0, int64_t{o.q_heads}, int64_t{o.head_size}});
    args.out = dense_tensor(nullptr, o.out_dtype, {0, int64_t{o.q_heads}, int64_t{o.v_head_size}});
    args.key = c.args().key;
    args.value = c.args().value;
    EXPECT_EQ(attend(attention, *made, args, workspace.span(), serial_executor()).message(), "");
  });
}

TEST(Algebra, neighbours_without_new_tokens_change_nothing) {
  // Shared layers and cross-attention attend without having appended; finished sequences may stay
  // in the batch.
  CaseOptions options;
  options.head_size = 16;
  options.mask = Mask::full();
  options.query_positions = true;
  options.sequences = {{0, 40}, {7, 30}, {0, 0}, {2, 90}, {0, 1}};
  expect_every_kernel_right(options);
}

}  // namespace
}  // namespace folio::test
