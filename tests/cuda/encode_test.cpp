// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/encode_test.cpp: encode() on whatever machine this is: with a driver it encodes,
/// without one it says so.
#include "folio/tma/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "folio/tma/gather4.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

TEST(Encode, checks_the_map_before_it_looks_for_a_driver) {
  tma::TensorMap map = tma::cache_tile(plane_of({}), {tma::Swizzle::b128, 64}).map;
  map.stride_bytes[2] += 8;
  const Result<tma::EncodedTensorMap> encoded = tma::encode(map);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(encoded.error().message()), HasSubstr("encode: stride_bytes[2]"));
}

TEST(Encode, says_why_a_builder_refused) {
  CacheShape shape;
  shape.num_pages = int64_t{1} << 31;
  const auto tile = tma::cache_tile(plane_of(shape), {tma::Swizzle::b128, 64});
  const Result<tma::EncodedTensorMap> encoded = tma::encode(tile);
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(encoded.error().message()), HasSubstr("32-bit coordinates"));
  const Result<tma::EncodedTensorMap> ragged =
      tma::encode(tma::ragged_tile(plane_of(shape), {tma::Swizzle::b128, 64}));
  EXPECT_EQ(ragged.error().code(), Errc::invalid_argument);
}

TEST(Encode, needs_a_cuda_device) {
  const auto tile = tma::cache_tile(plane_of({}), {tma::Swizzle::b128, 64});
  const Result<tma::EncodedTensorMap> encoded = tma::encode(tile, Device{});
  ASSERT_FALSE(encoded);
  EXPECT_EQ(encoded.error().code(), Errc::invalid_argument);
}

TEST(Encode, encodes_or_gives_the_reason) {
  const auto tile = tma::cache_tile(plane_of({}), {tma::Swizzle::b128, 64});
  ASSERT_TRUE(tile.check().is_ok());
  const Result<tma::EncodedTensorMap> encoded = tma::encode(tile);
  if (encoded) {
    EXPECT_NE(*encoded, tma::EncodedTensorMap{});
    return;
  }
  const std::string message(encoded.error().message());
#ifdef FOLIO_TEST_WITHOUT_CUDA
  EXPECT_EQ(encoded.error().code(), Errc::unsupported);
  EXPECT_THAT(message, HasSubstr("FOLIO_CUDA=OFF"));
#else
  EXPECT_THAT(encoded.error().code(), ::testing::AnyOf(Errc::device, Errc::unsupported)) << message;
  EXPECT_THAT(message, HasSubstr("encode: "));
#endif
}

}  // namespace
}  // namespace folio::test
