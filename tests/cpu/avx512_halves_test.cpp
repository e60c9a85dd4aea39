// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/avx512_halves_test.cpp: products over 16-bit rows that are widened in registers give
/// the bits of products over the same rows as words.
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

constexpr struct {
  DType operand, stored;
} kinds[] = {{DType::f32, DType::f16}, {DType::f32, DType::bf16}, {DType::bf16, DType::f16}};

float value_of(DType stored, uint16_t bits) {
  return stored == DType::f16 ? to_float(f16{bits}) : to_float(bf16{bits});
}
uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
/// The operand of a product, in its low bits.
uint32_t operand_of(DType operand, float x) {
  return operand == DType::f32 ? bits_of(x) : from_float<bf16>(x).bits;
}
float operand_value(DType operand, uint32_t bits) {
  float x;
  const uint32_t wide = operand == DType::f32 ? bits : bits << 16;
  std::memcpy(&x, &wide, sizeof x);
  return x;
}

class Avx512Halves : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::avx512_bf16))
      GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  }
};

TEST_F(Avx512Halves, every_pattern_becomes_the_operand_of_its_value) {
  for (const auto& kind : kinds) {
    const size_t bytes = kind.operand == DType::f32 ? 4 : 2;
    for (uint32_t first = 0; first < 65536; first += 32) {
      uint16_t elements[32];
      unsigned char found[32 * 4];
      for (uint32_t i = 0; i < 32; ++i) elements[i] = static_cast<uint16_t>(first + i);
      avx512_words_of_stored(kind.operand, kind.stored, elements, found);
      for (size_t i = 0; i < 32; ++i) {
        uint32_t bits = 0;
        std::memcpy(&bits, found + i * bytes, bytes);
        const float exact = value_of(kind.stored, elements[i]);
        if (std::isnan(exact)) {
          ASSERT_TRUE(std::isnan(operand_value(kind.operand, bits))) << elements[i];
        } else {
          ASSERT_EQ(bits, operand_of(kind.operand, exact))
              << name(kind.stored) << " to " << name(kind.operand) << ", " << elements[i];
        }
      }
    }
  }
}

/// 64 rows of finite elements with gaps between them, and the same as dense words.
struct Rows {
  /// row_stride 0: of a random gap.
  Rows(DType operand, DType stored, int head_size, Rng& rng, int row_stride = 0)
      : stride(row_stride != 0 ? row_stride : head_size * 2 + rng.int_between(0, 40) * 2) {
    const size_t word_bytes = operand == DType::f32 ? 4 : 2;
    bytes.resize(static_cast<size_t>(64 * stride));
    words.resize(static_cast<size_t>(64 * head_size) * word_bytes);
    for (int key = 0; key < 64; ++key) {
      for (int d = 0; d < head_size; ++d) {
        uint16_t bits = 0;
        do bits = static_cast<uint16_t>(rng.between(0, 65535));
        while (!(std::abs(value_of(stored, bits)) < 1e4f));
        std::memcpy(&bytes[static_cast<size_t>(key * stride + d * 2)], &bits, 2);
        const uint32_t word = operand_of(operand, value_of(stored, bits));
        std::memcpy(&words[static_cast<size_t>(key * head_size + d) * word_bytes], &word,
                    word_bytes);
      }
    }
    as_stored = {operand, stored, bytes.data(), stride};
    as_words = {operand, operand, words.data(), static_cast<int64_t>(word_bytes) * head_size};
  }
  int stride;
  std::vector<unsigned char> bytes, words;
  StoredRows as_stored, as_words;
};

std::vector<uint32_t> random_words(DType operand, size_t n, Rng& rng) {
  std::vector<uint32_t> words(n);
  for (uint32_t& word : words) {
    const auto one = [&] {
      return operand_of(operand, static_cast<float>(rng.between(-999, 999)) * 0.0037f);
    };
    word = operand == DType::f32 ? one() : one() | one() << 16;
  }
  return words;
}

/// Rows with a gap, and rows that all begin in one set of a first-level cache.
constexpr struct {
  int head_size, stride;
} row_shapes[] = {{8, 0}, {24, 0}, {128, 0}, {576, 0}, {24, 4096}, {128, 4096}, {576, 8192}};

TEST_F(Avx512Halves, scores_of_stored_rows_are_those_of_the_rows_as_words) {
  Rng rng(test_seed());
  for (const auto& kind : kinds) {
    for (const auto& [head_size, stride] : row_shapes) {
      const Rows rows(kind.operand, kind.stored, head_size, rng, stride);
      for (const int count : {1, 2, 4, 8}) {
        const std::vector<uint32_t> q =
            random_words(kind.operand, static_cast<size_t>(head_size * count), rng);
        std::vector<float> found(64 * 8), expected(64 * 8);
        avx512_scores_of_stored(rows.as_stored, head_size, count, q.data(), found.data());
        avx512_scores_of_stored(rows.as_words, head_size, count, q.data(), expected.data());
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * 4), 0)
            << name(kind.stored) << " as " << name(kind.operand) << ", " << head_size << " dims, "
            << count << " rows";
      }
    }
  }
}

TEST_F(Avx512Halves, values_of_stored_rows_are_those_of_the_rows_as_words) {
  Rng rng(test_seed());
  for (const auto& kind : kinds) {
    for (const int head_size : {32, 64, 96, 128, 512}) {
      const Rows rows(kind.operand, kind.stored, head_size, rng);
      const std::vector<uint32_t> weights = random_words(kind.operand, 64 * 64, rng);
      for (const int count : {1, 2, 4, 8}) {
        struct alignas(64) Line {
          float x[16] = {};
        };
        std::vector<Line> found(static_cast<size_t>(head_size / 16 * 8)), expected(found);
        avx512_values_of_stored(rows.as_stored, head_size, count, weights.data(), found[0].x);
        avx512_values_of_stored(rows.as_words, head_size, count, weights.data(), expected[0].x);
        EXPECT_EQ(
            std::memcmp(found.data(), expected.data(), static_cast<size_t>(head_size * count) * 4),
            0)
            << name(kind.stored) << " as " << name(kind.operand) << ", " << head_size << " dims, "
            << count << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
