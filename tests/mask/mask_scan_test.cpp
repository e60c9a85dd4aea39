// SPDX-License-Identifier: Apache-2.0
/// tests/mask/mask_scan_test.cpp: every build of the scan says of every row what the numbers say.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/features.h"
#include "folio/core/element.h"
#include "mask/scan.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float hidden = -std::numeric_limits<float>::infinity();

/// Stretches of hidden keys and of zeros, seldom another number.
std::vector<float> row_of(int64_t keys, double weights, Rng& rng) {
  const float others[] = {1.0f, -1e-7f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN(), -65504.0f};
  std::vector<float> row;
  while (static_cast<int64_t>(row.size()) < keys) {
    const bool is_hidden = rng.chance(0.5), is_mixed = rng.chance(0.3);
    for (int64_t n = rng.between(1, 400); n > 0; --n) {
      row.push_back((is_mixed ? rng.chance(0.5) : is_hidden) ? hidden
                    : rng.chance(0.5)                        ? -0.0f
                                                             : 0.0f);
      if (rng.chance(weights)) row.back() = rng.pick(others);
    }
  }
  row.resize(static_cast<size_t>(keys));
  return row;
}

template <class T>
void expect_scanned(mask::ScanRow* scan, const std::vector<float>& row) {
  const auto keys = static_cast<int64_t>(row.size());
  const GuardedMemory memory(keys * static_cast<int64_t>(sizeof(T)), sizeof(T));
  const GuardedMemory bits(mask::words_of(keys) * 8, 8);
  bool is_weighted = false;
  std::vector<uint64_t> expected(static_cast<size_t>(mask::words_of(keys)));
  for (size_t j = 0; j < row.size(); ++j) {
    const T element = from_float<T>(row[j]);
    std::memcpy(memory.data() + j * sizeof(T), &element, sizeof element);
    const float x = to_float(element);
    if (x != hidden) expected[j / 64] |= uint64_t{1} << (j % 64);
    is_weighted |= x != hidden && x != 0.0f;
  }
  EXPECT_EQ(scan(memory.data(), keys, bits.as<uint64_t>()), is_weighted) << keys;
  EXPECT_EQ(std::vector<uint64_t>(bits.as<uint64_t>(), bits.as<uint64_t>() + expected.size()),
            expected)
      << keys;
}

TEST(MaskScan, every_build_says_what_is_seen) {
  Rng rng(test_seed());
  int builds = 0;
  for (const mask::Scanner* scanner : mask::scanners()) {
    if (!machine_has(scanner->needs)) continue;
    ++builds;
    SCOPED_TRACE(scanner->name);
    for (int round = 0; round < 400; ++round) {
      const int64_t keys = round < 140 ? round : rng.between(140, 1500);
      const std::vector<float> row = row_of(keys, round % 3 == 0 ? 0.01 : 0.0, rng);
      expect_scanned<f16>(scanner->f16, row);
      expect_scanned<bf16>(scanner->bf16, row);
      expect_scanned<float>(scanner->f32, row);
    }
  }
  EXPECT_GE(builds, 1);
}

TEST(MaskScan, one_weight_anywhere_is_found) {
  for (const mask::Scanner* scanner : mask::scanners()) {
    if (!machine_has(scanner->needs)) continue;
    for (size_t at = 0; at < 700; ++at) {
      for (const float around : {hidden, 0.0f}) {
        std::vector<float> row(700, around);
        row[at] = -3.0f;
        expect_scanned<f16>(scanner->f16, row);
        expect_scanned<float>(scanner->f32, row);
      }
    }
  }
}

/// The only pattern that hides is that of -inf.
TEST(MaskScan, of_all_patterns_of_16_bits_one_hides) {
  for (const mask::Scanner* scanner : mask::scanners()) {
    if (!machine_has(scanner->needs)) continue;
    std::vector<uint16_t> row(65536);
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<uint16_t>(i);
    std::vector<uint64_t> bits(1024);
    for (const auto& [scan, pattern] :
         {std::pair{scanner->f16, 0xfc00u}, std::pair{scanner->bf16, 0xff80u}}) {
      EXPECT_TRUE(scan(row.data(), 65536, bits.data()));
      for (size_t i = 0; i < row.size(); ++i)
        ASSERT_EQ((bits[i / 64] >> (i % 64) & 1) == 0, i == pattern) << i;
    }
  }
}

}  // namespace
}  // namespace folio::test
