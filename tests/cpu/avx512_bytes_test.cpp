// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_bytes_test.cpp: products over 8-bit rows give the bits of products over the
/// same rows as bf16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/avx512_stored_entries.h"
#include "cpu/features.h"
#include "folio/core/element.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr DType types[] = {DType::i8, DType::f8_e4m3, DType::f8_e5m2};

float value_of(DType dtype, uint8_t bits) {
  if (dtype == DType::i8) return static_cast<float>(static_cast<int8_t>(bits));
  return dtype == DType::f8_e4m3 ? to_float(f8_e4m3{bits}) : to_float(f8_e5m2{bits});
}

class Avx512Bytes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::avx512_bf16))
      GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  }
};

TEST_F(Avx512Bytes, every_pattern_of_every_type_becomes_the_bf16_of_its_value) {
  for (const DType dtype : types) {
    for (int first = 0; first < 256; first += 64) {
      uint8_t elements[64];
      uint16_t words[64];
      for (int i = 0; i < 64; ++i) elements[i] = static_cast<uint8_t>(first + i);
      avx512_words_of_stored(DType::bf16, dtype, elements, words);
      for (int i = 0; i < 64; ++i) {
        const float exact = value_of(dtype, elements[i]), found = to_float(bf16{words[i]});
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(found)) << name(dtype) << " " << first + i;
          continue;
        }
        EXPECT_EQ(found, exact) << name(dtype) << " " << first + i;
        EXPECT_EQ(std::signbit(found), std::signbit(exact)) << name(dtype) << " " << first + i;
      }
    }
  }
}

/// 64 rows of finite elements with gaps between them, and the same as dense bf16.
struct Rows {
  /// row_stride 0: of a random gap.
  Rows(DType dtype, int head_size, Rng& rng, int row_stride = 0)
      : stride(row_stride != 0 ? row_stride : head_size + rng.int_between(0, 70)) {
    bytes.resize(static_cast<size_t>(64 * stride));
    for (uint8_t& b : bytes) {
      do b = static_cast<uint8_t>(rng.between(0, 255));
      while (!std::isfinite(value_of(dtype, b)));
    }
    for (int key = 0; key < 64; ++key)
      for (int d = 0; d < head_size; ++d)
        wide.push_back(
            from_float<bf16>(value_of(dtype, bytes[static_cast<size_t>(key * stride + d)])));
    stored = {DType::bf16, dtype, bytes.data(), stride};
    words = {DType::bf16, DType::bf16, wide.data(), head_size * 2};
  }
  int stride;
  std::vector<uint8_t> bytes;
  std::vector<bf16> wide;
  StoredRows stored, words;
};

std::vector<uint32_t> random_pairs(size_t n, Rng& rng) {
  std::vector<uint32_t> pairs(n);
  for (uint32_t& pair : pairs) {
    const auto half = [&] {
      return uint32_t{from_float<bf16>(static_cast<float>(rng.between(-999, 999)) * 0.0037f).bits};
    };
    pair = half() | half() << 16;
  }
  return pairs;
}

/// Rows with a gap, and rows that all begin in one set of a first-level cache.
constexpr struct {
  int head_size, stride;
} row_shapes[] = {{16, 0}, {48, 0}, {128, 0}, {576, 0}, {48, 4096}, {128, 8192}, {576, 4096}};

TEST_F(Avx512Bytes, scores_of_stored_rows_are_those_of_the_rows_as_bf16) {
  Rng rng(test_seed());
  for (const DType dtype : types) {
    for (const auto& [head_size, stride] : row_shapes) {
      const Rows rows(dtype, head_size, rng, stride);
      for (const int count : {1, 2, 4, 8}) {
        const std::vector<uint32_t> q =
            random_pairs(static_cast<size_t>(head_size / 2 * count), rng);
        std::vector<float> found(64 * 8), expected(64 * 8);
        avx512_scores_of_stored(rows.stored, head_size, count, q.data(), found.data());
        avx512_scores_of_stored(rows.words, head_size, count, q.data(), expected.data());
        for (size_t key = 0; key < 64; ++key)
          EXPECT_EQ(
              std::memcmp(&found[key * 8], &expected[key * 8], static_cast<size_t>(count) * 4), 0)
              << name(dtype) << ", " << head_size << " dims, " << count << " rows, key " << key;
      }
    }
  }
}

TEST_F(Avx512Bytes, values_of_stored_rows_are_those_of_the_rows_as_bf16) {
  Rng rng(test_seed());
  for (const DType dtype : types) {
    for (const int head_size : {32, 64, 96, 128, 512}) {
      const Rows rows(dtype, head_size, rng);
      const std::vector<uint32_t> weights = random_pairs(size_t{8} * 32, rng);
      for (const int count : {1, 2, 4, 8}) {
        struct alignas(64) Line {
          float x[16] = {};
        };
        std::vector<Line> found(static_cast<size_t>(head_size / 16 * 8)), expected(found);
        avx512_values_of_stored(rows.stored, head_size, count, weights.data(), found[0].x);
        avx512_values_of_stored(rows.words, head_size, count, weights.data(), expected[0].x);
        EXPECT_EQ(
            std::memcmp(found.data(), expected.data(), static_cast<size_t>(head_size * count) * 4),
            0)
            << name(dtype) << ", " << head_size << " dims, " << count << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
