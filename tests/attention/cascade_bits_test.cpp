// SPDX-License-Identifier: Apache-2.0
/// tests/attention/cascade_bits_test.cpp: what sharing may change of a result, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "attention/internals.h"
#include "attention/plan_memory.h"
#include "support/attention_case.h"
#include "support/executors.h"
#include "support/kernel_cases.h"
#include "support/random.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

/// Decodes and drafts, most of which begin with the pages of another.
CaseOptions shared_options(Reproducible level) {
  CaseOptions options;
  options.reproducible = level;
  options.q_heads = 4;
  options.kv_heads = 2;
  options.head_size = 16;
  options.page_size = 32;
  options.key_dtype = options.value_dtype = DType::bf16;
  options.sink_logits = true;
  options.shared = 0.9;
  options.sequences = {{1, 6500}, {2, 4400}, {1, 4096}, {3, 6400}, {1, 2500}, {1, 100}, {1, 4500}};
  return options;
}

int64_t shared_tasks(const PreparedCase& prepared) {
  const auto& header = *static_cast<const PlanHeader*>(prepared.plan.items);
  return std::count_if(header.tasks, header.tasks + header.num_tasks,
                       [](const Task& task) { return task.first_query >= 0; });
}

struct Outcome {
  std::vector<std::byte> bits;
  int64_t shared = 0;
};

Outcome outcome_of(AttentionCase& c, const std::string& kernel, AttentionLimits limits,
                   const Executor& executor = serial_executor()) {
  Outcome outcome;
  const Result<PreparedCase> prepared = prepare_case(c, kernel, limits);
  EXPECT_TRUE(prepared.has_value()) << prepared.error().message();
  if (!prepared) return outcome;
  c.poison_output();
  prepared->workspace.fill(0xff);
  const Status status = attend_prepared(c, *prepared, executor);
  EXPECT_TRUE(status.is_ok()) << status.message();
  EXPECT_TRUE(prepared->plan_memory.slack_untouched() && prepared->workspace.slack_untouched());
  outcome.shared = shared_tasks(*prepared);
  outcome.bits = c.output_bits();
  return outcome;
}

TEST(CascadeBits, per_query_and_per_sequence_are_blind_to_it) {
  Rng rng(test_seed());
  for (const Reproducible level : {Reproducible::per_query, Reproducible::per_sequence}) {
    int64_t shared = 0;
    CaseOptions options = shared_options(level);
    options.seed = rng.next();
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      AttentionLimits limits = c.limits();
      limits.shared_levels = 0;
      const Outcome alone = outcome_of(c, kernel, limits);
      EXPECT_EQ(alone.shared, 0);
      EXPECT_TRUE(matches_reference(c, {0, c.tokens(), 7}));
      for (const int32_t levels : {1, 2, 8}) {
        limits.shared_levels = levels;
        limits.parallelism = rng.int_between(1, 9);
        limits.context += rng.int_between(0, 3000);
        const Outcome together = outcome_of(c, kernel, limits);
        EXPECT_EQ(together.bits, alone.bits) << kernel << ", " << levels << " levels";
        shared += together.shared;
        const bool may = kernel_of(kernel).promises == Reproducible::per_query;
        EXPECT_TRUE(may || together.shared == 0) << kernel;
      }
    });
    EXPECT_GT(shared, 0);
  }
}

/// Queries of one task that differ in all that a row may have.
TEST(CascadeBits, shared_prefixes_are_right_on_every_kernel) {
  Rng rng(test_seed());
  int64_t shared = 0;
  for (int i = 0; i < 12; ++i) {
    CaseOptions options = shared_options(Reproducible::per_plan);
    options.seed = rng.next();
    options.sequences = {{1, 200}, {1, 330}, {2, 190}, {5, 400}, {1, 64}, {3, 290}};
    options.unassigned = i % 3 == 0 ? 0.2 : 0.0;
    options.alibi = i % 2 == 0;
    options.alibi_positions = i == 4;  // not shared
    options.query_positions = i % 5 == 0;
    options.bias = i % 3 == 1 ? BiasForm::per_head : BiasForm::none;
    options.bias_per_sequence = i % 6 == 1;
    options.sink_per_query = i % 2 == 1;
    options.tree = i % 4 == 3 ? TreeForm::random : TreeForm::none;
    options.intervals = i % 4 == 2;
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      shared += outcome_of(c, kernel, c.limits()).shared;
      EXPECT_TRUE(matches_reference(c)) << kernel << ", case " << i;
    });
  }
  EXPECT_GT(shared, 0);
}

TEST(CascadeBits, one_plan_gives_the_same_bits_on_any_threads_in_any_order) {
  const uint64_t seed = test_seed();
  int64_t shared = 0;
  CaseOptions options = shared_options(Reproducible::per_plan);
  options.seed = seed;
  for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
    AttentionLimits limits = c.limits();
    limits.parallelism = 8;
    const Outcome first = outcome_of(c, kernel, limits);
    EXPECT_TRUE(matches_reference(c, {0, c.tokens(), 7}));
    shared += first.shared;
    for (const int threads : {1, 3, 8}) {
      ShufflingExecutor shuffling(threads, seed + static_cast<uint64_t>(threads));
      EXPECT_EQ(outcome_of(c, kernel, limits, shuffling.executor()).bits, first.bits) << kernel;
    }
  });
  EXPECT_GT(shared, 0);
}

TEST(CascadeBits, keys_that_a_plan_reads_are_told) {
  CaseOptions options = shared_options(Reproducible::per_plan);
  options.shared = 1.0;
  options.sequences = {{1, 640}, {1, 640}, {1, 640}};
  AttentionCase c(options);
  AttentionLimits limits = c.limits();
  limits.parallelism = 1;
  const PreparedCase together = prepare_case(c, "", limits).value();
  limits.shared_levels = 0;
  const PreparedCase alone = prepare_case(c, "", limits).value();
  EXPECT_EQ(keys_read(alone.attention, alone.plan), 3 * 640);
  EXPECT_EQ(keys_read(together.attention, together.plan), 640);
  EXPECT_EQ(keys_read(alone.attention, together.plan), 0) << "not of this attention";
  EXPECT_EQ(keys_read({}, {}), 0);
}

}  // namespace
}  // namespace folio::test
