// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/launch_test.cpp: loading and launching kernels, on the emulated device.
#include "cuda/runtime/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "cuda/emulated_device.h"
#include "cuda/emulated_runner.h"
#include "cuda/runtime/loaded.h"
#include "cuda/scale_kernel.h"

namespace folio::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Device gpu = EmulatedDevice::device();

std::vector<EmulatedKernel> test_kernels() {
  return {emulated_kernel<ScaleKernel>("scale"),
          emulated_kernel<ScaleKernel>("scale_from_90", images_from_90),
          emulated_kernel<WideScaleKernel>("scale_wide")};
}

struct Launch : ::testing::Test {
  explicit Launch(const EmulatedOptions& options = {}) : device(options, test_kernels()) {
    std::fill(in.begin(), in.end(), 3.0f);
  }

  Status scale(float factor, Stream stream, const char* kernel = "scale", int64_t blocks = 3) {
    ScaleArgs args{in.data(), out.data(), static_cast<int64_t>(out.size()), factor};
    const Status status =
        cuda::launch("test", gpu, cuda::kernel_number(kernel), blocks, &args, sizeof args, stream);
    args = {};  // a launch has copied it
    return status;
  }
  static std::string refusal(const Status& status, Errc code) {
    EXPECT_EQ(status.code(), code) << status.message();
    return std::string(status.message());
  }

  EmulatedDevice device;
  std::span<float> in = device.allocate<float>(1000);
  std::span<float> out = device.allocate<float>(1000);
};

struct LateLaunch : Launch {
  LateLaunch() : Launch({.order = WorkOrder::late, .seed = 7}) {}
};

TEST_F(Launch, runs_every_block_and_thread_with_a_copy_of_the_argument) {
  const Stream stream = device.make_stream();
  ASSERT_TRUE(scale(2, stream).is_ok());
  device.synchronise(stream);
  EXPECT_THAT(out, Each(6.0f));
}

TEST_F(LateLaunch, does_not_wait_for_the_device) {
  const Stream stream = device.make_stream();
  ASSERT_TRUE(scale(2, stream).is_ok());
  EXPECT_THAT(out, Each(::testing::IsNan())) << "nothing ran yet";
  device.synchronise(stream);
  EXPECT_THAT(out, Each(6.0f));
}

TEST_F(LateLaunch, keeps_the_order_of_a_stream) {
  const Stream stream = device.make_stream();
  for (const float factor : {2.0f, 3.0f, 4.0f}) ASSERT_TRUE(scale(factor, stream).is_ok());
  device.synchronise(stream);
  EXPECT_THAT(out, Each(12.0f));
}

TEST_F(LateLaunch, on_the_null_stream_comes_after_what_others_were_given) {
  const Stream stream = device.make_stream();
  ASSERT_TRUE(scale(2, stream).is_ok());
  ASSERT_TRUE(scale(5, Stream{}).is_ok());
  device.synchronise(Stream{});
  EXPECT_THAT(out, Each(15.0f));
}

TEST_F(Launch, loads_each_kernel_once_for_all_launches) {
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  EXPECT_EQ(device.calls("cuModuleLoadData"), 3);
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  ASSERT_TRUE(scale(2, Stream{}).is_ok());
  ASSERT_TRUE(scale(2, Stream{}).is_ok());
  EXPECT_EQ(device.calls("cuModuleLoadData"), 3);
  EXPECT_EQ(device.calls("cuDevicePrimaryCtxRetain"), 1);
}

TEST_F(Launch, loads_once_when_many_threads_ask) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([] { EXPECT_TRUE(cuda::load_kernels("test", gpu).is_ok()); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device.calls("cuModuleLoadData"), 3);
  EXPECT_EQ(device.driver().retained, 1);
}

TEST_F(Launch, after_loading_neither_waits_nor_allocates) {
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  device.forget_calls();
  uint32_t* const words = device.allocate<uint32_t>(4).data();
  device.forget_calls();
  ASSERT_TRUE(scale(2, Stream{}).is_ok());
  ASSERT_TRUE(cuda::fill_async("test", gpu, words, 5, 4, Stream{}).is_ok());
  EXPECT_THAT(device.waits_and_allocations(), IsEmpty());
  EXPECT_EQ(device.calls("cuLaunchKernel"), 1);
}

TEST_F(Launch, loads_when_nobody_has) {
  ASSERT_TRUE(scale(2, Stream{}).is_ok());
  EXPECT_EQ(device.calls("cuModuleLoadData"), 3);
}

TEST_F(Launch, refuses_to_load_while_the_stream_is_captured) {
  const Stream stream = device.make_stream();
  device.begin_capture(stream);
  EXPECT_THAT(refusal(scale(2, stream), Errc::device),
              HasSubstr("test: the stream is being captured and the kernels of device 0 were "
                        "never loaded"));
  EXPECT_EQ(device.calls("cuModuleLoadData"), 0);
  (void)device.end_capture(stream);  // is whole
}

TEST_F(Launch, is_captured_and_replayed_over_other_data) {
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  const Stream stream = device.make_stream();
  device.begin_capture(stream);
  ASSERT_TRUE(scale(2, stream).is_ok());
  const EmulatedGraph graph = device.end_capture(stream);
  device.synchronise(stream);
  EXPECT_THAT(out, Each(::testing::IsNan())) << "captured work does not run";
  for (const float value : {1.0f, 4.0f}) {
    std::fill(in.begin(), in.end(), value);
    device.launch(graph, stream);
    device.synchronise(stream);
    EXPECT_THAT(out, Each(2 * value));
  }
}

TEST_F(Launch, makes_the_devices_context_current_only_where_it_is_not) {
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  device.forget_calls();
  ASSERT_TRUE(scale(2, Stream{}).is_ok());
  EXPECT_EQ(device.calls("cuCtxPushCurrent"), 1);
  const cuda::LoadedDevice& loaded = *cuda::loaded_device(gpu);
  cuda::CurrentContext current(*loaded.driver);
  ASSERT_TRUE(current.enter("test", loaded.context).is_ok());
  ASSERT_TRUE(scale(2, Stream{}).is_ok());
  EXPECT_EQ(device.calls("cuCtxPushCurrent"), 2) << "the test's own";
}

TEST_F(Launch, repeats_the_drivers_words) {
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  device.fail_call("cuLaunchKernel", 1);
  EXPECT_EQ(refusal(scale(2, Stream{}), Errc::device),
            "test: cuLaunchKernel failed with 1 (CUDA_ERROR_INVALID_VALUE): invalid argument, at "
            "kernel scale");
  EXPECT_TRUE(scale(2, Stream{}).is_ok());
}

TEST_F(Launch, of_a_kernel_that_fails_is_told_by_the_next_call) {
  out = out.first(0);
  ScaleArgs args{in.data(), nullptr, 1, 1};
  ASSERT_TRUE(cuda::launch("test", gpu, 0, 1, &args, sizeof args, Stream{}).is_ok());
  EXPECT_THAT(refusal(scale(2, Stream{}), Errc::device),
              HasSubstr("719 (CUDA_ERROR_LAUNCH_FAILED)"));
  EXPECT_THAT(device.fault(Stream{}), HasSubstr("scale: block 0 warp 0"));
}

TEST_F(Launch, leaves_nothing_behind_when_loading_fails_half_way) {
  for (const char* call :
       {"cuModuleLoadData", "cuModuleGetFunction", "cuFuncSetAttribute", "cuFuncLoad"}) {
    device.fail_call(call, 2, 1);
    EXPECT_THAT(refusal(cuda::load_kernels("test", gpu), Errc::device),
                ::testing::AllOf(HasSubstr(std::string("test: ") + call + " failed with 2"),
                                 HasSubstr("at kernel scale_from_90")));
    EXPECT_EQ(device.driver().retained, 0);
    EXPECT_EQ(device.calls("cuModuleLoadData") - (call == std::string("cuModuleLoadData") ? 1 : 0),
              device.calls("cuModuleUnload"));
    device.forget_calls();
  }
  EXPECT_TRUE(cuda::load_kernels("test", gpu).is_ok());
}

TEST_F(Launch, refuses_arguments_that_are_not_the_kernels) {
  const ScaleArgs args{};
  EXPECT_THAT(
      refusal(cuda::launch("test", gpu, 0, 1, &args, sizeof args - 8, Stream{}), Errc::internal),
      HasSubstr("kernel scale was given an argument of 24 bytes, expected 32"));
  EXPECT_THAT(
      refusal(cuda::launch("test", gpu, 3, 1, &args, sizeof args, Stream{}), Errc::internal),
      HasSubstr("no kernel has the number 3, expected 0 to 2"));
  EXPECT_THAT(refusal(scale(1, Stream{}, "none"), Errc::internal), HasSubstr("number -1"));
  EXPECT_THAT(refusal(scale(1, Stream{}, "scale", int64_t{1} << 31), Errc::invalid_argument),
              HasSubstr("2147483648 blocks"));
}

TEST_F(Launch, of_no_blocks_does_nothing) {
  EXPECT_TRUE(scale(2, Stream{}, "scale", 0).is_ok());
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

TEST_F(Launch, fills_words) {
  const std::span<uint32_t> words = device.allocate<uint32_t>(5);
  const Stream stream = device.make_stream();
  ASSERT_TRUE(cuda::fill_async("test", gpu, words.data(), 7, 4, stream).is_ok());
  device.synchronise(stream);
  EXPECT_THAT(words, ::testing::ElementsAre(7u, 7u, 7u, 7u, ~0u));
  EXPECT_TRUE(cuda::fill_async("test", gpu, nullptr, 7, 0, stream).is_ok());
  EXPECT_FALSE(cuda::fill_async("test", gpu, nullptr, 7, 1, stream).is_ok());
}

TEST(LaunchOn, a_device_of_before_90_leaves_out_kernels_of_90) {
  EmulatedDevice device({.compute_capability = 86}, test_kernels());
  ScaleArgs args;
  EXPECT_TRUE(cuda::launch("test", gpu, 0, 1, &args, sizeof args, Stream{}).is_ok());
  const Status status = cuda::launch("test", gpu, 1, 1, &args, sizeof args, Stream{});
  EXPECT_EQ(status.code(), Errc::unsupported);
  EXPECT_EQ(status.message(), "test: kernel scale_from_90 is not built for compute capability 8.6");
}

TEST(LaunchOn, a_device_of_little_shared_memory_leaves_out_kernels_of_much) {
  EmulatedDevice device({.compute_capability = 120}, test_kernels());
  ScaleArgs args;
  const Status status = cuda::launch("test", gpu, 2, 1, &args, sizeof args, Stream{});
  EXPECT_EQ(status.code(), Errc::unsupported);
  EXPECT_EQ(status.message(),
            "test: kernel scale_wide needs 204800 bytes of shared memory, the device has 101376 "
            "(per block)");
}

TEST(LaunchOn, a_device_that_no_kernel_is_built_for_is_refused) {
  EmulatedDevice device({.compute_capability = 110}, test_kernels());
  EXPECT_THAT(std::string(cuda::load_kernels("test", gpu).message()),
              HasSubstr("no kernel of this build runs on device 0 of compute capability 11.0"));
  EXPECT_EQ(cuda::device_facts("test", gpu).error().code(), Errc::unsupported);
}

TEST(LaunchOn, a_build_without_images_is_refused_as_such) {
  EmulatedDevice device({}, std::vector{emulated_kernel<ScaleKernel>("scale", {})});
  EXPECT_EQ(std::string(cuda::device_facts("test", gpu).error().message()),
            "test: folio is built without CUDA kernels (FOLIO_CUDA_KERNELS=OFF)");
  EXPECT_EQ(cuda::load_kernels("test", gpu).code(), Errc::unsupported);
}

TEST(LaunchOn, what_is_no_such_device_is_refused) {
  EmulatedDevice device({}, test_kernels());
  EXPECT_EQ(cuda::device_facts("test", Device{}).error().code(), Errc::invalid_argument);
  EXPECT_THAT(std::string(cuda::device_facts("test", {Device::Kind::cuda, -1}).error().message()),
              HasSubstr("device.index is -1, expected 0 to 63"));
  EXPECT_THAT(std::string(cuda::device_facts("test", {Device::Kind::cuda, 1}).error().message()),
              HasSubstr("cuDeviceGet failed with 101"));
}

TEST(LaunchOn, a_device_states_what_it_has) {
  EmulatedDevice device({.compute_capability = 90, .processors = 132}, test_kernels());
  const Result<cuda::DeviceFacts> facts = cuda::device_facts("test", gpu);
  ASSERT_TRUE(facts) << facts.error().message();
  EXPECT_EQ(facts->processors, 132);
  EXPECT_EQ(facts->compute_capability, 90);
  EXPECT_EQ(facts->shared_bytes, 227 << 10);
}

TEST(LaunchOn, a_device_is_asked_for_what_it_has_until_its_kernels_are_loaded) {
  EmulatedDevice device({}, test_kernels());
  ASSERT_TRUE(cuda::load_kernels("test", gpu).is_ok());
  device.forget_calls();
  EXPECT_TRUE(cuda::device_facts("test", gpu));
  EXPECT_EQ(device.calls("cuDeviceGetAttribute"), 0);
}

TEST(KernelTable, image_for_takes_the_newest_that_runs) {
  const cuda::KernelImage images[] = {
      {80, false, "a"}, {86, false, "b"}, {90, true, "c"}, {100, true, "d"}};
  const cuda::KernelEntry kernel{"k", 32, 0, 1, 8, images};
  const auto code = [&](int capability) -> std::string {
    const cuda::KernelImage* const image = cuda::image_for(kernel, capability);
    return image == nullptr ? "" : static_cast<const char*>(image->data);
  };
  EXPECT_EQ(code(75), "");
  EXPECT_EQ(code(80), "a");
  EXPECT_EQ(code(89), "b");
  EXPECT_EQ(code(90), "c");
  EXPECT_EQ(code(100), "d");
  EXPECT_EQ(code(103), "") << "sm_100a code is of 10.0 alone";
}

}  // namespace
}  // namespace folio::test
