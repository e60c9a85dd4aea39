// SPDX-License-Identifier: Apache-2.0
/// tests/attention/plan_fingerprint_test.cpp: equal for what plan and attention read alike,
/// different for every single thing that they read.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "folio/attention/plan_fingerprint.h"
#include "folio/core/buffer.h"
#include "support/guarded_memory.h"

namespace folio::test {
namespace {

/// Two sequences, 2 and 3 new tokens, contexts of 40 and 100 keys in pages of 16.
struct Step {
  std::vector<int32_t> offsets = {0, 2, 5}, contexts = {40, 100};
  std::vector<int32_t> query_positions = {38, 97}, key_positions = {0, 0};
  std::vector<uint32_t> entries = std::vector<uint32_t>(16);
  std::vector<int64_t> row_starts = {0, 8};
  std::vector<int32_t> begins = {0, 0, 20, 21, 22}, ends = {39, 40, 97, 98, 70};
  std::vector<uint64_t> tree = {1, 3, 1, 3, 7};
  std::vector<int32_t> alibi_positions = std::vector<int32_t>(2 * 100);
  std::vector<int32_t> selected = std::vector<int32_t>(5 * 8, 1);
  AttentionProblem problem;
  AttentionLimits limits{.batch = 4, .tokens = 8, .context = 128, .parallelism = 2};
  Batch batch;

  Step() {
    constexpr int64_t row = 32 * 4;
    problem.key = {nullptr, DType::f32, 1, 32, 16, 0, 16 * row, row, row, {}};
    problem.value = problem.key;
    problem.q_heads = 2;
    problem.q_dtype = problem.out_dtype = DType::f32;
    for (size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<uint32_t>(3 * i);
    for (size_t i = 0; i < alibi_positions.size(); ++i)
      alibi_positions[i] = static_cast<int32_t>(i);
    batch.size = 2;
    batch.tree_words = 1;
    batch.alibi_positions_stride = 100;
    batch.selected_stride = 8;
  }
  Step(const Step&) = delete;

  Step& with_intervals() { return problem.intervals = true, *this; }
  Step& with_tree() { return problem.tree = true, *this; }
  Step& with_alibi() { return problem.alibi = problem.alibi_positions = true, *this; }

  Batch filled() {
    batch.query_offsets = offsets.data();
    batch.context_lengths = contexts.data();
    batch.table = {entries.data(), 8, row_starts.empty() ? nullptr : row_starts.data()};
    batch.query_positions = query_positions.empty() ? nullptr : query_positions.data();
    batch.key_positions = key_positions.empty() ? nullptr : key_positions.data();
    if (problem.intervals) batch.visible_begin = begins.data(), batch.visible_end = ends.data();
    if (problem.tree) batch.tree = tree.data();
    if (problem.alibi_positions) batch.alibi_positions = alibi_positions.data();
    if (problem.selection) batch.selected = selected.data();
    return batch;
  }
  [[nodiscard]] Attention attention() const {
    return Attention::create(problem, limits, {}, {}).value();
  }
  PlanFingerprint fingerprint(BorrowedArrays arrays = BorrowedArrays::by_content) {
    return plan_fingerprint(attention(), filled(), arrays).value();
  }
};

using Change = std::function<void(Step&)>;

struct Named {
  const char* name;
  Change change;
};

void expect_each(const Change& options, const std::vector<Named>& changes, bool is_different) {
  for (const auto& [name, change] : changes) {
    Step step, changed;
    options(step);
    options(changed);
    ASSERT_EQ(step.fingerprint(), changed.fingerprint()) << "copies elsewhere";
    change(changed);
    EXPECT_EQ(step.fingerprint() != changed.fingerprint(), is_different) << name;
  }
}

void add_all_terms(Step& step) { step.with_intervals().with_tree().with_alibi(); }

TEST(PlanFingerprint, every_array_that_is_read_counts) {
  expect_each(add_all_terms,
              {{"size", [](Step& s) { s.batch.size = 1; }},
               {"offsets", [](Step& s) { s.offsets[1] = 3; }},
               {"tokens", [](Step& s) { s.offsets[2] = 4; }},
               {"contexts", [](Step& s) { s.contexts[0] = 41; }},
               {"query_positions", [](Step& s) { s.query_positions[1] = 98; }},
               {"query_positions are none", [](Step& s) { s.query_positions.clear(); }},
               {"key_positions", [](Step& s) { s.key_positions[0] = 1; }},
               {"key_positions are none", [](Step& s) { s.key_positions.clear(); }},
               {"an interval's begin", [](Step& s) { s.begins[4] = 23; }},
               {"an interval's end", [](Step& s) { s.ends[0] = 38; }},
               {"a word of the tree", [](Step& s) { s.tree[4] = 5; }},
               {"a position of ALiBi", [](Step& s) { s.alibi_positions[199] = 7; }},
               {"the first position of ALiBi", [](Step& s) { s.alibi_positions[0] = 7; }},
               {"the first entry", [](Step& s) { s.entries[0] = 99; }},
               {"the last entry that is seen", [](Step& s) { s.entries[14] = 99; }},
               {"the first entry that is seen", [](Step& s) { s.entries[9] = 99; }},
               {"row_starts", [](Step& s) { s.row_starts[1] = 7; }}},
              true);
}

TEST(PlanFingerprint, what_nobody_reads_does_not_count) {
  expect_each(
      add_all_terms,
      {{"an entry in front of what is seen", [](Step& s) { s.entries[8] = 99; }},
       {"an entry behind the context", [](Step& s) { s.entries[15] = 99; }},
       {"an entry behind the other row", [](Step& s) { s.entries[3] = 99; }},
       {"a position of ALiBi behind the context", [](Step& s) { s.alibi_positions[40] = 99; }},
       {"selected, which the problem has not", [](Step& s) { s.batch.selected_stride = 7; }},
       {"tensors of the problem",
        [](Step& s) { s.problem.key.data = &s, s.problem.key.num_pages = 7; }}},
      false);
}

TEST(PlanFingerprint, problem_limits_and_kernel_count) {
  expect_each(
      [](Step&) {},
      {{"q_heads", [](Step& s) { s.problem.q_heads = 4; }},
       {"scale", [](Step& s) { s.problem.scale = 0.5f; }},
       {"softcap", [](Step& s) { s.problem.softcap = 5.0f; }},
       {"mask", [](Step& s) { s.problem.mask = Mask::sliding_window(9); }},
       {"sinks", [](Step& s) { s.problem.sink_logits = true; }},
       {"alibi", [](Step& s) { s.problem.alibi = true; }},
       {"bias", [](Step& s) { s.problem.bias = true; }},
       {"bias per sequence", [](Step& s) { s.problem.bias = s.problem.bias_per_sequence = true; }},
       {"q_dtype", [](Step& s) { s.problem.q_dtype = DType::bf16; }},
       {"out_dtype", [](Step& s) { s.problem.out_dtype = DType::bf16; }},
       {"key.dtype", [](Step& s) { s.problem.key.dtype = DType::bf16; }},
       {"key.slot_stride", [](Step& s) { s.problem.key.slot_stride_bytes += 64; }},
       {"value.page_stride", [](Step& s) { s.problem.value.page_stride_bytes += 64; }},
       {"reproducible", [](Step& s) { s.problem.reproducible = Reproducible::per_query; }},
       {"bf16_operands", [](Step& s) { s.problem.bf16_operands = true; }},
       {"int8_operands", [](Step& s) { s.problem.int8_operands = true; }},
       {"q_is_turned", [](Step& s) { s.problem.q_is_turned = true; }},
       {"limits.batch", [](Step& s) { s.limits.batch = 5; }},
       {"limits.tokens", [](Step& s) { s.limits.tokens = 9; }},
       {"limits.context", [](Step& s) { s.limits.context = 129; }},
       {"limits.parallelism", [](Step& s) { s.limits.parallelism = 3; }}},
      true);
  Step step;
  std::vector<PlanFingerprint> seen;
  for (int32_t k = 0; k < Attention::kernel_count(); ++k) {
    const auto attention =
        Attention::create(step.problem, step.limits, {}, Attention::kernel_name(k).name);
    if (attention) seen.push_back(*plan_fingerprint(*attention, step.filled()));
  }
  ASSERT_GE(seen.size(), 1u);
  for (size_t i = 0; i < seen.size(); ++i)
    for (size_t j = 0; j < i; ++j) EXPECT_NE(seen[i], seen[j]);
}

/// Queries that look further and further back, and both ways.
TEST(PlanFingerprint, pages_in_front_of_those_of_the_query_before_count) {
  const Change descends = [](Step& s) {
    s.with_intervals();
    s.begins = {20, 0, 80, 64, 20};
    s.ends = {30, 40, 90, 98, 40};
  };
  std::vector<Named> changes;
  static constexpr size_t seen[] = {0, 1, 2, 9, 10, 12, 13, 14};
  for (const size_t& i : seen)
    changes.push_back({"a page that is seen", [&i](Step& s) { s.entries[i] = 99; }});
  expect_each(descends, changes, true);
  expect_each(descends,
              {{"a page between", [](Step& s) { s.entries[11] = 99; }},
               {"the first", [](Step& s) { s.entries[8] = 99; }}},
              false);
}

TEST(PlanFingerprint, pages_that_a_mask_shows_count) {
  const Change window = [](Step& s) {
    s.problem.mask = Mask::sliding_window(20, 2);
    s.offsets = {0, 1, 2};
    s.query_positions.clear();
  };
  expect_each(window,
              {{"the sinks' page", [](Step& s) { s.entries[8] = 99; }},
               {"the window's first page", [](Step& s) { s.entries[13] = 99; }},
               {"the window's last page", [](Step& s) { s.entries[14] = 99; }}},
              true);
  expect_each(window, {{"a page between", [](Step& s) { s.entries[10] = 99; }}}, false);
}

TEST(PlanFingerprint, places_count_where_the_plan_is_to_serve_as_it_is) {
  Step step;
  add_all_terms(step);
  const PlanFingerprint before = step.fingerprint(BorrowedArrays::in_place);
  EXPECT_EQ(step.fingerprint(BorrowedArrays::in_place), before);
  const PlanFingerprint content = step.fingerprint();
  const auto moves = [&](auto& array) {
    auto copy = array;
    copy.swap(array);
    EXPECT_NE(step.fingerprint(BorrowedArrays::in_place), before);
    EXPECT_EQ(step.fingerprint(), content);
    copy.swap(array);
    EXPECT_EQ(step.fingerprint(BorrowedArrays::in_place), before);
  };
  moves(step.entries);
  moves(step.row_starts);
  moves(step.begins);
  moves(step.ends);
  moves(step.tree);
  moves(step.alibi_positions);
  // plan copies these
  step.offsets = std::vector<int32_t>(step.offsets);
  std::vector<int32_t> contexts = step.contexts, positions = step.query_positions;
  contexts.swap(step.contexts);
  positions.swap(step.query_positions);
  EXPECT_EQ(step.fingerprint(BorrowedArrays::in_place), before);
}

TEST(PlanFingerprint, lists_count_by_their_place_and_stride_alone) {
  Step step;
  step.problem.selection = true;
  const PlanFingerprint before = step.fingerprint();
  step.selected[3] = 9;
  step.entries[9] = 99;
  EXPECT_EQ(step.fingerprint(), before);
  step.batch.selected_stride = 7;
  EXPECT_NE(step.fingerprint(), before);
  step.batch.selected_stride = 8;
  std::vector<int32_t> other = step.selected;
  other.swap(step.selected);
  EXPECT_NE(step.fingerprint(), before);
}

/// A table may end with the last entry that is used, and begin with the first.
TEST(PlanFingerprint, entries_that_nobody_sees_are_not_read) {
  const GuardedMemory table(4 * 2, 4);
  table.fill(0);
  Step step;
  step.with_intervals();
  step.batch.size = 1;
  step.begins = {0, 0};
  step.ends = {20, 32};
  step.row_starts.clear();
  Batch batch = step.filled();
  batch.table.entries = table.as<uint32_t>();
  EXPECT_TRUE(plan_fingerprint(step.attention(), batch).has_value());
}

TEST(PlanFingerprint, batches_of_nothing_have_one) {
  Step step;
  const Attention attention = step.attention();
  const PlanFingerprint nothing = plan_fingerprint(attention, Batch()).value();
  EXPECT_EQ(plan_fingerprint(attention, Batch()).value(), nothing);
  EXPECT_NE(step.fingerprint(), nothing);
}

TEST(PlanFingerprint, what_plan_refuses_is_refused_in_its_words) {
  const std::vector<Named> mistakes = {
      {"batch.size", [](Step& s) { s.batch.size = -1; }},
      {"batch.size", [](Step& s) { s.batch.size = INT32_MAX; }},
      {"batch.query_offsets", [](Step& s) { s.offsets[1] = 6; }},
      {"batch.query_offsets", [](Step& s) { s.offsets[2] = INT32_MAX; }},
      {"batch.context_lengths", [](Step& s) { s.contexts[1] = INT32_MIN; }},
      {"batch.context_lengths", [](Step& s) { s.contexts[1] = 129; }},
      {"batch.table", [](Step& s) { s.row_starts[1] = INT64_MAX; }},
      {"batch.table", [](Step& s) { s.row_starts[1] = -1; }},
      {"batch.tree_words", [](Step& s) { s.batch.tree_words = INT32_MAX; }},
      {"batch.tree_words", [](Step& s) { s.batch.tree_words = -1; }},
      {"batch.alibi_positions_stride", [](Step& s) { s.batch.alibi_positions_stride = 99; }},
      {"batch.alibi_positions_stride",
       [](Step& s) { s.batch.alibi_positions_stride = INT64_MIN; }}};
  for (const auto& [words, mistake] : mistakes) {
    Step step;
    add_all_terms(step);
    const Attention attention = step.attention();
    const Buffer memory = Buffer::allocate(attention.plan_bytes()).value();
    mistake(step);
    const Batch batch = step.filled();
    const Status status = plan_fingerprint(attention, batch).error();
    EXPECT_EQ(status.code(), Errc::invalid_argument) << words;
    EXPECT_NE(status.message().find(words), std::string_view::npos) << status.message();
    EXPECT_EQ(status.message(), plan(attention, batch, memory.span()).error().message());
  }
  Step step;
  EXPECT_EQ(plan_fingerprint(Attention(), step.filled()).error().code(), Errc::invalid_argument);
  Batch batch = step.filled();
  batch.query_offsets = nullptr;
  EXPECT_EQ(plan_fingerprint(step.attention(), batch).error().code(), Errc::invalid_argument);
  const Status status =
      plan_fingerprint(step.attention(), step.filled(), static_cast<BorrowedArrays>(7)).error();
  EXPECT_NE(status.message().find("arrays is 7"), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace folio::test
