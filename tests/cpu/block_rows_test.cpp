// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/block_rows_test.cpp: blocks as the row kernels write them, in every build, against the
/// reference, blocks worked out by hand, and the error that each format may make.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cpu/append/rows.h"
#include "cpu/features.h"
#include "reference/blocks.h"
#include "reference/elements.h"
#include "support/block_dtypes.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

class BlockRows : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Blocks, BlockRows, ::testing::ValuesIn(block_dtypes),
                         [](const auto& each) { return std::string(name(each.param)); });

rows::Conversion conversion(DType from, DType to, int32_t heads, int64_t head_size) {
  rows::Conversion job;
  job.heads = heads;
  job.head_size = head_size;
  job.source = {from, row_bytes(from, head_size)};
  job.target = {to, row_bytes(to, head_size)};
  return job;
}

std::vector<std::byte> written(const rows::Kernel& kernel, const rows::Conversion& job,
                               const void* source, const float* cos_sin = nullptr,
                               std::byte* scales = nullptr) {
  const GuardedMemory target(job.heads * job.target.head_stride_bytes, 2);
  const rows::TokenRow row{static_cast<const std::byte*>(source), target.data(), cos_sin, nullptr,
                           scales};
  kernel.write(&job, 1, &row, 1);
  return {target.data(), target.data() + target.bytes()};
}

/// The rows that every build writes, expected to be the same.
std::vector<std::byte> written_by_all(const rows::Conversion& job, const void* source,
                                      const float* cos_sin = nullptr) {
  std::vector<std::byte> first;
  for (const rows::Kernel* kernel : rows::kernels()) {
    if (!machine_has(kernel->needs)) continue;
    const std::vector<std::byte> bytes = written(*kernel, job, source, cos_sin);
    if (first.empty()) first = bytes;
    EXPECT_EQ(bytes == first, true)
        << kernel->name << ", " << name(job.source.dtype) << " to " << name(job.target.dtype);
  }
  return first;
}

std::vector<std::byte> expected_of(DType dtype, const std::vector<float>& x) {
  std::vector<std::byte> bytes(
      static_cast<size_t>(row_bytes(dtype, static_cast<int64_t>(x.size()))));
  reference::store_blocks(bytes.data(), dtype, x);
  return bytes;
}

std::vector<double> read_back(DType dtype, const std::vector<std::byte>& bytes, size_t n) {
  std::vector<double> values(n);
  reference::load_row(bytes.data(), dtype, static_cast<int64_t>(n), values.data());
  return values;
}

/// Rows of one size of numbers, with ties of patterns, equal extremes and specials among them.
std::vector<float> random_row(Rng& rng, size_t n, bool with_specials) {
  const float specials[] = {0.0f,  -0.0f,  infinity, -infinity, not_a_number, 1e-42f,
                            3e38f, -3e38f, 7e4f,     -9e6f,     1e-30f};
  std::vector<float> x(n);
  for (size_t first = 0; first < n; first += 32) {
    const float size = std::exp2(static_cast<float>(rng.int_between(-24, 20)));
    const bool has_steps = rng.chance(0.3), has_one_sign = rng.chance(0.2);
    for (size_t i = first; i < first + 32; ++i) {
      float value = rng.uniform(-size, size);
      if (has_steps) value = size * static_cast<float>(rng.int_between(-32, 32));
      if (has_one_sign) value = std::fabs(value);
      x[i] = with_specials && rng.chance(0.1) ? rng.pick(specials) : value;
    }
  }
  return x;
}

TEST_P(BlockRows, are_what_the_rule_says_from_any_source) {
  Rng rng(test_seed());
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE(round);
    const int32_t heads = rng.int_between(1, 9);
    const int64_t head_size = int64_t{32} * rng.int_between(1, 6);
    std::vector<float> x = random_row(rng, static_cast<size_t>(heads * head_size), rng.chance(0.5));
    for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
      std::vector<std::byte> source(static_cast<size_t>(row_bytes(from, heads * head_size)));
      std::vector<float> stored(x.size());
      const auto width = static_cast<size_t>(bit_width(from) / 8);
      for (size_t i = 0; i < x.size(); ++i) {
        reference::store(&source[i * width], from, static_cast<double>(x[i]));
        stored[i] = static_cast<float>(reference::load(&source[i * width], from));
      }
      const rows::Conversion job = conversion(from, GetParam(), heads, head_size);
      ASSERT_EQ(written_by_all(job, source.data()) == expected_of(GetParam(), stored), true)
          << name(from);
    }
  }
}

TEST_P(BlockRows, past_the_caches_are_the_same_and_nothing_beside) {
  Rng rng(test_seed());
  constexpr size_t line = 64;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const auto n = static_cast<size_t>(32 * (rng.chance(0.3) ? rng.between(1, 400) : 32));
    const std::vector<float> x = random_row(rng, n, rng.chance(0.2));
    rows::Conversion job = conversion(DType::f32, GetParam(), 1, static_cast<int64_t>(n));
    job.streams = true;
    const std::vector<std::byte> expected = expected_of(GetParam(), x);
    const size_t begin = line + (rng.chance(0.7) ? 0 : static_cast<size_t>(rng.between(1, 63)));
    for (const rows::Kernel* kernel : rows::kernels()) {
      if (!machine_has(kernel->needs)) continue;
      std::vector<std::byte> memory(expected.size() + 4 * line, std::byte{7});
      const auto address = reinterpret_cast<uintptr_t>(memory.data());
      const size_t first = begin + (line - address % line) % line;  // `begin` of a line
      std::vector<std::byte> wanted = memory;
      std::memcpy(wanted.data() + first, expected.data(), expected.size());
      const rows::TokenRow row{reinterpret_cast<const std::byte*>(x.data()), memory.data() + first,
                               nullptr, nullptr, nullptr};
      kernel->write(&job, 1, &row, 1);
      ASSERT_EQ(memory == wanted, true) << kernel->name << ", " << n << " elements";
    }
  }
}

TEST_P(BlockRows, are_made_of_the_rotated_row) {
  Rng rng(test_seed());
  for (int round = 0; round < 40; ++round) {
    const int64_t head_size = int64_t{32} * rng.int_between(1, 6);
    const int32_t heads = rng.int_between(1, 5);
    const std::vector<float> x = random_row(rng, static_cast<size_t>(heads * head_size), false);
    std::vector<float> angles(static_cast<size_t>(head_size));
    for (float& a : angles) a = rng.uniform(-1.0f, 1.0f);
    for (const DType from : {DType::f32, DType::bf16}) {
      std::vector<std::byte> source(static_cast<size_t>(row_bytes(from, heads * head_size)));
      const auto width = static_cast<size_t>(bit_width(from) / 8);
      for (size_t i = 0; i < x.size(); ++i)
        reference::store(&source[i * width], from, static_cast<double>(x[i]));
      rows::Conversion job = conversion(from, GetParam(), heads, head_size);
      rows::Conversion rotation = conversion(from, DType::f32, heads, head_size);
      job.rope_dims = rotation.rope_dims = 2 * rng.int_between(1, static_cast<int>(head_size) / 2);
      job.interleaved = rotation.interleaved = rng.chance(0.5);
      const std::vector<std::byte> rotated =
          written(rows::kernel(), rotation, source.data(), angles.data());
      std::vector<float> row(x.size());
      std::memcpy(row.data(), rotated.data(), rotated.size());
      ASSERT_EQ(written_by_all(job, source.data(), angles.data()) == expected_of(GetParam(), row),
                true)
          << name(from);
    }
  }
}

TEST_P(BlockRows, are_read_as_the_values_that_the_definition_gives) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    const int64_t n = int64_t{32} * rng.int_between(1, 8);
    const auto count = static_cast<size_t>(n);
    const std::vector<std::byte> blocks = expected_of(GetParam(), random_row(rng, count, false));
    const std::vector<double> values = read_back(GetParam(), blocks, count);
    const std::vector<std::byte> floats =
        written_by_all(conversion(GetParam(), DType::f32, 1, n), blocks.data());
    std::vector<float> actual(count);
    std::memcpy(actual.data(), floats.data(), floats.size());
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(actual[i], static_cast<float>(values[i])) << i;
    // and on to another format; to the same one bytes move
    for (const DType to : block_dtypes)
      ASSERT_EQ(written_by_all(conversion(GetParam(), to, 1, n), blocks.data()) ==
                    (to == GetParam() ? blocks : expected_of(to, actual)),
                true)
          << name(to);
  }
}

TEST_P(BlockRows, no_element_is_further_from_its_value_than_the_format_promises) {
  Rng rng(test_seed());
  double worst = 0.0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<float> x(32);
    const float size = std::exp2(static_cast<float>(rng.int_between(-2, 10)));
    const float centre = rng.chance(0.3) ? rng.uniform(-4.0f, 4.0f) * size : 0.0f;
    for (float& v : x) v = centre + rng.uniform(-size, size);
    if (rng.chance(0.3)) x[static_cast<size_t>(rng.int_between(0, 31))] *= 4.0f;  // an outlier
    if (rng.chance(0.1)) x[3] = -x[9];
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    const double bound =
        reference::block_error(GetParam(), static_cast<double>(*low), static_cast<double>(*high));
    const std::vector<double> values =
        read_back(GetParam(),
                  written(rows::kernel(), conversion(DType::f32, GetParam(), 1, 32), x.data()), 32);
    for (size_t i = 0; i < 32; ++i)
      worst = std::max(worst, std::fabs(values[i] - static_cast<double>(x[i])) / bound);
  }
  EXPECT_LE(worst, 1.0);
  EXPECT_GE(worst, 0.5) << "the promise says more than it could";
}

TEST_P(BlockRows, values_that_a_block_has_come_back_as_they_were) {
  std::vector<float> zeros(32, 0.0f);
  zeros[5] = -0.0f;
  for (const float value : {0.0f, 1.0f, -2.5f, 40000.0f}) {
    std::vector<float> x(32, value);
    if (value == 0.0f) x = zeros;
    const std::vector<double> back = read_back(
        GetParam(), written_by_all(conversion(DType::f32, GetParam(), 1, 32), x.data()), 32);
    const double step = GetParam() == DType::q8_0 || GetParam() == DType::iq4_nl ? 0x1p-10 : 0.0;
    for (const double v : back) ASSERT_NEAR(v, value, std::fabs(value) * step) << value;
  }
}

TEST_P(BlockRows, specials_spoil_no_finite_neighbour) {
  std::vector<float> x(32);
  for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i) - 12.0f;
  std::vector<float> with = x;
  with[12] = not_a_number;  // the element that is 0
  with[31] = infinity;
  with[0] = -infinity;
  x[31] = x[30];
  x[0] = x[1];
  const rows::Conversion job = conversion(DType::f32, GetParam(), 1, 32);
  const std::vector<double> back = read_back(GetParam(), written_by_all(job, with.data()), 32),
                            finite = read_back(GetParam(), written_by_all(job, x.data()), 32);
  const double bound = reference::block_error(GetParam(), -11.0, 18.0);
  for (size_t i = 0; i < 32; ++i) {
    if (i != 0 && i != 31) {
      EXPECT_NEAR(back[i], finite[i], bound) << i;
      EXPECT_NEAR(back[i], static_cast<double>(i) - 12.0, bound) << i;
    }
    EXPECT_TRUE(std::isfinite(back[i])) << i;
  }
  EXPECT_GE(back[31], 18.0 - bound);
  EXPECT_LE(back[0], -11.0 + bound);
}

TEST_P(BlockRows, numbers_beyond_f16_saturate_and_below_it_vanish) {
  const rows::Conversion job = conversion(DType::f32, GetParam(), 1, 32);
  std::vector<float> x(32, 1.0f);
  x[3] = 3e38f;
  x[4] = -3e38f;
  std::vector<double> back = read_back(GetParam(), written_by_all(job, x.data()), 32);
  for (const double v : back) EXPECT_TRUE(std::isfinite(v));
  EXPECT_GE(back[3], 65504.0 * 7) << "as large as the format goes";
  x.assign(32, 1e-12f);
  x[7] = std::numeric_limits<float>::denorm_min();
  x[8] = -1e-30f;
  back = read_back(GetParam(), written_by_all(job, x.data()), 32);
  for (const double v : back) EXPECT_EQ(v, 0.0);
  x.assign(32, not_a_number);
  x[9] = infinity;
  back = read_back(GetParam(), written_by_all(job, x.data()), 32);
  for (const double v : back) EXPECT_EQ(v, 0.0) << "a block without finite elements has d 0";
}

std::vector<std::byte> bytes_of(std::initializer_list<int> list) {
  std::vector<std::byte> bytes;
  for (const int b : list) bytes.push_back(static_cast<std::byte>(b));
  return bytes;
}

/// Worked out by hand: elements 0 to 7 as given, all others 0.
std::vector<std::byte> block_of(DType dtype, std::initializer_list<float> first) {
  std::vector<float> x(32, 0.0f);
  std::copy(first.begin(), first.end(), x.begin());
  return written_by_all(conversion(DType::f32, dtype, 1, 32), x.data());
}

TEST(BlockRowsByHand, q8_0_rounds_halves_away_from_zero) {
  // d = 127 / 127 = 1 = 0x3c00
  std::vector<std::byte> expected(34);
  const int patterns[] = {127, 3, -3, 1, 0, 2, -1, -126};
  expected[1] = std::byte{0x3c};
  for (size_t i = 0; i < 8; ++i) expected[i + 2] = static_cast<std::byte>(patterns[i]);
  EXPECT_EQ(block_of(DType::q8_0, {127.0f, 2.5f, -2.5f, 0.5f, 0.49999997f, 1.5f, -0.5f, -126.4f}),
            expected);
}

TEST(BlockRowsByHand, q4_0_takes_d_from_the_signed_extreme_the_first_of_two) {
  // extreme -8: d = 1, patterns x + 8; the 8 that follows has no pattern and becomes 15
  EXPECT_EQ(block_of(DType::q4_0, {-8.0f, 8.0f, 0.5f, -0.5f, 1.0f, -7.6f}),
            bytes_of({0x00, 0x3c, 0x80, 0x8f, 0x89, 0x88, 0x89, 0x80, 0x88, 0x88, 0x88, 0x88, 0x88,
                      0x88, 0x88, 0x88, 0x88, 0x88}));
  // extreme 8: d = -1 = 0xbc00, patterns 8 - x
  EXPECT_EQ(block_of(DType::q4_0, {8.0f, -8.0f, 3.0f}),
            bytes_of({0x00, 0xbc, 0x80, 0x8f, 0x85, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
                      0x88, 0x88, 0x88, 0x88, 0x88}));
}

TEST(BlockRowsByHand, q4_1_spans_from_the_smallest_to_the_largest) {
  // m = -5 = 0xc500, d = 15 / 15 = 1, patterns x + 5
  EXPECT_EQ(block_of(DType::q4_1, {-5.0f, 10.0f, 0.5f, 0.4f}),
            bytes_of({0x00, 0x3c, 0x00, 0xc5, 0x50, 0x5f, 0x56, 0x55, 0x55, 0x55,
                      0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55}));
}

TEST(BlockRowsByHand, q5_0_and_q5_1_keep_fifth_bits_apart) {
  // extreme -16: d = 1, patterns x + 16; of zeros 16: the fifth bit is set
  EXPECT_EQ(block_of(DType::q5_0, {-16.0f, -1.0f, 15.0f, -2.0f}),
            bytes_of({0x00, 0x3c, 0xf4, 0xff, 0xff, 0xff, 0x00, 0x0f, 0x0f, 0x0e, 0x00,
                      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00}));
  // m = -1 = 0xbc00, d = 31 / 31 = 1, patterns x + 1
  EXPECT_EQ(block_of(DType::q5_1, {-1.0f, 30.0f, 15.0f, 14.0f}),
            bytes_of({0x00, 0x3c, 0x00, 0xbc, 0x06, 0x00, 0x00, 0x00, 0x10, 0x1f, 0x10, 0x1f,
                      0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11}));
}

TEST(BlockRowsByHand, iq4_nl_takes_the_nearest_value_the_larger_of_two_and_fits_d) {
  // extreme -127: d = 1; all others are values of the table, so the fit changes nothing; zeros are
  // nearer to 1 (pattern 8) than to -10; they weigh nothing
  EXPECT_EQ(block_of(DType::iq4_nl, {-127.0f, 113.0f, -10.0f, 53.0f}),
            bytes_of({0x00, 0x3c, 0x80, 0x8f, 0x87, 0x8c, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88, 0x88,
                      0x88, 0x88, 0x88, 0x88, 0x88}));
  // 7 lies in the middle of 1 and 13, 101 of 89 and 113; d is less than 1 by the fit
  const std::vector<std::byte> block = block_of(DType::iq4_nl, {-127.0f, 7.0f, 101.0f, 6.9f});
  EXPECT_EQ(block[3], std::byte{0x89});
  EXPECT_EQ(block[4], std::byte{0x8f});
  EXPECT_EQ(block[5], std::byte{0x88});
  const double weight = 101.0 * 101.0, own = std::pow(127.0, 4);
  EXPECT_NEAR(reference::load(block.data(), DType::f16),
              (own + weight * 113 * 101 + 49 * 13 * 7 + 6.9 * 6.9 * 6.9) /
                  (own + weight * 113 * 113 + 49 * 13 * 13 + 6.9 * 6.9),
              0x1p-11);
}

}  // namespace
}  // namespace folio::test
