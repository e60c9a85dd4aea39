// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/scaled_rows_test.cpp: rows times scales along them, and blocks, as they are staged:
/// the bits that an element's own conversion gives, one after the other.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cpu/byte_rows_entries.h"
#include "cpu/features.h"
#include "folio/cache/page_walk.h"
#include "folio/core/element.h"
#include "reference/blocks.h"
#include "reference/elements.h"
#include "support/block_dtypes.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr DType stored_types[] = {DType::i8,  DType::f8_e4m3, DType::f8_e5m2,
                                  DType::f16, DType::bf16,    DType::f32};
constexpr DType scale_types[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                 DType::f8_e4m3};
constexpr int sizes[] = {1, 8, 15, 16, 31, 32, 40, 63, 64, 65, 72, 120, 128, 200, 256, 576};

class ScaledRows : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!machine_has(Capability::avx512_bf16))
      GTEST_SKIP() << "this machine lacks the AVX512-BF16 instructions";
  }
};
std::string name_of(const ::testing::TestParamInfo<DType>& info) {
  return std::string(name(info.param));
}
INSTANTIATE_TEST_SUITE_P(Types, ScaledRows, ::testing::ValuesIn(stored_types), name_of);

/// A row and its scales, where nothing behind either may be read.
struct Row {
  ScaledRow row;
  GuardedMemory elements, scales;

  Row(Rng& rng, DType dtype, DType scale, int n, int granularity, int phase, const float* tensor)
      : row{dtype, nullptr, {}, nullptr, phase, n},
        elements(int64_t{n} * bit_width(dtype) / 8, 1),
        scales(std::max(
                   int64_t{(phase + n - 1) / granularity} * stride(scale, n) + bit_width(scale) / 8,
                   int64_t{1}),
               1) {
    for (int64_t i = 0; i < elements.bytes(); ++i)
      elements.data()[i] = static_cast<std::byte>(rng.next());
    for (int i = 0; dtype == DType::f32 && i < n; ++i) {  // products stay far from subnormals
      const float x = rng.uniform(-3.0f, 3.0f);
      std::memcpy(elements.data() + i * 4, &x, sizeof x);
    }
    row.view.dtype = scale;
    row.view.granularity = granularity;
    row.view.granule_stride_bytes = stride(scale, n);
    row.view.tensor_scale = tensor;
    for (int g = 0; g * granularity < phase + n; ++g)
      reference::store(scales.data() + g * row.view.granule_stride_bytes, scale,
                       scale == DType::f8_e8m0 ? std::exp2(rng.int_between(-3, 3))
                                               : static_cast<double>(rng.uniform(0.1f, 2.0f)));
    row.from = elements.data();
    row.scales = scales.data();
  }

  /// Side by side, or apart.
  static int64_t stride(DType scale, int n) { return bit_width(scale) / 8 * (n % 3 == 1 ? 3 : 1); }

  [[nodiscard]] float expected(int i) const {
    const std::byte* const at =
        static_cast<const std::byte*>(row.scales) +
        (row.phase + i) / row.view.granularity * row.view.granule_stride_bytes;
    float factor = detail::load_scale(at, row.view.dtype);
    if (row.view.tensor_scale != nullptr) factor *= *row.view.tensor_scale;
    const auto bytes = bit_width(row.dtype) / 8;
    return static_cast<float>(reference::load(elements.data() + i * bytes, row.dtype)) * factor;
  }
};

void expect_bf16(uint16_t actual, float exact, int i) {
  const uint16_t expected = from_float<bf16>(exact).bits;
  if (std::isnan(exact)) {
    EXPECT_TRUE(std::isnan(to_float(bf16{actual}))) << i;
  } else if (std::fabs(exact) < std::numeric_limits<float>::min()) {
    EXPECT_TRUE(actual == expected || (actual & 0x7fff) == 0) << i;
  } else {
    ASSERT_EQ(actual, expected) << i;
  }
}

TEST_P(ScaledRows, are_products_rounded_once_whatever_the_granularity_and_nothing_else_is_touched) {
  Rng rng(test_seed());
  const float tensor = 0.37f;
  for (const int n : sizes) {
    for (const int granularity : {1, 2, 3, 8, 12, 16, 24, 32, 48, 64, 100, 128, 1000}) {
      const int phase = rng.chance(0.5) ? 0 : rng.int_between(0, granularity - 1);
      const DType scale = rng.pick(scale_types);
      SCOPED_TRACE("n " + std::to_string(n) + ", granularity " + std::to_string(granularity) +
                   ", phase " + std::to_string(phase) + ", scales " + std::string(name(scale)));
      const Row row(rng, GetParam(), scale, n, granularity, phase,
                    rng.chance(0.5) ? &tensor : nullptr);
      const GuardedMemory halves(int64_t{n} * 2, 2), floats(int64_t{n} * 4, 4);
      auto* const words = reinterpret_cast<uint16_t*>(halves.data());
      auto* const values = reinterpret_cast<float*>(floats.data());
      bf16_row_of_scaled(row.row, words);
      f32_row_of_scaled(row.row, values);
      for (int i = 0; i < n; ++i) {
        const float exact = row.expected(i);
        expect_bf16(words[i], exact, i);
        if (std::isnan(exact)) {
          EXPECT_TRUE(std::isnan(values[i])) << i;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(exact)) << i;
        }
      }
    }
  }
}

class StagedBlocks : public ScaledRows {};
INSTANTIATE_TEST_SUITE_P(Types, StagedBlocks, ::testing::ValuesIn(block_dtypes), name_of);

TEST_P(StagedBlocks, are_the_values_of_the_definition_rounded_to_bf16) {
  Rng rng(test_seed());
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const int n = 32 * rng.int_between(1, 18);
    const auto block = static_cast<int>(row_bytes(GetParam(), 32));
    const GuardedMemory from(n / 32 * block, 1), to(int64_t{n} * 2, 2);
    for (int64_t i = 0; i < from.bytes(); ++i) from.data()[i] = static_cast<std::byte>(rng.next());
    for (int b = 0; b < n / 32; ++b) {  // of any sign; a second number is one only in some formats
      reference::store(from.data() + b * block, DType::f16,
                       static_cast<double>(rng.uniform(-2.0f, 2.0f)));
      if (has_minimum(GetParam()))
        reference::store(from.data() + b * block + 2, DType::f16,
                         static_cast<double>(rng.uniform(-2.0f, 2.0f)));
    }
    std::vector<double> values(static_cast<size_t>(n));
    reference::load_row(from.data(), GetParam(), n, values.data());
    auto* const words = reinterpret_cast<uint16_t*>(to.data());
    bf16_row_of_bytes(GetParam(), from.data(), words, n);
    for (int i = 0; i < n; ++i)
      expect_bf16(words[i], static_cast<float>(values[static_cast<size_t>(i)]), i);
  }
}

}  // namespace
}  // namespace folio::test
