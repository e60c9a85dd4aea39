// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_shared_test.cpp: faults of shared tasks and of lists of heads, caught
/// where sequences share prefixes or heads have lists, and nowhere else.
/// docs/design/0005-mutants.md holds the table that is checked here.
#include <gtest/gtest.h>

#include <string_view>

#include "attention/mutant_engines.h"

namespace folio::test {
namespace {

void share(CaseOptions& o, double share) {
  o.sequences = {{1, 600}, {1, 630}, {2, 590}};
  o.shared = share;
  o.alibi = true;
}

constexpr MutantScenario scenarios[] = {
    {"Poison.any_ragged_batch_is_right_on_every_kernel", [](CaseOptions& o) { share(o, 0.0); }},
    {"CascadeBits.shared_prefixes_are_right_on_every_kernel",
     [](CaseOptions& o) { share(o, 1.0); }},
    {"Selection.lists_of_each_head_are_right_on_every_kernel",
     [](CaseOptions& o) {
       o.selected = 70;
       o.selected_per_head = true;
       o.q_heads *= 2;
       o.kv_heads = 2;
     }},
};

struct Expectation {
  Mutant mutant;
  std::string_view name;
  std::string_view caught;  // a letter for each scenario
};

constexpr Expectation expectations[] = {
    {Mutant::none, "none", "---"},
    {Mutant::terms_of_first_member, "terms_of_first_member", "-x-"},
    {Mutant::states_to_next_query, "states_to_next_query", "-x-"},
    {Mutant::keys_in_front_counted_again, "keys_in_front_counted_again", "-x-"},
    {Mutant::selection_of_first_head, "selection_of_first_head", "--x"},
};

class SharedMutants : public ::testing::TestWithParam<size_t> {};

TEST_P(SharedMutants, each_is_caught_where_sequences_share_and_passes_otherwise) {
  const MutantEngine engine = engines_of_mutants[GetParam()].make();
  if (!machine_has(engine.kernel.needs)) GTEST_SKIP() << "this machine lacks the instructions";
  const MutantCases cases(engine.kernel, scenarios, engines_of_mutants[GetParam()].adapt);
  for (const Expectation& expected : expectations)
    EXPECT_EQ(cases.caught_by(engine, expected.mutant), expected.caught)
        << expected.name << " in " << engine.kernel.name;
}

INSTANTIATE_TEST_SUITE_P(OfEachEngine, SharedMutants,
                         ::testing::Range(size_t{0}, std::size(engines_of_mutants)),
                         [](const auto& instance) {
                           return std::string(
                               engines_of_mutants[instance.param].make().kernel.name);
                         });

}  // namespace
}  // namespace folio::test
