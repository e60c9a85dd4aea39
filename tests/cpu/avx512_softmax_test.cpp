// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_softmax_test.cpp: weights with keys in the lanes, and those that trail the
/// scores, are those with rows in the lanes, bit for bit, and so is the state behind them; rows of
/// output.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/avx512_softmax_entries.h"
#include "cpu/features.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float random(Rng& rng, float size) { return static_cast<float>(rng.between(-9999, 9999)) * size; }

/// `size`: of the scores. Rows that saw nothing yet, rows that see nothing of the tile, rows whose
/// maximum rises, and others.
WeighedRows random_rows(int count, float size, Rng& rng) {
  WeighedRows rows;
  rows.rows = count;
  rows.keys = 16 * rng.int_between(1, 4);
  rows.factor = size > 1.0f ? 1.0f : 1.25f;
  rows.is_scaled = rng.between(0, 1) == 0;
  for (float& scale : rows.scale) scale = random(rng, 1e-4f);
  for (int r = 0; r < count; ++r) {
    for (float& score : rows.score[r]) score = random(rng, size);
    rows.seen[r] = rng.between(0, 3) == 0 ? 0 : ~uint64_t{0} >> rng.between(0, 63);
    const bool is_new = rng.between(0, 2) == 0;
    rows.maximum[r] = is_new ? -infinity : random(rng, size);
    rows.denominator[r] = is_new ? 0.0f : 1.0f + std::fabs(random(rng, 1e-3f));
    for (float& x : rows.output[r]) x = random(rng, 1e-3f);
  }
  return rows;
}

TEST(Avx512Softmax, few_rows_get_the_weights_and_the_state_that_many_rows_get) {
  if (!machine_has(Capability::avx512_bf16))
    GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  Rng rng(test_seed());
  for (const DType operand : {DType::f32, DType::bf16}) {
    for (int count = 1; count <= WeighedRows::most; ++count) {
      for (const float size : {1e-4f, 1e-2f, 1e3f}) {
        for (int round = 0; round < 20; ++round) {
          WeighedRows many = random_rows(count, size, rng), few = many;
          avx512_weigh_many(operand, many);
          avx512_weigh_few(operand, few);
          EXPECT_EQ(std::memcmp(few.weight, many.weight, sizeof many.weight), 0);
          EXPECT_EQ(std::memcmp(few.maximum, many.maximum, sizeof many.maximum), 0);
          EXPECT_EQ(std::memcmp(few.denominator, many.denominator, sizeof many.denominator), 0);
          EXPECT_EQ(std::memcmp(few.output, many.output, sizeof many.output), 0);
          EXPECT_TRUE(few.are_others_kept);
          if (HasFailure()) FAIL() << name(operand) << ", " << count << " rows, scores of " << size;
        }
      }
    }
  }
}

/// Logits relative to the maxima reach from `lowest` to `highest`: below -126 weights vanish, from
/// 8 on a maximum has to move.
WeighedBlock random_block(int lowest, int highest, Rng& rng) {
  WeighedBlock block;
  block.factor = 0.25f;
  for (int r = 0; r < WeighedBlock::rows; ++r) {
    block.maximum[r] = random(rng, 1e-2f);
    block.denominator[r] = 1.0f + std::fabs(random(rng, 1e-3f));
    for (auto& key : block.score) {
      const float logit = static_cast<float>(rng.between(lowest * 100, highest * 100)) * 0.01f;
      key[r] = rng.between(0, 99) == 0 ? -infinity : (logit + block.maximum[r]) / block.factor;
    }
  }
  return block;
}

TEST(Avx512Softmax, weights_that_trail_the_scores_are_those_made_of_all_scores) {
  if (!machine_has(Capability::avx512_bf16))
    GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  Rng rng(test_seed());
  for (const int lowest : {-1, -20, -155, -2000}) {
    for (int round = 0; round < 50; ++round) {
      WeighedBlock whole = random_block(lowest, 7, rng), trailing = whole;
      if (round % 5 == 0) whole.score[rng.between(0, 63)][rng.between(0, 63)] = std::nanf("");
      std::memcpy(trailing.score, whole.score, sizeof whole.score);
      avx512_weigh_block(whole);
      EXPECT_TRUE(avx512_weigh_block_trailing(trailing));
      EXPECT_EQ(std::memcmp(&trailing, &whole, sizeof whole), 0);
      if (HasFailure()) FAIL() << "logits from " << lowest << ", round " << round;
    }
  }
}

TEST(Avx512Softmax, weights_that_trail_do_not_count_where_a_maximum_is_lacking_or_moves) {
  if (!machine_has(Capability::avx512_bf16))
    GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  Rng rng(test_seed());
  for (int round = 0; round < 50; ++round) {
    const WeighedBlock good = random_block(-20, 7, rng);
    const int64_t row = rng.between(0, WeighedBlock::rows - 1);
    for (const float maximum : {-infinity, infinity, std::nanf(""), 0x1p21f, -0x1p21f}) {
      WeighedBlock block = good;
      block.maximum[row] = maximum;
      EXPECT_FALSE(avx512_weigh_block_trailing(block)) << maximum;
      EXPECT_EQ(std::memcmp(block.denominator, good.denominator, sizeof good.denominator), 0);
    }
    WeighedBlock block = good;
    block.score[rng.between(0, WeighedBlock::keys - 1)][row] =
        (block.maximum[row] + 8.5f) / block.factor;
    EXPECT_FALSE(avx512_weigh_block_trailing(block));
    EXPECT_EQ(std::memcmp(block.denominator, good.denominator, sizeof good.denominator), 0);
  }
}

TEST(Avx512Output, a_row_written_as_bf16_at_once_is_the_row_written_by_way_of_f32) {
  if (!machine_has(Capability::avx512_bf16))
    GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    const int width = 32 * rng.int_between(1, 18);
    alignas(64) float output[576];
    for (float& x : output) {
      const auto bits = static_cast<uint32_t>(rng.between(0, 0xffffffff));
      std::memcpy(&x, &bits, sizeof x);
      if (std::fpclassify(x) == FP_SUBNORMAL) x = 0.0f;
    }
    output[rng.between(0, width - 1)] = -0.0f;
    output[rng.between(0, width - 1)] = std::numeric_limits<float>::min();
    uint16_t at_once[576], by_f32[576];
    EXPECT_TRUE(avx512_write_bf16(output, 1.0f, at_once, width));
    avx512_write_bf16_by_f32(output, 1.0f, by_f32, width);
    EXPECT_EQ(std::memcmp(at_once, by_f32, static_cast<size_t>(width) * 2), 0);
    output[rng.between(0, width - 1)] = round % 2 == 0 ? 0x1p-127f : -0x1p-149f;
    EXPECT_FALSE(avx512_write_bf16(output, 1.0f, at_once, width));
    if (HasFailure()) FAIL() << "width " << width;
  }
}

}  // namespace
}  // namespace folio::test
