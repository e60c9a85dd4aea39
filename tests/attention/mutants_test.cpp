// SPDX-License-Identifier: Apache-2.0
/// tests/attention/mutants_test.cpp: kernels that are wrong on purpose are caught, each by the
/// tests that are about its fault only.
///
/// The portable kernel is instantiated again with each Mutant (src/cpu/skeleton/mutant.h), which
/// changes one expression. A scenario has the options of the test it is named after.
/// docs/design/0005-mutants.md holds the table that is checked here.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

/// As the target of the shipped x86-64 kernel.
template <Mutant M>
struct Target {
  static constexpr int width = 4;
  static constexpr int score_vectors = 2;
  static constexpr Mutant mutant = M;
  template <class F>
  static F fma(F a, F b, F c) {
    return a * b + c;
  }
  template <class U>
  static U widen16(const void* from) {
    typedef uint16_t H __attribute__((vector_size(sizeof(U) / 2)));
    H h;
    __builtin_memcpy(&h, from, sizeof h);
    return __builtin_convertvector(h, U);
  }
  template <class U>
  static U widen8(const void* from) {
    typedef uint8_t B __attribute__((vector_size(sizeof(U) / 4)));
    B b;
    __builtin_memcpy(&b, from, sizeof b);
    return __builtin_convertvector(b, U);
  }
};

template <Mutant M>
void run(const KernelCall& call, const Task& task, void* scratch, std::byte* partials) noexcept {
  skeleton::TaskRunner<portable::PortableEngine<Target<M>>>::run(call, task, scratch, partials);
}

template <Mutant M>
void finish(const KernelCall& call, const Task& task, void* scratch,
            const std::byte* partials) noexcept {
  skeleton::TaskRunner<portable::PortableEngine<Target<M>>>::finish(call, task, scratch, partials);
}

template <Mutant M>
constexpr Kernel kernel_of(std::string_view name) {
  return {.name = name,
          .needs = needs_cpu,
          .promises = Reproducible::per_query,
          .supports = portable::supports,
          .refuse = portable::refuse,
          .geometry = portable::geometry,
          .run = run<M>,
          .finish = finish<M>};
}

/// A run that is right for the shipped kernel, with the test that makes such runs.
struct Scenario {
  std::string_view test;
  void (*apply)(CaseOptions& o);
};

enum ScenarioName {
  plain,
  no_keys,
  strides,
  window,
  holes,
  scales,
  sink_over_spans,
  unassigned,
  softcap,
  long_context,
  tree,
  count
};

constexpr Scenario scenarios[count] = {
    {"Poison.any_ragged_batch_is_right_on_every_kernel", [](CaseOptions&) {}},
    {"Algebra.a_query_without_keys_is_zero_and_minus_infinity_or_its_sink_logit",
     [](CaseOptions& o) {
       o.sequences = {{3, 0}, {2, 0}};
       o.query_positions = o.sink_logits = true;
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
       o.sequences = {{1, 5000}};
       o.sink_logits = true;
     }},
    {"Table.keys_of_unassigned_pages_are_invisible",
     [](CaseOptions& o) {
       o.unassigned = 0.4;
       o.shared = 0.0;
     }},
    {"Options.every_value_alone_is_accepted_and_right", [](CaseOptions& o) { o.softcap = 2.5f; }},
    {"Geometry.long_contexts_cross_every_tile_and_span",
     [](CaseOptions& o) {
       o.sequences = {{1, 5000}};
     }},
    {"Tree.random_trees_are_right_on_every_kernel",
     [](CaseOptions& o) { o.tree = TreeForm::random; }},
};

CaseOptions options_of(const Scenario& scenario) {
  CaseOptions options;
  options.sequences = {{1, 77}, {5, 5}, {0, 9}, {1, 3}, {17, 130}, {1, 30}, {2, 300}};
  options.head_size = 32;
  options.page_size = 8;
  options.parallelism = 4;
  scenario.apply(options);
  return options;
}

/// Whether the pool's last page is in use: a mutant that reads one scale too far would fault there
/// instead of being wrong.
bool uses_last_page(const AttentionCase& c) {
  for (int32_t b = 0; b < c.batch().size; ++b) {
    for (int64_t p = 0; p * c.options().page_size < c.batch().context_lengths[b]; ++p) {
      if (c.table_entries()[c.batch().table.row_start(b) + p] == c.args().key.num_pages - 1)
        return true;
    }
  }
  return false;
}

CaseOptions without_last_page(CaseOptions options) {
  while (uses_last_page(AttentionCase(options))) ++options.seed;
  return options;
}

struct Expectation {
  Kernel kernel;
  std::vector<ScenarioName> caught_by;
};

std::vector<Expectation> expectations() {
  return {
      {kernel_of<Mutant::none>("none"), {}},
      {kernel_of<Mutant::dense_page_stride>("dense_page_stride"), {strides}},
      {kernel_of<Mutant::window_off_by_one>("window_off_by_one"), {window, holes}},
      {kernel_of<Mutant::value_tail_not_zeroed>("value_tail_not_zeroed"),
       {window, holes, unassigned}},
      {kernel_of<Mutant::scale_index_by_ceil>("scale_index_by_ceil"), {scales}},
      {kernel_of<Mutant::sink_counted_per_split>("sink_counted_per_split"), {sink_over_spans}},
      {kernel_of<Mutant::unassigned_entry_counted>("unassigned_entry_counted"), {unassigned}},
      {kernel_of<Mutant::tree_ignored>("tree_ignored"), {tree}},
      {kernel_of<Mutant::softcap_ignored>("softcap_ignored"), {softcap}},
      {kernel_of<Mutant::partials_in_bf16>("partials_in_bf16"),
       {plain, strides, window, holes, scales, sink_over_spans, unassigned, softcap, long_context,
        tree}},
  };
}

TEST(Mutants, each_is_caught_by_the_tests_about_its_fault_and_passes_the_others) {
  for (int s = 0; s < count; ++s) {
    AttentionCase c(without_last_page(options_of(scenarios[s])));
    for (const Expectation& expected : expectations()) {
      const Status status = run_kernel(c, expected.kernel);
      ASSERT_TRUE(status.is_ok()) << status.message();
      const bool is_caught = !matches_reference(c);
      const bool should_be = std::find(expected.caught_by.begin(), expected.caught_by.end(),
                                       static_cast<ScenarioName>(s)) != expected.caught_by.end();
      EXPECT_EQ(is_caught, should_be)
          << expected.kernel.name << " in scenario " << s << ", " << scenarios[s].test;
    }
  }
}

/// The bounds of a kernel that rounds weights and scaled operands to bf16 are wider, and still see
/// every fault but those that are a rounding to bf16 themselves.
TEST(Mutants, are_caught_within_the_bounds_of_bf16_kernels_too) {
  for (int s = 0; s < count; ++s) {
    AttentionCase c(without_last_page(options_of(scenarios[s])));
    for (Expectation expected : expectations()) {
      if (expected.kernel.name == "partials_in_bf16") continue;
      expected.kernel.weights = expected.kernel.operands = DType::bf16;
      ASSERT_TRUE(run_kernel(c, expected.kernel).is_ok());
      const bool should_be = std::find(expected.caught_by.begin(), expected.caught_by.end(),
                                       static_cast<ScenarioName>(s)) != expected.caught_by.end();
      EXPECT_EQ(!matches_reference(c), should_be)
          << expected.kernel.name << " in scenario " << s << ", " << scenarios[s].test;
    }
  }
}

}  // namespace
}  // namespace folio::test
