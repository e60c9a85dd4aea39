// SPDX-License-Identifier: Apache-2.0
/// tests/attention/handle_test.cpp: what an Attention tells and begets: its device, the list of
/// names, other limits and masks without a second choice, streams that the CPU has not.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "attention/kernel_list.h"
#include "cpu/features.h"
#include "folio/attention/append.h"
#include "folio/attention/rotate.h"
#include "support/attention_case.h"
#include "support/kernel_cases.h"

namespace folio::test {
namespace {

/// The case's output through this handle, or nothing.
std::vector<std::byte> bits_of(const Attention& attention, AttentionCase& c) {
  c.poison_output();
  const GuardedMemory plan_memory(attention.plan_bytes(), 64);
  const GuardedMemory workspace(attention.workspace_bytes(), 64);
  const Result<AttentionPlan> made = plan(attention, c.batch(), plan_memory.span());
  EXPECT_TRUE(made.has_value()) << made.error().message();
  if (!made) return {};
  const Status status = attend(attention, *made, c.args(), workspace.span(), serial_executor());
  EXPECT_TRUE(status.is_ok()) << status.message();
  return c.output_bits();
}

void expect_same(const Attention& begotten, const Attention& created) {
  EXPECT_EQ(begotten.kernel(), created.kernel());
  EXPECT_EQ(begotten.device(), created.device());
  EXPECT_EQ(begotten.plan_bytes(), created.plan_bytes());
  EXPECT_EQ(begotten.workspace_bytes(), created.workspace_bytes());
  EXPECT_EQ(begotten.limits().parallelism, created.limits().parallelism);
}

TEST(Handle, larger_limits_keep_kernel_and_bits) {
  for_each_kernel_case({}, [](AttentionCase& c, const std::string& kernel) {
    const Attention small = Attention::create(c.problem(), {.parallelism = 3}, {}, kernel).value();
    AttentionLimits limits = c.limits();
    limits.parallelism = 5;
    const Attention large = small.with_limits(limits).value();
    const Attention fresh = Attention::create(c.problem(), limits, {}, kernel).value();
    expect_same(large, fresh);
    EXPECT_EQ(large.limits().context, limits.context);
    EXPECT_EQ(small.limits().context, 1) << "the old one is as it was";
    EXPECT_GT(large.plan_bytes(), small.plan_bytes());
    EXPECT_EQ(bits_of(large, c), bits_of(fresh, c));
  });
}

TEST(Handle, another_mask_keeps_kernel_memory_and_gives_the_bits_of_a_fresh_handle) {
  for (const Mask mask : {Mask::full(), Mask::sliding_window(20, 3), Mask::chunked(48)}) {
    CaseOptions options;
    options.parallelism = 3;
    for_each_kernel_case(options, [&](AttentionCase& c, const std::string& kernel) {
      const Attention causal = Attention::create(c.problem(), c.limits(), {}, kernel).value();
      const Attention masked = causal.with_mask(mask).value();
      EXPECT_EQ(causal.plan_bytes(), masked.plan_bytes());
      EXPECT_EQ(causal.workspace_bytes(), masked.workspace_bytes());
      EXPECT_EQ(causal.problem().mask, Mask::causal());
      CaseOptions other = c.options();
      other.mask = mask;
      AttentionCase of_mask(other);
      const Attention fresh =
          Attention::create(of_mask.problem(), of_mask.limits(), {}, kernel).value();
      expect_same(masked, fresh);
      EXPECT_EQ(bits_of(masked, of_mask), bits_of(fresh, of_mask));
      of_mask.set_precision(precision_of(kernel_of(kernel), of_mask.problem()));
      EXPECT_TRUE(matches_reference(of_mask));
    });
  }
}

TEST(Handle, limits_and_masks_are_checked_as_by_create) {
  const AttentionCase c(CaseOptions{});
  const Attention attention = Attention::create(c.problem(), c.limits()).value();
  const auto expect_error = [](const Status& status, std::string_view words) {
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_NE(status.message().find(words), std::string_view::npos) << status.message();
  };
  expect_error(attention.with_limits({.batch = 0}).error(),
               "Attention::with_limits: limits.batch is 0, expected at least 1");
  expect_error(attention.with_limits({.batch = INT32_MAX}).error(),
               "Attention::with_limits: limits.batch is 2147483647, expected at most 2^31 - 2");
  expect_error(attention.with_limits({.parallelism = -2}).error(),
               "Attention::with_limits: limits.parallelism is -2");
  for (const int32_t levels : {-1, 9})
    expect_error(attention.with_limits({.parallelism = 1, .shared_levels = levels}).error(),
                 "Attention::with_limits: limits.shared_levels is " + std::to_string(levels) +
                     ", expected 0 to 8");
  expect_error(attention.with_limits({.batch = INT32_MAX}).error(),
               "Attention::with_limits: limits.batch is 2147483647, expected at most 2^31 - 2");
  expect_error(attention.with_mask({.left = -7}).error(), "Attention::with_mask: mask.left is -7");
  expect_error(Attention().with_limits({}).error(), "Attention::with_limits: attention is empty");
  expect_error(Attention().with_mask({}).error(), "Attention::with_mask: attention is empty");
}

TEST(Handle, parallelism_0_is_what_the_default_executor_offers) {
  const AttentionCase c(CaseOptions{});
  const Executor executor = default_executor();
  const int32_t offered = executor.concurrency(executor.context);
  AttentionLimits limits = c.limits();
  limits.parallelism = offered;
  const Attention given = Attention::create(c.problem(), limits).value();
  limits.parallelism = 0;
  const Attention left_open = Attention::create(c.problem(), limits).value();
  EXPECT_EQ(left_open.limits().parallelism, offered);
  expect_same(left_open, given);
  EXPECT_EQ(given.with_limits(limits).value().limits().parallelism, offered);
  EXPECT_EQ(AttentionLimits().parallelism, 0);
}

TEST(Handle, the_kernels_are_listed_with_whether_they_run_here) {
  ASSERT_EQ(static_cast<size_t>(Attention::kernel_count()), kernels().size());
  for (int32_t i = 0; i < Attention::kernel_count(); ++i) {
    const Kernel& kernel = kernels()[static_cast<size_t>(i)];
    EXPECT_EQ(Attention::kernel_name(i).name, kernel.name);
    EXPECT_EQ(Attention::kernel_name(i).name.data()[kernel.name.size()], '\0');
    EXPECT_EQ(Attention::kernel_name(i).runs_here, machine_has(kernel.needs)) << kernel.name;
  }
  for (const int32_t i : {-1, Attention::kernel_count(), INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(Attention::kernel_name(i).name.empty());
    EXPECT_FALSE(Attention::kernel_name(i).runs_here);
  }
  EXPECT_TRUE(Attention::kernel_name(Attention::kernel_count() - 1).runs_here)
      << "the last one runs everywhere";
}

TEST(Handle, the_cpu_has_no_streams) {
  AttentionCase c(CaseOptions{});
  const Attention attention = Attention::create(c.problem(), c.limits()).value();
  EXPECT_EQ(attention.device(), Device{});
  const GuardedMemory plan_memory(attention.plan_bytes(), 64);
  const GuardedMemory workspace(attention.workspace_bytes(), 64);
  const AttentionPlan made = plan(attention, c.batch(), plan_memory.span()).value();
  c.poison_output();
  const std::vector<std::byte> before = c.output_bits();
  const auto expect_unsupported = [](const Status& status, std::string_view words) {
    EXPECT_EQ(status.code(), Errc::unsupported);
    EXPECT_EQ(status.message(), words);
  };
  expect_unsupported(plan_async(attention, c.batch(), plan_memory.span(), {}).error(),
                     "plan_async: the CPU has no streams, expected a call of plan");
  expect_unsupported(attend_async(attention, made, c.args(), workspace.span(), {}),
                     "attend_async: the CPU has no streams, expected a call of attend");
  expect_unsupported(append_async(c.batch(), {}, {}, {}),
                     "append_async: the CPU has no streams, expected a call of append");
  expect_unsupported(rotate_async(c.batch(), {}, {}, {}),
                     "rotate_async: the CPU has no streams, expected a call of rotate");
  constexpr Device nowhere{Device::Kind::cuda, 0x7fffffff};
  EXPECT_FALSE(append_async(c.batch(), {}, nowhere, {}).is_ok());
  EXPECT_FALSE(rotate_async(c.batch(), {}, nowhere, {}).is_ok());
  EXPECT_EQ(c.output_bits(), before);
  EXPECT_EQ(plan_async({}, c.batch(), plan_memory.span(), {}).error().code(),
            Errc::invalid_argument);
  EXPECT_EQ(attend_async({}, made, c.args(), workspace.span(), {}).code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace folio::test
