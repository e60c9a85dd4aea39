// SPDX-License-Identifier: Apache-2.0
/// tests/attention/selection_test.cpp: attention over lists of keys, for each query its own: sparse
/// attention whose keys an indexer chooses.
///
/// In these cases the slots that no list names are NaN and the entries of the page table garbage.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "support/attention_case.h"
#include "support/kernel_cases.h"
#include "support/latent_options.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

CaseOptions listed(int32_t selected, uint64_t seed = 21) {
  CaseOptions options;
  options.sequences = {{1, 77}, {5, 40}, {0, 9}, {1, 1}, {19, 300}, {2, 0}};
  options.selected = selected;
  options.seed = seed;
  return options;
}

CaseOptions latent(int32_t q_heads, int32_t selected) {
  CaseOptions options = deepseek(q_heads);
  options.sequences = {{1, 150}, {3, 90}};
  options.selected = selected;
  options.seed = 21;
  return options;
}

TEST(Selection, lists_of_keys_are_right_on_every_kernel) {
  for (const int32_t selected : {1, 16, 64, 70, 200}) expect_every_kernel_right(listed(selected));
}

TEST(Selection, lists_of_each_head_are_right_on_every_kernel) {
  for (const int32_t selected : {1, 64, 70, 200}) {
    CaseOptions options = listed(selected);
    options.selected_per_head = true;
    options.kv_heads = 3;
    options.q_heads = 6;
    expect_every_kernel_right(options);
  }
}

TEST(Selection, pages_orders_groups_and_types_are_right) {
  for (const int32_t page_size : {1, 3, 64, unbounded_page_size}) {
    CaseOptions options = listed(90);
    options.page_size = page_size;
    options.q_heads = 16;
    options.key_order = options.value_order = StorageOrder::head_major;
    options.gap_bytes = 64;
    expect_every_kernel_right(options);
    options.q_heads = options.kv_heads = 3;
    options.key_dtype = options.value_dtype = DType::i8;
    options.key_scales.kind = options.value_scales.kind = ScaleKind::token_and_head;
    expect_every_kernel_right(options);
  }
}

TEST(Selection, latent_heads_are_right) {
  for (const int32_t q_heads : {16, 40, 128}) expect_every_kernel_right(latent(q_heads, 130));
}

TEST(Selection, groups_larger_than_a_task_are_right) {
  CaseOptions options = listed(70);
  options.sequences = {{3, 100}};
  options.kv_heads = 1;
  options.q_heads = 330;
  options.head_size = 32;
  expect_every_kernel_right(options);
}

TEST(Selection, softcap_sink_logits_and_a_full_mask_go_with_lists) {
  CaseOptions options = listed(70);
  options.softcap = 3.0f;
  options.mask = Mask::full();
  options.sink_logits = options.sink_per_query = true;
  expect_every_kernel_right(options);
}

TEST(Selection, lists_of_several_spans_are_right_however_they_are_cut) {
  for (const int32_t parallelism : {1, 4}) {
    CaseOptions options = listed(4200);
    options.sequences = {{2, 3000}};
    options.parallelism = parallelism;
    expect_every_kernel_right(options);
  }
}

TEST(Selection, bits_follow_from_the_query_and_its_list_alone) {
  CaseOptions options = listed(2300);
  options.sequences = {{4, 500}, {1, 80}};
  options.reproducible = Reproducible::per_query;
  options.parallelism = 1;
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    ASSERT_TRUE(run_case(c, kernel).is_ok()) << kernel;
    const std::vector<std::byte> bits = c.output_bits();
    // with the keys divided among tasks
    CaseOptions others = c.options();
    others.parallelism = 8;
    AttentionCase again(others);
    ASSERT_TRUE(run_case(again, kernel).is_ok()) << kernel;
    EXPECT_EQ(again.output_bits(), bits) << kernel;
  });
}

/// The keys of the table, listed for each query.
std::vector<int32_t> list_of_table(const AttentionCase& c, int32_t count) {
  const int64_t page_size = c.options().page_size;
  std::vector<int32_t> list;
  for (int64_t row = 0; row < c.tokens(); ++row) {
    const int32_t b = c.sequence_of(row);
    const uint32_t* const entries = c.table_entries() + c.batch().table.row_start(b);
    for (int64_t key = 0; key < count; ++key)
      list.push_back(
          key < c.batch().context_lengths[b]
              ? static_cast<int32_t>(entries[key / page_size] * page_size + key % page_size)
              : -1);
  }
  return list;
}

TEST(Selection, a_list_of_the_keys_of_the_table_gives_the_bits_of_the_table) {
  CaseOptions options;
  options.sequences = {{1, 77}, {5, 40}, {3, 2100}};
  options.mask = Mask::full();
  options.reproducible = Reproducible::per_query;
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    ASSERT_TRUE(run_case(c, kernel).is_ok()) << kernel;
    const std::vector<std::byte> bits = c.output_bits();
    const std::vector<int32_t> list = list_of_table(c, 2100);
    const AttentionProblem problem = c.problem();
    const Batch batch = c.batch();
    c.problem().selection = true;
    c.batch().selected = list.data();
    c.batch().selected_stride = 2100;
    EXPECT_TRUE(run_case(c, kernel).is_ok()) << kernel;
    EXPECT_EQ(c.output_bits(), bits) << kernel;
    c.problem() = problem;
    c.batch() = batch;
  });
}

TEST(Selection, a_list_of_nothing_gives_zero_and_minus_infinity) {
  for_each_kernel_case(listed(70),
                       {Adapt::shapes,
                        [](AttentionCase& c) {
                          auto* const list = const_cast<int32_t*>(c.batch().selected);
                          std::fill(list, list + 70, -1);
                          c.forget_expected();
                        }},
                       [](AttentionCase& c, const std::string& kernel) {
                         EXPECT_TRUE(kernel_is_right(c, kernel));
                         EXPECT_EQ(c.output(0, 0, 0), 0.0);
                         EXPECT_EQ(c.output_lse(0, 0), -std::numeric_limits<float>::infinity());
                       });
}

TEST(Selection, a_key_that_is_listed_twice_counts_twice) {
  for_each_kernel_case(
      listed(2),
      {Adapt::shapes,
       [](AttentionCase& c) {
         auto* const list = const_cast<int32_t*>(c.batch().selected);
         for (int64_t row = 0; row < c.tokens(); ++row) list[2 * row] = list[2 * row + 1];
         c.forget_expected();
       }},
      [](AttentionCase& c, const std::string& kernel) { EXPECT_TRUE(kernel_is_right(c, kernel)); });
}

/// A plan serves all layers: each brings its own lists in the same memory.
TEST(Selection, lists_may_change_after_the_plan) {
  CaseOptions options = listed(70);
  options.shared = 0.0;
  for_each_kernel_case(options, [](AttentionCase& c, const std::string& kernel) {
    const Result<PreparedCase> prepared = prepare_case(c, kernel, c.limits());
    ASSERT_TRUE(prepared.has_value()) << kernel;
    auto* const list = const_cast<int32_t*>(c.batch().selected);
    for (int64_t row = 0; row < c.tokens(); ++row)
      std::reverse(list + 70 * row, list + 70 * (row + 1));
    list[0] = -1;
    c.forget_expected();
    c.poison_output();
    ASSERT_TRUE(attend_prepared(c, *prepared, serial_executor()).is_ok()) << kernel;
    EXPECT_TRUE(matches_reference(c)) << kernel;
    for (int64_t row = 0; row < c.tokens(); ++row)
      std::reverse(list + 70 * row, list + 70 * (row + 1));
    list[0] = -1;
    c.forget_expected();
  });
}

struct Mistake {
  const char* words;
  void (*break_it)(AttentionCase& c);
};

int32_t* entry(AttentionCase& c, int64_t i) { return const_cast<int32_t*>(c.batch().selected) + i; }

TEST(Selection, a_hostile_caller_is_told_the_argument_and_nothing_is_written) {
  const Mistake mistakes[] = {
      {"batch.selected[0][3] is -2, expected -1 (none) or a slot below",
       [](AttentionCase& c) { *entry(c, 3) = -2; }},
      {"batch.selected[1][1] is 2147483647",
       [](AttentionCase& c) { *entry(c, 71) = std::numeric_limits<int32_t>::max(); }},
      {"batch.selected[27][69] is ",
       [](AttentionCase& c) {
         *entry(c, 27 * 70 + 69) =
             static_cast<int32_t>(c.args().key.num_pages * c.args().key.page_size);
       }},
      {"batch.selected is not aligned, expected a multiple of 4 bytes (the size of int32)",
       [](AttentionCase& c) {
         c.batch().selected = reinterpret_cast<const int32_t*>(
             reinterpret_cast<const std::byte*>(c.batch().selected) + 2);
       }},
      {"batch.selected is null", [](AttentionCase& c) { c.batch().selected = nullptr; }},
      {"batch.selected_stride is -1", [](AttentionCase& c) { c.batch().selected_stride = -1; }},
      {"batch.selected_stride is 301, expected 0 to limits.context = 300",
       [](AttentionCase& c) { c.batch().selected_stride = 301; }}};
  for (const Mistake& mistake : mistakes) {
    AttentionCase c(listed(70));
    c.poison_output();
    const std::vector<std::byte> untouched = c.output_bits();
    mistake.break_it(c);
    const Status status = run_case(c, {});
    ASSERT_FALSE(status.is_ok()) << mistake.words;
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_NE(status.message().find(mistake.words), std::string_view::npos)
        << status.message() << "\nhas not: " << mistake.words;
    EXPECT_EQ(c.output_bits(), untouched);
  }
}

TEST(Selection, lists_that_the_problem_does_not_ask_for_are_not_ignored) {
  AttentionCase c{CaseOptions()};
  const int32_t list[64] = {};
  c.batch().selected = list;
  c.batch().selected_stride = 1;
  EXPECT_NE(run_case(c, {}).message().find("batch.selected is given"), std::string_view::npos);
}

}  // namespace
}  // namespace folio::test
