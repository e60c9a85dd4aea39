// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/encode_calls_test.cpp: what encode() asks the driver; the driver is
/// tests/cuda/fake_driver.cpp.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/fake_driver.h"
#include "folio/tma/encode.h"
#include "folio/tma/gather4.h"
#include "tma/planes.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EncodeCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* function = reinterpret_cast<FakeDriverFunction*>(dlsym(library, "fake_driver"));
    ASSERT_NE(function, nullptr) << "another libcuda.so.1 was loaded";
    driver = function();
    const int inits = driver->inits;
    *driver = {};
    driver->inits = inits;
  }
  void TearDown() override {
    EXPECT_EQ(driver->retained, 0) << "a context was not released";
    EXPECT_EQ(driver->pushed, 0) << "a context stayed current";
  }
  static std::string refusal(const Result<tma::EncodedTensorMap>& result, Errc code) {
    EXPECT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code(), code);
    return std::string(result.error().message());
  }

  FakeDriver* driver = nullptr;
  TMATensorTile<3> tile = tma::cache_tile(
      plane_of({}),
      {.swizzle = tma::Swizzle::b128, .rows = 64, .l2_promotion = tma::L2Promotion::b256});
};

TEST_F(EncodeCalls, pass_every_field_in_the_drivers_order) {
  tile.map.element_stride[2] = 2;
  tile.map.oob_fill = tma::OobFill::nan;
  const Result<tma::EncodedTensorMap> encoded = tma::encode(tile);
  ASSERT_TRUE(encoded) << encoded.error().message();
  for (const uint64_t word : encoded->words) EXPECT_EQ(word, 0x5a5a'5a5a'5a5a'5a5a);

  const EncodeCall& call = driver->encoded;
  EXPECT_EQ(call.count, 1);
  EXPECT_TRUE(call.in_context);
  EXPECT_EQ(call.dtype, 9) << "bf16";
  EXPECT_EQ(call.rank, 3u);
  EXPECT_EQ(reinterpret_cast<uint64_t>(call.base), storage);
  // Two heads of 128, five pages of 16 rows of which six planes lie in a page.
  EXPECT_THAT(call.dims, ElementsAre(128, 2, 4 * 96 + 16, 0, 0));
  EXPECT_THAT(call.strides, ElementsAre(256, 512, 0, 0)) << "bytes, without dimension 0";
  EXPECT_THAT(call.box, ElementsAre(64, 1, 16, 0, 0));
  EXPECT_THAT(call.element_strides, ElementsAre(1, 1, 2, 0, 0));
  EXPECT_EQ(call.interleave, 0);
  EXPECT_EQ(call.swizzle, 3);
  EXPECT_EQ(call.l2_promotion, 3);
  EXPECT_EQ(call.oob_fill, 1);
}

TEST_F(EncodeCalls, initialise_the_driver_once) {
  ASSERT_TRUE(tma::encode(tile));
  ASSERT_TRUE(tma::encode(tile));
  EXPECT_EQ(driver->inits, 1);
  EXPECT_EQ(driver->encoded.count, 2);
}

TEST_F(EncodeCalls, never_reach_the_driver_with_a_broken_rule) {
  tile.map.box[2] = 257;
  EXPECT_THAT(refusal(tma::encode(tile), Errc::invalid_argument), HasSubstr("box[2] is 257"));
  EXPECT_EQ(driver->encoded.count, 0);
}

TEST_F(EncodeCalls, repeat_the_drivers_reason) {
  driver->encode_result = 1;
  EXPECT_EQ(
      refusal(tma::encode(tile), Errc::device),
      "encode: cuTensorMapEncodeTiled failed with 1 (CUDA_ERROR_INVALID_VALUE): invalid argument");
  driver->encode_result = 777;
  EXPECT_THAT(refusal(tma::encode(tile), Errc::device), HasSubstr("777 (unknown error)"));
}

TEST_F(EncodeCalls, name_a_device_that_is_not_there) {
  EXPECT_THAT(refusal(tma::encode(tile, {Device::Kind::cuda, 1}), Errc::device),
              HasSubstr("cuDeviceGet failed with 101"));
  driver->num_devices = 2;
  EXPECT_TRUE(tma::encode(tile, {Device::Kind::cuda, 1}));
}

TEST_F(EncodeCalls, leave_no_context_behind_when_entering_fails) {
  driver->retain_result = 2;
  EXPECT_THAT(refusal(tma::encode(tile), Errc::device), HasSubstr("cuDevicePrimaryCtxRetain"));
  driver->retain_result = 0;
  driver->push_result = 201;
  EXPECT_THAT(refusal(tma::encode(tile), Errc::device), HasSubstr("cuCtxPushCurrent"));
  EXPECT_EQ(driver->encoded.count, 0);
}

TEST_F(EncodeCalls, refuse_hardware_without_tensor_maps) {
  driver->major = 8;
  driver->minor = 9;
  EXPECT_THAT(refusal(tma::encode(tile), Errc::unsupported),
              HasSubstr("tensor maps need compute capability 9.0, device 40 has 8.9"));
}

TEST_F(EncodeCalls, refuse_gather4_before_compute_capability_10) {
  const auto gather =
      tma::gather4_tile(plane_of({}), {.tile_width = 256, .swizzle = tma::Swizzle::b128});
  ASSERT_TRUE(gather.check().is_ok()) << gather.check().message();
  EXPECT_THAT(refusal(tma::encode(gather), Errc::unsupported),
              HasSubstr("gather4 needs compute capability 10.0, device 40 has 9.0"));
  driver->major = 10;
  EXPECT_TRUE(tma::encode(gather));
  EXPECT_THAT(driver->encoded.box, ElementsAre(64, 1, 0, 0, 0));
}

}  // namespace
}  // namespace folio::test
