// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/streams_test.cpp: a step of attention on streams: what is put there waits for
/// nothing, can be captured and replayed over other lengths, and fails in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cuda/emulated_device.h"
#include "folio/attention/attend.h"
#include "folio/core/buffer.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

CaseOptions small_case() {
  CaseOptions options;
  options.sequences = {{1, 77}, {0, 9}, {3, 40}};
  options.q_dtype = options.out_dtype = DType::bf16;
  options.key_dtype = options.value_dtype = DType::bf16;
  return options;
}

/// Arrays of the case lie in the test's own memory, which the device reaches.
struct Streams : ::testing::Test {
  explicit Streams(const CaseOptions& options = small_case()) : c(options) {
    AttentionLimits limits = c.limits();
    limits.parallelism = 0;  // the device's
    Result<Attention> created = Attention::create(c.problem(), limits, EmulatedDevice::device());
    EXPECT_TRUE(created) << created.error().message();
    if (!created) std::abort();
    attention = *created;
    c.set_precision(precision_of(kernel_of(attention.kernel()), c.problem()));
    plan_memory = Buffer::allocate(attention.plan_bytes()).value();
    workspace = Buffer::allocate(attention.workspace_bytes()).value();
    std::fill_n(workspace.data(), workspace.bytes(), std::byte{0x5a});
    c.poison_output();
    device.forget_calls();
  }

  Status prepare() { return prepare_async(attention, workspace.span(), stream); }
  /// What an engine does in a step, with one layer.
  Status step() {
    const Result<AttentionPlan> plan = plan_async(attention, c.batch(), plan_memory.span(), stream);
    if (!plan) return plan.error();
    return attend_async(attention, *plan, c.args(), workspace.span(), stream);
  }

  EmulatedDevice device{{.order = WorkOrder::late, .seed = 5, .any_memory = true}};
  Stream stream = device.make_stream();
  AttentionCase c;
  Attention attention;
  Buffer plan_memory, workspace;
};

TEST_F(Streams, take_a_step_that_waits_for_nothing_and_allocates_nothing) {
  ASSERT_TRUE(prepare().is_ok());
  const std::vector<std::byte> before = c.output_bits();
  const Status status = step();
  ASSERT_TRUE(status.is_ok()) << status.message();
  EXPECT_THAT(device.waits_and_allocations(), IsEmpty());
  EXPECT_EQ(c.output_bits(), before) << "nothing ran yet";
  device.synchronise(stream);
  EXPECT_TRUE(matches_reference(c));
}

TEST_F(Streams, replay_a_captured_step_at_other_lengths) {
  ASSERT_TRUE(prepare().is_ok());
  device.begin_capture(stream);
  const Status status = step();
  ASSERT_TRUE(status.is_ok()) << status.message();
  const EmulatedGraph graph = device.end_capture(stream);
  for (const int32_t context : {77, 61, 16}) {
    const_cast<int32_t*>(c.batch().context_lengths)[0] = context;
    c.poison_output();
    c.forget_expected();
    device.launch(graph, stream);
    device.synchronise(stream);
    EXPECT_TRUE(matches_reference(c)) << "of " << context;
  }
}

TEST_F(Streams, repeat_the_drivers_words_when_a_launch_fails) {
  ASSERT_TRUE(prepare().is_ok());
  device.fail_call("cuLaunchKernel", 1);
  EXPECT_THAT(std::string(step().message()),
              HasSubstr("plan_async: cuLaunchKernel failed with 1 (CUDA_ERROR_INVALID_VALUE)"));
  device.fail_call("cuLaunchKernel", 1, 1);
  EXPECT_THAT(std::string(step().message()),
              HasSubstr("attend_async: cuLaunchKernel failed with 1 (CUDA_ERROR_INVALID_VALUE)"));
  device.fail_call("cuMemsetD32Async", 1);
  EXPECT_THAT(std::string(prepare().message()),
              HasSubstr("prepare_async: cuMemsetD32Async failed with 1"));
  ASSERT_TRUE(step().is_ok());
  device.synchronise(stream);
}

CaseOptions long_case() {
  CaseOptions options = small_case();
  options.sequences = {{1, 700}};
  return options;
}
struct StreamsOfSplits : Streams {
  StreamsOfSplits() : Streams(long_case()) {}
};

TEST_F(StreamsOfSplits, find_a_workspace_that_nobody_prepared) {
  ASSERT_TRUE(step().is_ok());
  EXPECT_THAT(device.fault(stream), HasSubstr("workspace not prepared"));
}

TEST_F(StreamsOfSplits, leave_the_workspace_ready_for_the_next_step) {
  ASSERT_TRUE(prepare().is_ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step().is_ok());
  device.synchronise(stream);
  EXPECT_TRUE(matches_reference(c));
}

}  // namespace
}  // namespace folio::test
