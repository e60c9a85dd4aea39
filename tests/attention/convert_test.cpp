// SPDX-License-Identifier: Apache-2.0
/// tests/attention/convert_test.cpp: the vectorised conversions against the plain ones of
/// core/dtype.h, bit for bit.
#include "attention/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace folio::test {
namespace {

template <class T>
uint32_t code_of(T x) {
  uint32_t code = 0;
  std::memcpy(&code, &x, sizeof x);
  return code;
}

/// Floats where rounding decides: every value of T, the middle between neighbours, one step around
/// each; and a stride over all floats.
template <class T>
std::vector<float> interesting_floats() {
  std::vector<float> floats;
  const auto around = [&](double x) {
    const auto f = static_cast<float>(x);
    for (const float y : {std::nextafter(f, -INFINITY), f, std::nextafter(f, INFINITY)}) {
      floats.push_back(y);
      floats.push_back(-y);
    }
  };
  const int patterns = 1 << (8 * sizeof(T) - 1);  // the positive half
  for (int i = 0; i < patterns; ++i) {
    T x{}, next{};
    const auto code = static_cast<uint32_t>(i), next_code = static_cast<uint32_t>(i + 1);
    std::memcpy(static_cast<void*>(&x), &code, sizeof x);
    std::memcpy(static_cast<void*>(&next), &next_code, sizeof next);
    around(static_cast<double>(to_float(x)));
    around((static_cast<double>(to_float(x)) + static_cast<double>(to_float(next))) / 2.0);
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4099)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  return floats;
}

template <class T>
class Narrow : public ::testing::Test {};
using Narrowed = ::testing::Types<bf16, f16, f8_e4m3, f8_e5m2, int8_t>;
TYPED_TEST_SUITE(Narrow, Narrowed);

TYPED_TEST(Narrow, equals_from_float_for_every_rounding_case) {
  const std::vector<float> floats = interesting_floats<TypeParam>();
  std::vector<TypeParam> narrow(floats.size());
  narrow_row_of(dtype_of<TypeParam>)(floats.data(), static_cast<int64_t>(floats.size()),
                                     reinterpret_cast<std::byte*>(narrow.data()));
  int64_t wrong = 0;
  for (size_t i = 0; i < floats.size(); ++i) {
    if (code_of(narrow[i]) == code_of(from_float<TypeParam>(floats[i]))) continue;
    if (++wrong <= 5)
      ADD_FAILURE() << std::hexfloat << floats[i] << " became " << code_of(narrow[i]);
  }
  EXPECT_EQ(wrong, 0) << "of " << floats.size();
}

template <class T>
class Widen : public ::testing::Test {};
using Widened = ::testing::Types<bf16, f16>;
TYPED_TEST_SUITE(Widen, Widened);

TYPED_TEST(Widen, equals_to_float_for_every_pattern) {
  std::vector<uint16_t> codes(1 << 16);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  std::vector<float> wide(codes.size());
  widen_row_of(dtype_of<TypeParam>)(reinterpret_cast<const std::byte*>(codes.data()), 1 << 16,
                                    wide.data());
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(code_of(wide[i]), code_of(to_float(TypeParam{codes[i]}))) << i;
  }
}

}  // namespace
}  // namespace folio::test
