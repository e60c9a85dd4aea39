// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_test.cpp: kernels that are wrong on purpose are caught, each by the
/// tests that are about its fault only.
///
/// Every engine of the CPU is instantiated once more (mutants.h), with one fault of
/// src/cpu/skeleton/mutant.h at a time, and runs in scenarios that have the options of the test
/// they are named after. docs/design/0005-mutants.md holds the table that is checked here.
#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "attention/mutant_engines.h"

namespace folio::test {
namespace {

enum ScenarioName {
  plain,
  no_keys,
  whole_tiles,
  strides,
  window,
  holes,
  scales,
  sink_over_spans,
  unassigned,
  softcap,
  long_context,
  tree,
  rows,
  heads,
  query_sinks,
  sequence_bias,
  key_positions,
  selected,
  blocks,
  count
};

constexpr MutantScenario scenarios[count] = {
    {"Poison.any_ragged_batch_is_right_on_every_kernel", [](CaseOptions&) {}},
    {"Algebra.a_query_without_keys_is_zero_and_minus_infinity_or_its_sink_logit",
     [](CaseOptions& o) {
       o.sequences = {{3, 0}, {2, 0}};
       o.query_positions = o.sink_logits = true;
     }},
    {"Geometry.every_page_size",
     [](CaseOptions& o) {
       o.sequences = {{1, 64}, {1, 192}, {1, 128}};
       o.shared = 0.0;  // states of a shared task are weighed, too
     }},
    {"Geometry.every_page_size", [](CaseOptions& o) { o.gap_bytes = 20; }},
    {"Mask.every_mask_is_right_on_every_kernel",
     [](CaseOptions& o) { o.mask = Mask::sliding_window(20, 4); }},
    {"DeadSlots.holes_between_explicit_intervals_do_not_matter",
     [](CaseOptions& o) { o.intervals = true; }},
    {"Options.every_value_alone_is_accepted_and_right",
     [](CaseOptions& o) {
       o.key_dtype = o.value_dtype = DType::i8;
       o.key_scales = o.value_scales = {ScaleKind::granule, DType::f32, 8, false};
     }},
    {"Algebra.a_sink_logit_enters_once_however_many_spans_there_are",
     [](CaseOptions& o) {
       o.sequences = {{1, 2100}};
       o.q_heads = 16;  // some sink logits are large
       o.sink_logits = true;
       o.q_amplitude = 0.1f;  // no key outweighs it
     }},
    {"Table.keys_of_unassigned_pages_are_invisible",
     [](CaseOptions& o) {
       o.unassigned = 0.4;
       o.shared = 0.0;
     }},
    {"Options.every_value_alone_is_accepted_and_right", [](CaseOptions& o) { o.softcap = 2.5f; }},
    {"Geometry.long_contexts_cross_every_tile_and_span",
     [](CaseOptions& o) {
       o.sequences = {{1, 2100}};
     }},
    {"Tree.random_trees_are_right_on_every_kernel",
     [](CaseOptions& o) { o.tree = TreeForm::random; }},
    {"Poison.any_ragged_batch_is_right_on_every_kernel",
     [](CaseOptions& o) {
       o.sequences = {{17, 130}, {70, 200}};
     }},
    {"Options.every_pair_of_values_is_accepted_and_right",
     [](CaseOptions& o) {
       o.kv_heads = 4;
       o.q_heads *= 4;
     }},
    {"TermForms.sink_logits_of_each_query_are_right_in_every_type",
     [](CaseOptions& o) {
       o.sink_logits = o.sink_per_query = true;
       o.sink_dtype = DType::bf16;
       o.q_amplitude = 0.1f;
     }},
    {"TermForms.a_bias_of_each_sequence_is_right_in_every_type",
     [](CaseOptions& o) {
       o.bias = BiasForm::per_head;
       o.bias_per_sequence = true;
       o.bias_dtype = DType::f16;
     }},
    {"TermForms.positions_of_single_keys_are_right_on_every_kernel",
     [](CaseOptions& o) { o.alibi = o.alibi_positions = true; }},
    {"Selection.lists_of_keys_are_right_on_every_kernel", [](CaseOptions& o) { o.selected = 70; }},
    {"OfBlocks.keys_and_values_are_read_in_place",
     [](CaseOptions& o) { o.key_dtype = o.value_dtype = DType::q4_0; }},
};

struct Expectation {
  Mutant mutant;
  std::string_view name;
  /// of portable, avx512_f32, avx512_bf16, avx512_int8, amx_grouped, amx_latent, packed; empty:
  /// nothing is demanded
  std::string_view caught[std::size(engines_of_mutants)];
};

/// A letter for each scenario in the order of ScenarioName. Rows of AMX and avx512_int8 have no
/// scales per granule, nor have those of packed here; avx512_int8 and packed take no blocks. What
/// lies in rows that nobody sees is a number, times 0, in avx512_int8; packed reads zeros.
/// amx_grouped converts blocks, of a row of zeros where nobody sees one.
constexpr Expectation expectations[] = {
    {Mutant::none,
     "none",
     {"-------------------", "-------------------", "-------------------", "------ ----------- ",
      "------ ------------", "------ ------------", "------ ----------- "}},
    {Mutant::dense_page_stride,
     "dense_page_stride",
     {"---x---------------", "---x---------------", "---x---------------", "---x-- ----------- ",
      "---x-- ------------", "---x-- ------------", "---x-- ----------- "}},
    {Mutant::window_off_by_one,
     "window_off_by_one",
     {"----xx-------------", "----xx-------------", "----xx-------------", "----xx ----------- ",
      "----xx ------------", "----xx ------------", "----xx ----------- "}},
    {Mutant::value_tail_not_zeroed,
     "value_tail_not_zeroed",
     {"----xx--x--------x-", "----xx--x--------x-", "----xx--x--------x-", "------ ----------- ",
      "x--xxx xxxxxxxxxxx-", "----xx -x---x----x-", "------ ----------- "}},
    {Mutant::scale_index_by_ceil,
     "scale_index_by_ceil",
     {"------x------------", "------x------------", "------x------------", "------ ----------- ",
      "------ ------------", "------ ------------", "------ ----------- "}},
    {Mutant::sink_counted_per_split,
     "sink_counted_per_split",
     {"-------x-----------", "-------x-----------", "-------x-----------", "------ x---------- ",
      "------ x-----------", "------ x-----------", "------ x---------- "}},
    {Mutant::unassigned_entry_counted,
     "unassigned_entry_counted",
     {"--------x--------x-", "--------x--------x-", "--------x--------x-", "------ -x--------x ",
      "------ -x--------x-", "------ -x--------x-", "------ -x--------x "}},
    {Mutant::tree_ignored,
     "tree_ignored",
     {"-----------x-------", "-----------x-------", "-----------x-------", "------ ----x------ ",
      "------ ----x-------", "------ ----x-------", "------ ----x------ "}},
    {Mutant::softcap_ignored,
     "softcap_ignored",
     {"---------x---------", "---------x---------", "---------x---------", "------ --x-------- ",
      "------ --x---------", "------ --x---------", "------ --x-------- "}},
    // a rounding to bf16 is what the bounds of bf16 kernels allow
    {Mutant::partials_in_bf16,
     "partials_in_bf16",
     {"x-xxxxxxxxxxxxxxxxx", "x-xxxxxxxxxxxxxxxxx", "", "", "", "", ""}},
    // but for portable, whole tiles have no edge; to bf16 one key of 2,100 makes no difference, nor
    // does the order of keys that weigh about the same
    {Mutant::tile_edge_off_by_one,
     "tile_edge_off_by_one",
     {"x-xxxxxxxxxxxxxxxxx", "x--xxxxxxxxxxxxxxxx", "x--xxxxxxx-xxxxxxxx", "x--xxx -xx-xxxxxxx ",
      "x--xxx xxx-xxxxxxxx", "x--xxx xxxxxxxxxxxx", "x-xxxx xxx-xxxxxxx "}},
    // a block of avx512_int8 is 4 tokens here: 3 keys of a tile are within its bound
    {Mutant::last_row_decides,
     "last_row_decides",
     {"-------------------", "------------x------", "------------x------", "------ ----------- ",
      "------ -----x------", "------ -----x------", "------ ----------- "}},
    {Mutant::heads_interleaved,
     "heads_interleaved",
     {"-------------x-----", "-------------x-----", "-------------x-----", "------ ------x---- ",
      "------ ------x-----", "------ ------x-----", "------ ------x---- "}},
    {Mutant::sink_of_first_query,
     "sink_of_first_query",
     {"--------------x----", "--------------x----", "--------------x----", "------ -------x--- ",
      "------ -------x----", "------ -------x----", "------ -------x--- "}},
    {Mutant::bias_of_first_sequence,
     "bias_of_first_sequence",
     {"---------------x---", "---------------x---", "---------------x---", "------ --------x-- ",
      "------ --------x---", "------ --------x---", "------ --------x-- "}},
    {Mutant::key_positions_ignored,
     "key_positions_ignored",
     {"----------------x--", "----------------x--", "----------------x--", "------ ---------x- ",
      "------ ---------x--", "------ ---------x--", "------ ---------x- "}},
    {Mutant::selection_of_first_query,
     "selection_of_first_query",
     {"-----------------x-", "-----------------x-", "-----------------x-", "------ ----------x ",
      "------ ----------x-", "------ ----------x-", "------ ----------x "}},
    {Mutant::value_order_wrong,
     "value_order_wrong",
     {"x-xxxxxxxxxxxxxxxxx", "x-xxxxxxxxxxxxxxxxx", "x-xxxxxxxxxxxxxxxxx", "x-xxxx xxxxxxxxxxx ",
      "x-xxxx -xxxxxxxxxxx", "x-xxxx xxxxxxxxxxxx", "x-xxxx xxxxxxxxxxx "}},
    {Mutant::block_halves_swapped,
     "block_halves_swapped",
     {"------------------x", "------------------x", "------------------x", "------ ----------- ",
      "------ -----------x", "------ -----------x", "------ ----------- "}},
    // small logits of amx_latent, and of packed beside large sink logits: the maxima of their spans
    // lie near enough
    {Mutant::spans_not_weighed,
     "spans_not_weighed",
     {"-------x--x--------", "-------x--x--------", "-------x--x--------", "------ x--x------- ",
      "------ x--x--------", "------ ---x--------", "------ ---x------- "}},
};

class Mutants : public ::testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    engine_ = engines_of_mutants[GetParam()].make();
    if (!machine_has(engine_.kernel.needs)) GTEST_SKIP() << "this machine lacks the instructions";
  }
  void TearDown() override { *engine_.mutant = Mutant::none; }
  MutantEngine engine_;
};

TEST_P(Mutants, each_is_caught_by_the_tests_about_its_fault_and_passes_the_others) {
  const MutantCases cases(engine_.kernel, scenarios, engines_of_mutants[GetParam()].adapt);
  for (const Expectation& expected : expectations) {
    const std::string_view caught = expected.caught[GetParam()];
    if (caught.empty()) continue;
    EXPECT_EQ(cases.caught_by(engine_, expected.mutant), caught)
        << expected.name << " in " << engine_.kernel.name;
  }
}

/// Tables end at inaccessible memory.
TEST_P(Mutants, reading_the_table_past_its_end_is_fatal) {
  AttentionCase c(MutantCases::options_of(scenarios[plain], engines_of_mutants[GetParam()].adapt));
  ASSERT_TRUE(run_kernel(c, engine_.kernel).is_ok());
  *engine_.mutant = Mutant::table_read_past_end;
  EXPECT_DEATH(static_cast<void>(run_kernel(c, engine_.kernel)), "");
}

INSTANTIATE_TEST_SUITE_P(OfEachEngine, Mutants,
                         ::testing::Range(size_t{0}, std::size(engines_of_mutants)),
                         [](const auto& instance) {
                           return std::string(
                               engines_of_mutants[instance.param].make().kernel.name);
                         });

}  // namespace
}  // namespace folio::test
