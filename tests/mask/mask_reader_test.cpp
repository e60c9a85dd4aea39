// SPDX-License-Identifier: Apache-2.0
/// tests/mask/mask_reader_test.cpp: which form masks become, and that every form says what the
/// matrix says. RapidCheck prints the seed and shrinks.
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>
#include <limits>
#include <vector>

#include "mask/mask_case.h"

namespace folio::test {
namespace {

constexpr float slopes[] = {0.5f, 0.25f, -1.0f, 0.0f};

MaskOptions with_slopes(const MaskCase& mask) {
  MaskOptions options = mask.options();
  options.slopes = slopes;
  options.q_heads = mask.spec().heads > 1 ? mask.spec().heads : 4;
  return options;
}

MaskedBatch expect_form(const MaskSpec& spec, MaskForm form, MaskReader& reader) {
  const MaskCase mask(spec);
  const MaskOptions options = spec.alibi ? with_slopes(mask) : mask.options();
  const Result<MaskedBatch> masked = mask.read(reader, options);
  EXPECT_TRUE(masked.has_value()) << masked.error().message();
  if (!masked) return {};
  EXPECT_EQ(masked->form, form);
  expect_same(*masked, mask, options);
  return *masked;
}

TEST(MaskReader, a_causal_mask_is_one_sequence_over_the_keys_that_are_seen) {
  MaskReader reader;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::invalid}) {
    const MaskedBatch masked =
        expect_form({.kind = MaskKind::causal, .dtype = dtype, .queries = 64, .keys = 300},
                    MaskForm::runs, reader);
    EXPECT_EQ(masked.batch.size, 1);
    EXPECT_EQ(masked.alibi, false);
  }
}

TEST(MaskReader, windows_are_one_sequence_whose_first_key_is_the_first_that_is_seen) {
  MaskReader reader;
  MaskSpec spec{.kind = MaskKind::window, .queries = 64, .keys = 300};
  EXPECT_EQ(expect_form(spec, MaskForm::runs, reader).batch.size, 1);
  spec.first_rows = true;
  spec.streams = 3;
  EXPECT_EQ(expect_form(spec, MaskForm::runs, reader).batch.size, 3);
}

/// What was found until then is of no mask that is read later.
TEST(MaskReader, numbers_that_turn_out_to_be_no_distances_leave_nothing_behind) {
  MaskReader reader;
  MaskSpec spec{.kind = MaskKind::numbers, .queries = 6, .keys = 90};
  const MaskCase numbers(spec);
  ASSERT_EQ(numbers.read(reader, with_slopes(numbers))->form, MaskForm::bias);
  spec.kind = MaskKind::random_bits;
  expect_form(spec, MaskForm::cells, reader);
}

/// Two sequences that take turns, cell by cell, with 32 new tokens each, one behind the other.
TEST(MaskReader, sequences_between_one_another_are_a_table_row_each) {
  constexpr int64_t keys = 256, queries = 64;
  std::vector<float> numbers(static_cast<size_t>(queries * keys),
                             -std::numeric_limits<float>::infinity());
  for (int64_t t = 0; t < queries; ++t) {
    const int64_t sequence = t / 32, position = 96 + t % 32;
    for (int64_t p = 0; p <= position; ++p)
      numbers[static_cast<size_t>(t * keys + 2 * p + sequence)] = 0.0f;
  }
  MaskReader reader;
  const Result<MaskedBatch> masked = reader.read(
      MaskMatrix{dense_tensor<4, const float>(numbers.data(), DType::f32, {1, 1, queries, keys})});
  ASSERT_TRUE(masked.has_value()) << masked.error().message();
  EXPECT_EQ(masked->form, MaskForm::cells);
  ASSERT_EQ(masked->batch.size, 2);
  EXPECT_EQ(masked->context, 128);
  for (int64_t i = 0; i < 128; ++i) {
    EXPECT_EQ(masked->batch.table.entries[i], 2 * i);
    EXPECT_EQ(masked->batch.table.entries[128 + i], 2 * i + 1);
  }
}

/// Sequences that decode beside one another behind the same prefix: their table rows begin with it,
/// which `plan` finds.
TEST(MaskReader, sequences_with_a_prefix_in_common_are_table_rows_that_begin_alike) {
  constexpr int64_t prefix = 100, own = 5, queries = 6, keys = prefix + own * queries;
  std::vector<float> numbers(static_cast<size_t>(queries * keys),
                             -std::numeric_limits<float>::infinity());
  for (int64_t t = 0; t < queries; ++t) {
    std::fill_n(&numbers[static_cast<size_t>(t * keys)], prefix, 0.0f);
    for (int64_t i = 0; i < own; ++i)  // cells of all, in turns
      numbers[static_cast<size_t>(t * keys + prefix + i * queries + t)] = 0.0f;
  }
  MaskReader reader;
  const Result<MaskedBatch> masked = reader.read(
      MaskMatrix{dense_tensor<4, const float>(numbers.data(), DType::f32, {1, 1, queries, keys})});
  ASSERT_TRUE(masked.has_value()) << masked.error().message();
  EXPECT_EQ(masked->form, MaskForm::cells);
  ASSERT_EQ(masked->batch.size, queries);
  for (int32_t b = 0; b < queries; ++b) {
    ASSERT_EQ(masked->batch.context_lengths[b], prefix + own);
    const uint32_t* const row = masked->batch.table.entries + masked->batch.table.row_start(b);
    for (int64_t i = 0; i < prefix; ++i) EXPECT_EQ(row[i], i);
    for (int64_t i = 0; i < own; ++i) EXPECT_EQ(row[prefix + i], prefix + i * queries + b);
  }
}

/// A window over cells in no order: keys go in the order in which they came.
TEST(MaskReader, cells_are_listed_so_that_queries_see_intervals_of_them) {
  constexpr int64_t keys = 40, queries = 16;
  std::vector<float> numbers(static_cast<size_t>(queries * keys),
                             -std::numeric_limits<float>::infinity());
  for (int64_t t = 0; t < queries; ++t)
    for (int64_t p = t; p <= t + 8; ++p)
      numbers[static_cast<size_t>(t * keys + p * 7 % keys)] = -0.0f;
  MaskReader reader;
  const Result<MaskedBatch> masked = reader.read(
      MaskMatrix{dense_tensor<4, const float>(numbers.data(), DType::f32, {1, 1, queries, keys})});
  ASSERT_TRUE(masked.has_value()) << masked.error().message();
  EXPECT_EQ(masked->form, MaskForm::cells);
  EXPECT_EQ(masked->batch.size, 1);
  EXPECT_EQ(masked->context, 24);
}

TEST(MaskReader, masks_of_alibi_become_positions_where_there_are_slopes) {
  MaskReader reader;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const MaskKind kind : {MaskKind::causal, MaskKind::window, MaskKind::full}) {
      MaskSpec spec{.kind = kind, .dtype = dtype, .queries = 40, .keys = 150, .alibi = true};
      EXPECT_TRUE(expect_form(spec, MaskForm::runs, reader).alibi);
      spec.hides_queries = true;
      expect_form(spec, MaskForm::runs, reader);
    }
    for (const MaskKind kind :
         {MaskKind::sequences, MaskKind::shifted, MaskKind::holes, MaskKind::scattered}) {
      MaskSpec spec{.kind = kind, .dtype = dtype, .queries = 40, .keys = 150, .alibi = true};
      EXPECT_TRUE(expect_form(spec, MaskForm::cells, reader).alibi_positions);
    }
  }
}

/// Beyond 2,048 f16 rounds distances, bf16 beyond 256.
TEST(MaskReader, distances_that_the_matrix_rounds_are_found) {
  MaskReader reader;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const MaskKind kind : {MaskKind::causal, MaskKind::full})
      expect_form({.kind = kind, .dtype = dtype, .queries = 70, .keys = 9000, .alibi = true},
                  MaskForm::runs, reader);
    for (const MaskKind kind : {MaskKind::sequences, MaskKind::holes})
      expect_form({.kind = kind, .dtype = dtype, .queries = 12, .keys = 9000, .alibi = true},
                  MaskForm::cells, reader);
  }
}

/// Before the query, at it and behind it.
TEST(MaskReader, every_distance_of_a_run_is_looked_at) {
  constexpr int64_t keys = 50, position = 20;
  std::vector<float> numbers(keys);
  for (int64_t j = 0; j < keys; ++j)
    numbers[static_cast<size_t>(j)] = -static_cast<float>(std::abs(j - position));
  const MaskMatrix matrix{
      dense_tensor<4, const float>(numbers.data(), DType::f32, {1, 1, 1, keys})};
  const MaskOptions options{.slopes = slopes, .q_heads = 1};
  MaskReader reader;
  ASSERT_EQ(reader.read(matrix, options)->form, MaskForm::runs);
  for (float& number : numbers) {
    number -= 1.0f;
    EXPECT_EQ(reader.read(matrix, options)->form, MaskForm::bias);
    number += 1.0f;
  }
}

TEST(MaskReader, runs_that_do_not_climb_are_sequences_of_their_own) {
  MaskReader reader;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    MaskSpec spec{.kind = MaskKind::intervals, .queries = 30, .keys = 60, .seed = seed};
    EXPECT_GT(expect_form(spec, MaskForm::runs, reader).batch.size, 3);
    spec.alibi = true;
    expect_form(spec, MaskForm::runs, reader);
    spec.kind = MaskKind::scattered;
    expect_form(spec, MaskForm::cells, reader);
  }
}

TEST(MaskReader, numbers_without_slopes_are_a_bias_in_place) {
  MaskReader reader;
  for (const MaskKind kind : {MaskKind::numbers, MaskKind::causal}) {
    const MaskCase mask(
        {.kind = kind, .queries = 9, .keys = 70, .alibi = kind == MaskKind::causal});
    const Result<MaskedBatch> masked = mask.read(reader, mask.options());
    ASSERT_TRUE(masked.has_value());
    EXPECT_EQ(masked->form, MaskForm::bias);
    EXPECT_EQ(masked->bias.data, mask.matrix().values.data);
    expect_same(*masked, mask, mask.options());
  }
}

TEST(MaskReader, one_number_that_is_no_distance_makes_a_bias_of_products) {
  for (const MaskKind kind : {MaskKind::causal, MaskKind::sequences}) {
    for (const float other : {-1.5f, 3.0f, std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), -1e30f}) {
      MaskCase mask({.kind = kind, .dtype = DType::f32, .queries = 20, .keys = 90, .alibi = true});
      float* const numbers = static_cast<float*>(const_cast<void*>(mask.matrix().values.data));
      int64_t at = 19 * 90 + 80;
      while (std::isinf(numbers[at])) --at;
      numbers[at] = other;
      MaskReader reader;
      const Result<MaskedBatch> masked = mask.read(reader, with_slopes(mask));
      ASSERT_TRUE(masked.has_value());
      EXPECT_EQ(masked->form, MaskForm::bias) << other;
      EXPECT_EQ(masked->bias.dtype, DType::f32);
      EXPECT_EQ(masked->bias.extent[0], 4);
    }
  }
}

TEST(MaskReader, streams_at_another_distance_are_a_bias_per_sequence) {
  MaskReader reader;
  MaskSpec spec{.kind = MaskKind::numbers, .streams = 3, .heads = 2, .queries = 5, .keys = 30};
  EXPECT_TRUE(expect_form(spec, MaskForm::bias, reader).bias_per_sequence);
  spec.heads = 1;
  EXPECT_FALSE(expect_form(spec, MaskForm::bias, reader).bias_per_sequence);
  spec.padding = 2;
  EXPECT_TRUE(expect_form(spec, MaskForm::bias, reader).bias_per_sequence);
  spec.queries = 1;
  EXPECT_FALSE(expect_form(spec, MaskForm::bias, reader).bias_per_sequence);
  spec.shares_streams = true;
  expect_form(spec, MaskForm::bias, reader);
}

TEST(MaskReader, masks_of_nothing_are_batches_of_nothing) {
  MaskReader reader;
  for (const DType dtype : {DType::f16, DType::invalid}) {
    EXPECT_EQ(expect_form({.dtype = dtype, .queries = 0, .keys = 7}, MaskForm::runs, reader).tokens,
              0);
    const MaskedBatch masked = expect_form({.dtype = dtype, .streams = 2, .queries = 3, .keys = 0},
                                           MaskForm::runs, reader);
    EXPECT_EQ(masked.tokens, 6);
    EXPECT_EQ(masked.context, 0);
    expect_form({.dtype = dtype, .streams = 0, .queries = 3, .keys = 4}, MaskForm::runs, reader);
  }
}

TEST(MaskReader, the_last_rows_of_the_largest_plane_can_be_named) {
  const MaskCase mask({.queries = 3, .keys = 20});
  const int64_t first = (int64_t{1} << 32) - 1 - 20;
  MaskOptions options;
  options.first_rows = &first;
  MaskReader reader;
  const Result<MaskedBatch> masked = mask.read(reader, options);
  ASSERT_TRUE(masked.has_value());
  EXPECT_GE(masked->batch.table.entries[0], static_cast<uint32_t>(first));
}

TEST(MaskReader, moves_take_the_memory_along) {
  const MaskCase mask({.kind = MaskKind::sequences, .queries = 8, .keys = 60});
  MaskReader reader, other;
  ASSERT_TRUE(mask.read(reader, mask.options()).has_value());
  other = std::move(reader);
  const Result<MaskedBatch> masked = mask.read(other, mask.options());
  ASSERT_TRUE(masked.has_value());
  expect_same(*masked, mask, mask.options());
}

TEST(MaskReader, problems_take_what_the_batch_needs) {
  AttentionProblem problem;
  problem.key.page_size = problem.value.page_size = 16;
  problem.tree = problem.selection = true;
  problem.softcap = 3.0f;
  MaskedBatch masked;
  masked.form = MaskForm::bias;
  masked.bias.dtype = DType::f16;
  masked.bias_per_sequence = true;
  const AttentionProblem p = masked_problem(problem, masked);
  EXPECT_EQ(p.key.page_size, unbounded_page_size);
  EXPECT_EQ(p.value.page_size, unbounded_page_size);
  EXPECT_TRUE(p.intervals && p.bias && p.bias_per_sequence && p.bias_dtype == DType::f16);
  EXPECT_FALSE(p.tree || p.selection || p.alibi || p.alibi_positions);
  EXPECT_EQ(p.softcap, 3.0f);
}

RC_GTEST_PROP(MaskReader, any_mask_is_a_batch_that_says_the_same, ()) {
  MaskSpec spec;
  spec.kind = static_cast<MaskKind>(*rc::gen::inRange(0, num_mask_kinds));
  spec.dtype = *rc::gen::element(DType::f16, DType::bf16, DType::f32, DType::invalid);
  const bool is_bits = spec.dtype == DType::invalid;
  spec.streams = *rc::gen::inRange(1, 4);
  spec.heads = is_bits ? 1 : *rc::gen::element(1, 1, 1, 3);
  spec.queries = *rc::gen::inRange(1, 40);
  spec.keys = *rc::gen::inRange(1, 330);
  spec.alibi = !is_bits && *rc::gen::arbitrary<bool>();
  spec.shares_streams = *rc::gen::element(false, false, true);
  spec.padding = *rc::gen::element(0, 0, 5);
  spec.first_rows = *rc::gen::arbitrary<bool>();
  spec.hides_queries = *rc::gen::arbitrary<bool>();
  spec.has_odd_numbers = *rc::gen::arbitrary<bool>();
  spec.seed = *rc::gen::arbitrary<uint64_t>();
  const bool has_slopes = *rc::gen::arbitrary<bool>();

  const MaskCase mask(spec);
  const MaskOptions options = has_slopes ? with_slopes(mask) : mask.options();
  static MaskReader reader;  // its memory holds what the masks before left
  const Result<MaskedBatch> masked = mask.read(reader, options);
  RC_ASSERT(masked.has_value());
  const std::string failures = failures_of([&] { expect_same(*masked, mask, options); });
  RC_ASSERT(failures == "");
  RC_CLASSIFY(masked->form == MaskForm::cells, "cells");
  RC_CLASSIFY(masked->form == MaskForm::bias, "bias");
  RC_CLASSIFY(masked->alibi, "alibi");
  RC_CLASSIFY(masked->alibi && masked->form == MaskForm::cells, "alibi of cells");
}

}  // namespace
}  // namespace folio::test
