// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/attend_selected_test.cpp: choosing keys and attending to them in one call gives
/// what both give one after the other; lists that are not the plan's are refused.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "folio/sparse/attend_selected.h"
#include "sparse/index_case.h"

namespace folio::test {
namespace {

constexpr int32_t top = 24;

/// K is the index cache, too: one head.
IndexCaseOptions one_head() {
  IndexCaseOptions options;
  options.attention.kv_heads = 1;
  options.attention.q_heads = 4;
  options.attention.head_size = 32;
  options.attention.key_dtype = options.attention.value_dtype = DType::bf16;
  options.attention.sequences = {{3, 90}, {1, 200}, {2, 7}, {1, 65}};
  options.top = top;
  return options;
}

struct Selected {
  explicit Selected(IndexCase& c)
      : index(c.index("")), lists(static_cast<size_t>(c.tokens()) * top, -7), batch(c.batch()) {
    batch.selected = lists.data();
    batch.selected_stride = top;
    AttentionProblem problem = c.attention().problem();
    problem.selection = true;
    attention = Attention::create(problem, c.attention().limits()).value();
    plan_memory = GuardedMemory(attention.plan_bytes(), 64);
    workspace = GuardedMemory(attention.workspace_bytes(), 64);
    index_workspace = GuardedMemory(index.workspace_bytes(), 64);
    made = plan(attention, batch, plan_memory.span()).value();
    args = {.score = c.args, .k = top, .lists = lists.data(), .stride = top};
  }

  Status run(IndexCase& c) {
    c.attention().poison_output();
    return attend_selected({index, c.batch(), args, index_workspace.span()}, attention, made,
                           c.attention().args(), workspace.span(), serial_executor());
  }

  Index index;
  std::vector<int32_t> lists;
  Batch batch;
  Attention attention;
  GuardedMemory plan_memory, workspace, index_workspace;
  AttentionPlan made;
  SelectArgs args;
};

TEST(AttendSelected, is_select_keys_then_attend) {
  IndexCase c(one_head());
  Selected s(c);
  ASSERT_EQ(s.run(c).message(), "");
  const std::vector<std::byte> bits = c.attention().output_bits();
  EXPECT_EQ(s.lists, c.lists(s.index, top, ListEntries::slots, serial_executor()));
  c.attention().poison_output();
  const Status status =
      attend(s.attention, s.made, c.attention().args(), s.workspace.span(), serial_executor());
  ASSERT_EQ(status.message(), "");
  EXPECT_EQ(c.attention().output_bits(), bits);
}

TEST(AttendSelected, lists_that_are_not_the_plans_are_refused) {
  IndexCase c(one_head());
  std::vector<int32_t> others(static_cast<size_t>(c.tokens()) * top);
  const struct {
    std::string_view words;
    std::function<void(Selected&)> bend;
  } rows[] = {
      {"select.args.lists is other memory than batch.selected of the plan",
       [&](Selected& s) { s.args.lists = others.data(); }},
      {"select.args.k is 23 and stride 24, expected batch.selected_stride = 24",
       [](Selected& s) { s.args.k = top - 1; }},
      {"select.args.entries is 1, expected slots",
       [](Selected& s) { s.args.entries = ListEntries::keys; }},
      {"plan.generation is", [](Selected& s) { ++s.made.generation; }},
      {"expected selection",
       [&](Selected& s) {
         s.attention = Attention::create(c.attention().problem(), c.attention().limits()).value();
         s.plan_memory = GuardedMemory(s.attention.plan_bytes(), 64);
         s.made = plan(s.attention, c.batch(), s.plan_memory.span()).value();
       }},
  };
  for (const auto& row : rows) {
    Selected s(c);
    row.bend(s);
    const Status status = s.run(c);
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_NE(status.message().find(row.words), std::string_view::npos) << status.message();
    for (const int32_t entry : s.lists) ASSERT_EQ(entry, -7) << row.words;
  }
}

}  // namespace
}  // namespace folio::test
