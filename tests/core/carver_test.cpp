// SPDX-License-Identifier: Apache-2.0
/// tests/core/carver_test.cpp: parts are apart and aligned, and sizes beyond int64 are noticed.
#include "core/carver.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace folio::test {
namespace {

TEST(Carver, measuring_and_carving_agree) {
  alignas(Carver::alignment) std::byte block[256];
  Carver measured(nullptr), carved(block);
  EXPECT_EQ(measured.take<char>(65), nullptr);
  EXPECT_EQ(static_cast<void*>(carved.take<char>(65)), block);
  measured.take<int32_t>(0);
  EXPECT_EQ(static_cast<void*>(carved.take<int32_t>(0)), block + 128) << "no bytes, but a place";
  measured.take<int64_t>(16);
  EXPECT_EQ(static_cast<void*>(carved.take<int64_t>(16)), block + 128);
  EXPECT_EQ(measured.bytes(), 256);
  EXPECT_EQ(carved.bytes(), 256);
  EXPECT_FALSE(measured.overflow());
}

TEST(Carver, sizes_beyond_63_bits_are_remembered) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  Carver product(nullptr), rounded(nullptr), sum(nullptr);
  product.take<int32_t>(most / 2);
  EXPECT_TRUE(product.overflow());
  product.take<char>(1);
  EXPECT_TRUE(product.overflow()) << "for good";
  rounded.take<char>(most);
  EXPECT_TRUE(rounded.overflow());
  sum.take<char>(most / 2);
  EXPECT_FALSE(sum.overflow());
  sum.take<char>(most / 2);
  EXPECT_TRUE(sum.overflow());
}

}  // namespace
}  // namespace folio::test
