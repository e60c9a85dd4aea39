// SPDX-License-Identifier: Apache-2.0
/// tests/attention/memory_test.cpp: plan_bytes() and workspace_bytes() suffice exactly, for every
/// batch within the limits; the run path allocates nothing.
///
/// prepare_case gives exactly as many bytes, followed by an inaccessible page.
#include <gtest/gtest.h>

#include <vector>

#include "support/allocations.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

CaseOptions small_options(std::vector<SequenceShape> sequences, uint64_t seed) {
  CaseOptions options;
  options.sequences = std::move(sequences);
  options.seed = seed;
  options.head_size = 8;
  options.q_heads = 6;
  options.kv_heads = 2;
  options.page_size = 64;
  options.query_positions = true;  // so that a sequence may have more new tokens than context
  return options;
}

/// Any batch within the limits, the extreme ones more often than chance has them.
std::vector<SequenceShape> random_batch(const AttentionLimits& limits, Rng& rng) {
  std::vector<SequenceShape> sequences;
  const int64_t count = rng.chance(0.3) ? limits.batch : rng.between(0, limits.batch);
  int32_t tokens = rng.chance(0.3) ? limits.tokens : rng.int_between(0, limits.tokens);
  for (int64_t b = 0; b < count; ++b) {
    const int32_t new_tokens =
        b + 1 == count || rng.chance(0.1) ? tokens : std::min(tokens, rng.int_between(0, 3));
    tokens -= new_tokens;
    sequences.push_back(
        {new_tokens, rng.chance(0.3) ? limits.context : rng.int_between(0, limits.context)});
  }
  return sequences;
}

void expect_fits(const std::vector<SequenceShape>& sequences, const AttentionLimits& limits,
                 uint64_t seed) {
  for_each_kernel_case(
      small_options(sequences, seed), [&](AttentionCase& c, const std::string& kernel) {
        c.poison_output();
        const Result<PreparedCase> p = prepare_case(c, kernel, limits);
        ASSERT_TRUE(p.has_value()) << p.error().message();
        const Status status =
            attend(p->attention, p->plan, c.args(), p->workspace.span(), serial_executor());
        ASSERT_TRUE(status.is_ok()) << status.message();
        EXPECT_TRUE(p->plan_memory.slack_untouched() && p->workspace.slack_untouched());
        EXPECT_TRUE(matches_reference(c, {0, c.tokens(), 97})) << describe(c.options());
      });
}

TEST(Memory, random_batches_fit_exactly) {
  Rng rng(test_seed());
  for (int round = 0; round < 25; ++round) {
    const AttentionLimits limits{rng.int_between(1, 9), rng.int_between(1, 150),
                                 rng.int_between(1, 9000), rng.int_between(1, 12)};
    expect_fits(random_batch(limits, rng), limits, rng.next());
    if (HasFatalFailure()) return;
  }
}

TEST(Memory, extreme_batches_fit_exactly) {
  for (const int32_t parallelism : {1, 2, 16}) {
    const AttentionLimits limits{5, 90, 6200, parallelism};
    const std::vector<std::vector<SequenceShape>> batches = {
        {{90, 6200}},  // everything in one sequence
        {{1, 6200}},   // one long decode
        // as many long ones as there may be
        {{86, 1}, {1, 6200}, {1, 6200}, {1, 6200}, {1, 6200}},
        {{18, 6200}, {18, 6200}, {18, 6200}, {18, 6200}, {18, 6200}},  // full in every limit
        {{0, 6200}, {0, 6200}, {90, 0}, {0, 1}, {0, 0}},               // queries here, keys there
        {{1, 2048}, {1, 2049}, {1, 2047}, {1, 4096}, {86, 64}},        // edges of spans
    };
    for (const auto& batch : batches) {
      expect_fits(batch, limits, 3);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Memory, sizes_are_functions_of_problem_and_limits) {
  for_each_kernel_case(small_options({{1, 10}}, 1), [](AttentionCase& c,
                                                       const std::string& kernel) {
    const AttentionLimits limits{4, 64, 5000, 8};
    const Attention first = Attention::create(c.problem(), limits, {}, kernel).value();
    const Attention second = Attention::create(c.problem(), limits, {}, kernel).value();
    EXPECT_EQ(first.plan_bytes(), second.plan_bytes());
    EXPECT_EQ(first.workspace_bytes(), second.workspace_bytes());
    EXPECT_GT(first.plan_bytes(), 0);
    const Attention serial = Attention::create(c.problem(), {4, 64, 5000, 1}, {}, kernel).value();
    EXPECT_LE(serial.workspace_bytes(), first.workspace_bytes());
  });
}

TEST(Memory, sizes_stay_modest_for_limits_of_a_server) {
  CaseOptions options = small_options({{1, 10}}, 1);
  options.head_size = 128;
  options.q_heads = 32;
  options.kv_heads = 8;
  AttentionCase c(options);
  const Attention attention = Attention::create(c.problem(), {256, 8192, 131072, 64}).value();
  EXPECT_LT(attention.plan_bytes(), int64_t{64} << 20);
  EXPECT_LT(attention.workspace_bytes(), int64_t{1} << 30);
}

TEST(Memory, a_batch_beyond_a_limit_is_an_error) {
  struct Row {
    const char* word;
    std::vector<SequenceShape> sequences;
  };
  const AttentionLimits limits{3, 20, 100, 2};
  const Row rows[] = {
      {"batch.size", {{1, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {"tokens", {{10, 30}, {11, 30}}},
      {"context", {{1, 101}}},
  };
  for (const Row& row : rows) {
    for_each_kernel_case(small_options(row.sequences, 1), [&](AttentionCase& c,
                                                              const std::string& kernel) {
      const Result<PreparedCase> p = prepare_case(c, kernel, limits);
      ASSERT_FALSE(p.has_value());
      EXPECT_EQ(p.error().code(), Errc::invalid_argument);
      EXPECT_NE(p.error().message().find(row.word), std::string_view::npos) << p.error().message();
    });
  }
}

TEST(Memory, the_run_path_allocates_nothing) {
  for_each_kernel_case(
      small_options({{1, 5000}, {40, 300}, {1, 17}}, 1),
      [](AttentionCase& c, const std::string& kernel) {
        const Result<PreparedCase> p = prepare_case(c, kernel, {3, 42, 5000, 4});
        ASSERT_TRUE(p.has_value()) << p.error().message();
        const Executor executor = serial_executor();
        const int64_t before = allocations();
        const AttentionPlan made =
            plan(p->attention, c.batch(), p->plan_memory.span()).value_or(AttentionPlan{});
        const bool checked = check(p->attention, made, c.args()).is_ok();
        const bool attended =
            attend(p->attention, made, c.args(), p->workspace.span(), executor).is_ok();
        const bool prepared = prepare(p->attention, made, c.args(), p->workspace.span()).is_ok();
        bool tasks_done = true;
        for (int64_t i = 0; i < made.num_tasks; ++i)
          tasks_done &= attend_task(p->attention, made, c.args(), p->workspace.span(), i).is_ok();
        EXPECT_EQ(allocations(), before);
        EXPECT_TRUE(checked && attended && prepared && tasks_done);
        EXPECT_TRUE(matches_reference(c, {0, c.tokens(), 31}));
      });
}

TEST(Memory, a_failed_allocation_is_an_error_value) {
  AttentionCase c(small_options({{1, 10}}, 1));
  AttentionProblem broken = c.problem();
  broken.q_heads = 7;
  fail_allocations(true);
  const Result<Attention> made =
      Attention::create(c.problem(), {.parallelism = 1});  // needs no memory
  const Result<Attention> failed = Attention::create(broken, {});
  fail_allocations(false);
  EXPECT_TRUE(made.has_value());
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code(), Errc::out_of_memory);
}

}  // namespace
}  // namespace folio::test
