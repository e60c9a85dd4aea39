// SPDX-License-Identifier: Apache-2.0
/// tests/attention/plan_ties_test.cpp: a plan runs only with its Attention, in its memory, with a
/// workspace prepared for it; it keeps the arrays that it says it copies.
///
/// Plan memory and workspaces end at inaccessible pages: a plan that runs where it does not belong
/// is a crash.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr AttentionLimits small_limits{2, 8, 2100, 1}, large_limits{8, 64, 9000, 16};

CaseOptions small_options() {
  CaseOptions options;
  options.sequences = {{2, 2100}, {3, 20}};
  options.head_size = 16;
  return options;
}

void expect_refused(const Status& status, std::string_view words) {
  EXPECT_EQ(status.code(), Errc::invalid_argument) << words;
  EXPECT_NE(status.message().find(words), std::string_view::npos)
      << status.message() << "\nhas not: " << words;
  EXPECT_NE(status.message().find("expected"), std::string_view::npos) << status.message();
}

/// Every call that takes the plan refuses it, and writes nothing.
void expect_refused_everywhere(AttentionCase& c, const PreparedCase& p, const AttentionPlan& plan,
                               std::string_view words) {
  c.poison_output();
  const std::vector<std::byte> untouched = c.output_bits();
  const MemorySpan workspace = p.workspace.span();
  expect_refused(check(p.attention, plan, c.args()), words);
  expect_refused(prepare(p.attention, plan, c.args(), workspace), words);
  expect_refused(attend(p.attention, plan, c.args(), workspace, serial_executor()), words);
  expect_refused(attend_task(p.attention, plan, c.args(), workspace, 0), words);
  EXPECT_EQ(c.output_bits(), untouched);
}

/// The plan of another Attention of the same case, in memory of its own.
Result<PreparedCase> prepare_other(AttentionCase& c, const AttentionProblem& problem,
                                   const AttentionLimits& limits, std::string_view kernel = {}) {
  const AttentionProblem kept = c.problem();
  c.problem() = problem;
  Result<PreparedCase> prepared = prepare_case(c, kernel, limits);
  c.problem() = kept;
  return prepared;
}

TEST(PlanTies, a_plan_of_other_limits_is_refused) {
  for_each_kernel_case(small_options(), [](AttentionCase& c, const std::string& kernel) {
    const Result<PreparedCase> small = prepare_case(c, kernel, small_limits);
    const Result<PreparedCase> large = prepare_case(c, kernel, large_limits);
    ASSERT_TRUE(small.has_value() && large.has_value());
    expect_refused_everywhere(c, *small, large->plan, "limits.batch = 8");
    expect_refused_everywhere(c, *large, small->plan, "limits.batch = 2");
    for (const auto& [limits, words] :
         {std::pair{AttentionLimits{2, 9, 2100, 1}, "limits.tokens = 9"},
          std::pair{AttentionLimits{2, 8, 2101, 1}, "limits.context = 2101"},
          std::pair{AttentionLimits{2, 8, 2100, 64}, "limits.parallelism = 64"}}) {
      const Result<PreparedCase> other = prepare_case(c, kernel, limits);
      ASSERT_TRUE(other.has_value());
      expect_refused_everywhere(c, *small, other->plan, words);
    }
  });
}

TEST(PlanTies, a_plan_of_another_problem_or_kernel_is_refused) {
  AttentionCase c(small_options());
  const Result<PreparedCase> p = prepare_case(c, {}, small_limits);
  ASSERT_TRUE(p.has_value());
  for (const auto& change : std::vector<std::function<void(AttentionProblem&)>>{
           [](AttentionProblem& other) { other.mask = Mask::sliding_window(7); },
           [](AttentionProblem& other) { other.q_heads *= 2; },
           [](AttentionProblem& other) { other.sink_logits = !other.sink_logits; },
           [](AttentionProblem& other) { other.scale = 0.5f; }}) {
    AttentionProblem problem = c.problem();
    change(problem);
    const Result<PreparedCase> other = prepare_other(c, problem, small_limits);
    ASSERT_TRUE(other.has_value()) << other.error().message();
    // another problem may have another kernel
    expect_refused_everywhere(c, *p, other->plan, "plan is of an Attention with another");
  }
  for (const std::string& name : kernel_names()) {
    if (name == p->attention.kernel()) continue;
    const Result<PreparedCase> other = prepare_case(c, name, small_limits);
    if (!other) continue;  // it refuses the problem
    expect_refused_everywhere(c, *p, other->plan, "another kernel");
  }
}

TEST(PlanTies, equal_attentions_share_plans_whatever_memory_they_were_described_with) {
  AttentionCase c(small_options());
  const Result<PreparedCase> p = prepare_case(c, {}, small_limits);
  ASSERT_TRUE(p.has_value());
  AttentionProblem same = c.problem();
  same.key.data = same.value.data = &same;
  same.key.num_pages = same.value.num_pages = 12345;
  const Attention attention = Attention::create(same, small_limits).value();
  EXPECT_EQ(attention.problem(), p->attention.problem());
  const Status status =
      attend(attention, p->plan, c.args(), p->workspace.span(), serial_executor());
  EXPECT_EQ(status.message(), "");
}

TEST(PlanTies, a_plan_whose_memory_was_planned_again_is_refused) {
  for_each_kernel_case(small_options(), [](AttentionCase& c, const std::string& kernel) {
    const Result<PreparedCase> p = prepare_case(c, kernel, small_limits);
    ASSERT_TRUE(p.has_value());
    const int32_t offsets[] = {0, 1}, contexts[] = {2};
    Batch fewer = c.batch();
    fewer.size = 1;
    fewer.query_offsets = offsets;
    fewer.context_lengths = contexts;
    ASSERT_TRUE(plan(p->attention, fewer, p->plan_memory.span()).has_value());
    expect_refused_everywhere(c, *p, p->plan, "planned again");
    // also by the same batch, which cannot be told apart by its numbers
    const AttentionPlan again = plan(p->attention, c.batch(), p->plan_memory.span()).value();
    expect_refused_everywhere(c, *p, p->plan, "planned again");
    EXPECT_EQ(check(p->attention, again, c.args()).message(), "");
  });
}

TEST(PlanTies, a_plan_that_failed_leaves_nothing_usable_in_its_memory) {
  AttentionCase c(small_options());
  const Result<PreparedCase> p = prepare_case(c, {}, small_limits);
  ASSERT_TRUE(p.has_value());
  Batch broken = c.batch();
  broken.size = 3;
  ASSERT_FALSE(plan(p->attention, broken, p->plan_memory.span()).has_value());
  expect_refused_everywhere(c, *p, p->plan, "planned again");
}

TEST(PlanTies, a_plan_that_was_never_made_is_refused) {
  AttentionCase c(small_options());
  const Result<PreparedCase> p = prepare_case(c, {}, small_limits);
  ASSERT_TRUE(p.has_value());
  const GuardedMemory zeros(p->attention.plan_bytes(), 64), ones(p->attention.plan_bytes(), 64);
  zeros.fill(0);
  ones.fill(0xff);
  struct Row {
    const char* words;
    std::function<void(AttentionPlan&)> break_it;
  };
  const Row rows[] = {
      {"plan is empty", [](AttentionPlan& plan) { plan = {}; }},
      {"plan is empty", [](AttentionPlan& plan) { plan.items = nullptr; }},
      {"plan.items is not aligned",
       [](AttentionPlan& plan) { plan.items = static_cast<const std::byte*>(plan.items) + 1; }},
      {"plan.generation is 0",
       [&](AttentionPlan& plan) {
         plan = {};
         plan.items = zeros.data();
       }},
      {"plan.generation", [&](AttentionPlan& plan) { plan.items = zeros.data(); }},
      {"plan.generation", [&](AttentionPlan& plan) { plan.items = ones.data(); }},
      {"another kernel",
       [&](AttentionPlan& plan) {
         plan.items = ones.data();
         plan.generation = std::numeric_limits<uint64_t>::max();
       }},
      {"plan.generation", [](AttentionPlan& plan) { ++plan.generation; }},
      {"plan.num_tasks", [](AttentionPlan& plan) { ++plan.num_tasks; }},
      {"plan.num_tasks is -1", [](AttentionPlan& plan) { plan.num_tasks = -1; }},
      {"plan.batch is 3", [](AttentionPlan& plan) { ++plan.batch; }},
      {"plan.tokens is 6", [](AttentionPlan& plan) { ++plan.tokens; }},
  };
  for (const Row& row : rows) {
    AttentionPlan broken = p->plan;
    row.break_it(broken);
    expect_refused_everywhere(c, *p, broken, row.words);
  }
}

TEST(PlanTies, attend_task_refuses_tasks_and_workspaces_that_are_not_the_plans) {
  AttentionCase c(small_options());
  const Result<PreparedCase> p = prepare_case(c, {}, small_limits);
  ASSERT_TRUE(p.has_value());
  c.poison_output();
  const std::vector<std::byte> untouched = c.output_bits();
  const MemorySpan workspace = p->workspace.span();
  const auto run = [&](MemorySpan memory, int64_t task) {
    return attend_task(p->attention, p->plan, c.args(), memory, task);
  };
  expect_refused(run(workspace, 0), "workspace is not prepared");
  ASSERT_EQ(prepare(p->attention, p->plan, c.args(), workspace).message(), "");
  for (const int64_t task : {int64_t{-1}, p->plan.num_tasks, std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max()}) {
    expect_refused(run(workspace, task), "task is " + std::to_string(task));
  }
  expect_refused(run({nullptr, workspace.bytes}, 0), "attend_task: workspace is null");
  expect_refused(run({workspace.data, workspace.bytes - 1}, 0), "attend_task: workspace has");
  expect_refused(run({p->workspace.data() + 8, workspace.bytes}, 0), "not aligned");
  const GuardedMemory other(workspace.bytes, 64);
  expect_refused(run(other.span(), 0), "workspace is not prepared");
  EXPECT_EQ(c.output_bits(), untouched);
  for (int64_t task = 0; task < p->plan.num_tasks; ++task)
    ASSERT_EQ(run(workspace, task).message(), "");
  EXPECT_TRUE(matches_reference(c));
}

TEST(PlanTies, a_plan_keeps_offsets_lengths_and_positions_of_its_own) {
  CaseOptions options = small_options();
  options.query_positions = options.key_positions = true;
  options.mask = Mask::sliding_window(9);
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    const Batch given = c.batch();
    ASSERT_NE(given.key_positions, nullptr);
    for (int64_t row = 0; row < c.tokens(); ++row) {
      for (int32_t head = 0; head < c.options().q_heads; ++head) c.expected(row, head);
    }
    const auto copy = [](const int32_t* from, int32_t count) {
      return std::vector<int32_t>(from, from + count);
    };
    std::vector<int32_t> offsets = copy(given.query_offsets, given.size + 1),
                         contexts = copy(given.context_lengths, given.size),
                         queries = copy(given.query_positions, given.size),
                         keys = copy(given.key_positions, given.size);
    c.batch().query_offsets = offsets.data();
    c.batch().context_lengths = contexts.data();
    c.batch().query_positions = queries.data();
    c.batch().key_positions = keys.data();
    c.poison_output();
    const Result<PreparedCase> p = prepare_case(c, kernel, small_limits);
    c.batch() = given;
    ASSERT_TRUE(p.has_value()) << p.error().message();
    for (std::vector<int32_t>* array : {&offsets, &contexts, &queries, &keys})
      std::fill(array->begin(), array->end(), 0x5a5a5a);
    const Status status =
        attend(p->attention, p->plan, c.args(), p->workspace.span(), serial_executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
    EXPECT_TRUE(matches_reference(c));
  });
}

}  // namespace
}  // namespace folio::test
