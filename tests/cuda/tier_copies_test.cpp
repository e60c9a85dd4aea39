// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/tier_copies_test.cpp: copies of pages by the CUDA driver, here that of the
/// tests.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cuda/fake_device.h"
#include "cuda/fake_driver.h"
#include "folio/tier/host_tier.h"
#include "support/cuda_device.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t bytes = 4096;

template <class Function>
Function* in_driver(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

struct CudaCopies : ::testing::Test {
  CudaCopies() {
    fake.order = WorkOrder::late;
    cuda.call("cuStreamCreate", &stream, 1U);
    copies = make_cuda_copies({.stream = stream}).value();
  }
  ~CudaCopies() override {
    copies = nullptr;
    cuda.call("cuStreamDestroy_v2", stream);
    EXPECT_EQ(fake.retained, 1) << "that of the test";
    EXPECT_EQ(fake.pushed, 1);
  }

  FakeDriver& fake = *in_driver<FakeDriverFunction>("fake_driver")();
  const CudaDevice& cuda = *CudaDevice::find();
  void* stream = nullptr;
  std::shared_ptr<DeviceCopies> copies;
};

TEST_F(CudaCopies, come_behind_what_is_on_the_stream) {
  const CudaMemory there(cuda, bytes);
  std::byte* const here = copies->allocate(bytes).value();
  const DeviceCopy copy{there.data(), here, bytes};
  const auto at = reinterpret_cast<uint64_t>(there.data());
  cuda.call("cuMemsetD32Async", at, 0x01010101U, size_t{bytes / 4}, stream);
  ASSERT_TRUE(copies->copy(CopyDirection::to_host, {&copy, 1}).is_ok());
  EXPECT_EQ(std::count(here, here + bytes, std::byte{1}), bytes);
  std::fill_n(here, bytes, std::byte{2});
  cuda.call("cuMemsetD32Async", at, 0x03030303U, size_t{bytes / 4}, stream);
  ASSERT_TRUE(copies->copy(CopyDirection::to_device, {&copy, 1}).is_ok());
  std::vector<std::byte> back(bytes);
  there.download(back.data(), bytes);
  EXPECT_EQ(std::count(back.begin(), back.end(), std::byte{2}), bytes);
  copies->release(here);
}

TEST_F(CudaCopies, serve_a_host_tier) {
  const CudaMemory page(cuda, bytes), back(cuda, bytes);
  std::vector<std::byte> pattern(bytes), got(bytes);
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i * 7);
  page.upload(pattern.data(), bytes);
  {
    const auto tier = make_host_tier({.max_bytes = 1 << 20, .device = copies}).value();
    const Extent from[] = {{page.data(), 1000}, {page.data() + 1000, bytes - 1000}};
    const Extent to{back.data(), bytes};
    const TierPage stored{name_of(1), from}, loaded{name_of(1), {&to, 1}};
    tier->store({&stored, 1}).value();
    EXPECT_EQ(wait_for(*tier, 1).front().outcome, TierOutcome::done);
    tier->load({&loaded, 1}, 0).value();
    EXPECT_EQ(wait_for(*tier, 1).front().outcome, TierOutcome::done);
    EXPECT_EQ(fake.count("cuMemHostAlloc") - fake.count("cuMemFreeHost"), 1) << "a slab";
  }
  back.download(got.data(), bytes);
  EXPECT_EQ(got, pattern);
  EXPECT_EQ(fake.count("cuMemHostAlloc"), fake.count("cuMemFreeHost"));
}

TEST_F(CudaCopies, say_which_call_of_the_driver_failed_and_go_on) {
  const CudaMemory there(cuda, bytes);
  std::byte* const here = copies->allocate(bytes).value();
  const DeviceCopy copy{there.data(), here, bytes};
  constexpr int cuda_out_of_memory = 2;
  for (const char* const call :
       {"cuStreamCreate", "cuEventCreate", "cuStreamIsCapturing", "cuEventRecord",
        "cuStreamWaitEvent", "cuMemcpyDtoHAsync", "cuStreamSynchronize"}) {
    copies = make_cuda_copies({.stream = stream}).value();  // without a stream of its own yet
    fake.fail_call(call, invalid_value);
    const Status status = copies->copy(CopyDirection::to_host, {&copy, 1});
    EXPECT_EQ(status.code(), Errc::device);
    EXPECT_THAT(std::string(status.message()), HasSubstr(call));
    EXPECT_TRUE(copies->copy(CopyDirection::to_host, {&copy, 1}).is_ok());
  }
  fake.fail_call("cuMemHostAlloc", cuda_out_of_memory);
  EXPECT_EQ(copies->allocate(bytes).error().code(), Errc::out_of_memory);
  copies->release(here);
}

TEST_F(CudaCopies, fail_while_the_stream_is_captured) {
  const CudaMemory there(cuda, bytes);
  std::byte* const here = copies->allocate(bytes).value();
  const DeviceCopy copy{there.data(), here, bytes};
  void* graph = nullptr;
  cuda.call("cuStreamBeginCapture_v2", stream, 1);
  const Status status = copies->copy(CopyDirection::to_host, {&copy, 1});
  EXPECT_THAT(std::string(status.message()), HasSubstr("is being captured"));
  cuda.call("cuStreamEndCapture", stream, &graph);
  cuda.call("cuGraphDestroy", graph);
  copies->release(here);
}

TEST_F(CudaCopies, are_refused_for_devices_that_there_are_not) {
  for (const int32_t device : {-1, 1, 2'147'483'647}) {
    const auto refused = make_cuda_copies({.device = device});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(), "make_cuda_copies: options.device is " +
                                             std::to_string(device) +
                                             ", expected a device of this machine");
  }
  fake.fail_call("cuDevicePrimaryCtxRetain", invalid_value);
  EXPECT_EQ(make_cuda_copies().error().code(), Errc::device);
}

}  // namespace
}  // namespace folio::test
