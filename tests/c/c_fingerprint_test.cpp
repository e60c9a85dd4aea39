// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_fingerprint_test.cpp: fingerprints of plans through the C interface: those of C++, and
/// a plan whose fingerprint is equal serves.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "attention/attend_error_rows.h"
#include "c/c_case.h"
#include "folio/attention/plan_fingerprint.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

constexpr folio_plan_fingerprint untouched = {7, 7};

bool operator==(const folio_plan_fingerprint& a, const folio_plan_fingerprint& b) {
  return a.low == b.low && a.high == b.high;
}

folio_plan_fingerprint fingerprint_of(const CCase& c, const folio_batch& batch, int32_t arrays) {
  folio_plan_fingerprint made = untouched;
  folio_message message = {};
  EXPECT_EQ(folio_get_plan_fingerprint(c.attention.get(), &batch, arrays, &made, &message),
            FOLIO_OK)
      << message.text;
  EXPECT_STREQ(message.text, "");
  return made;
}

TEST(CFingerprint, is_that_of_the_cpp_interface) {
  AttentionCase c(full_options());
  const CCase through_c(c);
  ASSERT_EQ(through_c.code, FOLIO_OK) << through_c.message.text;
  const Attention attention = prepare_case(c, {}, c.limits())->attention;
  for (const int32_t arrays : {FOLIO_IN_PLACE, FOLIO_BY_CONTENT}) {
    const PlanFingerprint expected =
        plan_fingerprint(attention, c.batch(), static_cast<BorrowedArrays>(arrays)).value();
    const folio_plan_fingerprint made = fingerprint_of(through_c, through_c.batch, arrays);
    EXPECT_EQ(made.low, expected.low) << arrays;
    EXPECT_EQ(made.high, expected.high) << arrays;
  }
}

TEST(CFingerprint, arrays_count_by_their_place_or_by_what_they_hold) {
  AttentionCase c(CaseOptions{});
  const CCase t(c);
  ASSERT_EQ(t.code, FOLIO_OK) << t.message.text;
  // rows of as many entries as the contexts reach, elsewhere
  const int64_t stride = t.batch.table_row_stride;
  std::vector<uint32_t> elsewhere;
  for (int32_t b = 0; b < t.batch.size; ++b) {
    const int64_t row =
        t.batch.table_row_starts != nullptr ? t.batch.table_row_starts[b] : b * stride;
    elsewhere.insert(elsewhere.end(), t.batch.table_entries + row,
                     t.batch.table_entries + row + stride);
  }
  folio_batch moved = t.batch;
  moved.table_entries = elsewhere.data();
  moved.table_row_starts = nullptr;
  const folio_plan_fingerprint of_moved = fingerprint_of(t, moved, FOLIO_BY_CONTENT);
  folio_batch again = moved;
  std::vector<uint32_t> copy = elsewhere;
  again.table_entries = copy.data();
  EXPECT_TRUE(fingerprint_of(t, again, FOLIO_BY_CONTENT) == of_moved);
  EXPECT_FALSE(fingerprint_of(t, again, FOLIO_IN_PLACE) ==
               fingerprint_of(t, moved, FOLIO_IN_PLACE));
  copy[0] += 1;
  EXPECT_FALSE(fingerprint_of(t, again, FOLIO_BY_CONTENT) == of_moved);
}

TEST(CFingerprint, a_plan_whose_fingerprint_is_equal_serves_another_batch) {
  AttentionCase c(CaseOptions{});
  CCase t(c);
  ASSERT_EQ(t.code, FOLIO_OK) << t.message.text;
  c.poison_output();
  ASSERT_EQ(t.attend(nullptr), FOLIO_OK) << t.message.text;
  const std::vector<std::byte> expected = c.output_bits();
  // what a plan copies may lie elsewhere
  std::vector<int32_t> contexts(t.batch.context_lengths, t.batch.context_lengths + t.batch.size);
  folio_batch other = t.batch;
  other.context_lengths = contexts.data();
  ASSERT_TRUE(fingerprint_of(t, other, FOLIO_IN_PLACE) ==
              fingerprint_of(t, t.batch, FOLIO_IN_PLACE));
  c.poison_output();
  ASSERT_EQ(t.attend(nullptr), FOLIO_OK) << t.message.text;
  EXPECT_EQ(c.output_bits(), expected);
  contexts[0] -= 1;
  EXPECT_FALSE(fingerprint_of(t, other, FOLIO_IN_PLACE) ==
               fingerprint_of(t, t.batch, FOLIO_IN_PLACE));
}

/// invalid_argument with these words; the fingerprint is not written.
void expect_refused(const char* words, const folio_attention* attention, const folio_batch* batch,
                    int32_t arrays) {
  folio_plan_fingerprint made = untouched;
  folio_message message = {};
  EXPECT_EQ(folio_get_plan_fingerprint(attention, batch, arrays, &made, &message),
            FOLIO_INVALID_ARGUMENT)
      << words;
  EXPECT_NE(std::strstr(message.text, words), nullptr) << message.text << "\nhas not: " << words;
  EXPECT_TRUE(made == untouched) << words;
}

TEST(CFingerprint, mistakes_of_the_batch_are_named_as_by_plan) {
  AttentionCase c(full_options());
  const CCase t(c);
  ASSERT_EQ(t.code, FOLIO_OK) << t.message.text;
  for (const BatchRow& row : batch_rows) {
    Batch broken = c.batch();
    row.break_it(broken);
    const folio_batch batch = to_c(broken);
    expect_refused(row.words, t.attention.get(), &batch, FOLIO_BY_CONTENT);
  }
}

TEST(CFingerprint, broken_arguments_and_foreign_batches_are_refused) {
  CaseOptions plain;
  plain.sequences = full_options().sequences;
  AttentionCase c(full_options()), other(plain);
  const CCase t(c), foreign(other);
  ASSERT_EQ(t.code, FOLIO_OK) << t.message.text;
  const folio_attention* const good = t.attention.get();
  expect_refused("folio_get_plan_fingerprint: attention is null", nullptr, &t.batch, 0);
  expect_refused("folio_get_plan_fingerprint: batch is null", good, nullptr, 0);
  for (const int32_t arrays :
       {-1, 2, 256, 257, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()})
    expect_refused("expected FOLIO_IN_PLACE or FOLIO_BY_CONTENT", good, &t.batch, arrays);
  folio_batch batch = t.batch;
  batch.struct_size = 3;
  expect_refused("batch->struct_size is 3", good, &batch, 0);
  // a batch of a problem without the arrays that this one asks for
  expect_refused("is null", good, &foreign.batch, 0);
  folio_message message = {};
  EXPECT_EQ(folio_get_plan_fingerprint(good, &t.batch, 0, nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_get_plan_fingerprint: fingerprint is null");
  EXPECT_EQ(folio_get_plan_fingerprint(nullptr, nullptr, -1, nullptr, nullptr),
            FOLIO_INVALID_ARGUMENT);
}

TEST(CFingerprint, a_shorter_batch_of_an_older_caller_is_taken_with_defaults) {
  AttentionCase c(CaseOptions{});
  const CCase t(c);
  ASSERT_EQ(t.code, FOLIO_OK) << t.message.text;
  folio_batch older = t.batch;
  older.struct_size = offsetof(folio_batch, tree);
  older.tree = reinterpret_cast<const uint64_t*>(8);
  older.alibi_positions = reinterpret_cast<const int32_t*>(4);
  older.selected_stride = -7;
  EXPECT_TRUE(fingerprint_of(t, older, FOLIO_IN_PLACE) ==
              fingerprint_of(t, t.batch, FOLIO_IN_PLACE));
}

}  // namespace
}  // namespace folio::test
