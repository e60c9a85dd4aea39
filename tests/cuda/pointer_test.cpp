// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/pointer_test.cpp: which memory a device's calls accept, on the emulated device.
#include "cuda/runtime/pointer.h"

#include <gtest/gtest.h>

#include <string>

#include "cuda/emulated_device.h"
#include "cuda/emulated_runner.h"

namespace folio::test {
namespace {

using cuda::Pinned;

struct DevicePointer : ::testing::Test {
  Status check(const void* pointer, Pinned pinned = Pinned::refused, int32_t index = 0) {
    return cuda::check_device_pointer("append", "k", {Device::Kind::cuda, index}, pointer, pinned);
  }
  EmulatedDevice device{{}, {}};
};

TEST_F(DevicePointer, into_the_devices_memory_is_accepted) {
  const std::span<char> memory = device.allocate<char>(100);
  EXPECT_TRUE(check(memory.data()).is_ok());
  EXPECT_TRUE(check(&memory.back()).is_ok());
}

TEST_F(DevicePointer, into_managed_memory_is_accepted) {
  EXPECT_TRUE(check(device.allocate<char>(100, MemoryKind::managed).data()).is_ok());
}

TEST_F(DevicePointer, into_pinned_memory_is_accepted_where_allowed) {
  const void* const memory = device.allocate<char>(100, MemoryKind::pinned).data();
  EXPECT_TRUE(check(memory, Pinned::allowed).is_ok());
  EXPECT_EQ(check(memory).message(),
            "append: k is pinned host memory, expected memory of CUDA device 0");
}

TEST_F(DevicePointer, into_pageable_memory_is_refused) {
  const char here = 0;
  EXPECT_EQ(check(&here).code(), Errc::invalid_argument);
  EXPECT_EQ(check(&here).message(),
            "append: k is pageable host memory, expected memory of CUDA device 0");
  EXPECT_EQ(check(&here, Pinned::allowed).message(),
            "append: k is pageable host memory, expected memory of CUDA device 0 or pinned host "
            "memory");
}

TEST_F(DevicePointer, of_null_is_refused) {
  EXPECT_EQ(check(nullptr).message(), "append: k is null, expected memory of CUDA device 0");
}

TEST_F(DevicePointer, into_another_devices_memory_is_refused) {
  EXPECT_EQ(check(device.allocate<char>(100).data(), Pinned::refused, 1).message(),
            "append: k is another device's memory, expected memory of CUDA device 1");
}

TEST_F(DevicePointer, is_checked_in_the_drivers_words_when_it_fails) {
  device.fail_call("cuPointerGetAttributes", 201);
  EXPECT_EQ(std::string(check(device.allocate<char>(1).data()).message()),
            "append: cuPointerGetAttributes failed with 201 (CUDA_ERROR_INVALID_CONTEXT): as the "
            "name says");
}

}  // namespace
}  // namespace folio::test
