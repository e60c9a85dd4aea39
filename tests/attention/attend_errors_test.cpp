// SPDX-License-Identifier: Apache-2.0
/// tests/attention/attend_errors_test.cpp: the table of mistakes of create, plan and attend: call,
/// broken argument, words of the message. Nothing is written then.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "attention/attend_error_rows.h"
#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

void expect_error(const Status& status, Errc code, std::string_view function,
                  std::string_view words) {
  ASSERT_FALSE(status.is_ok()) << words;
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_EQ(status.message().substr(0, function.size()), function) << status.message();
  EXPECT_NE(status.message().find(words), std::string_view::npos)
      << status.message() << "\nhas not: " << words;
  EXPECT_NE(status.message().find("expected"), std::string_view::npos) << status.message();
}

TEST(AttendErrors, create_names_the_argument) {
  AttentionCase c(full_options());
  ASSERT_TRUE(Attention::create(c.problem(), c.limits()).has_value());
  for (const ProblemRow& row : problem_rows) {
    AttentionProblem problem = c.problem();
    AttentionLimits limits = c.limits();
    row.break_it(problem, limits);
    expect_error(Attention::create(problem, limits).error(), Errc::invalid_argument,
                 "Attention::create: ", row.words);
  }
}

TEST(AttendErrors, an_unknown_kernel_name_is_an_error) {
  AttentionCase c(full_options());
  expect_error(Attention::create(c.problem(), c.limits(), {}, "attention_paged_any_z80").error(),
               Errc::invalid_argument, "Attention::create: ", "attention_paged_any_z80");
}

TEST(AttendErrors, plan_names_the_argument) {
  AttentionCase c(full_options());
  const Attention attention = Attention::create(c.problem(), c.limits()).value();
  const GuardedMemory memory(attention.plan_bytes(), 64);
  ASSERT_TRUE(plan(attention, c.batch(), memory.span()).has_value());
  for (const BatchRow& row : batch_rows) {
    Batch batch = c.batch();
    row.break_it(batch);
    const Status status = plan(attention, batch, memory.span()).error();
    ASSERT_FALSE(status.is_ok()) << row.words;
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_EQ(status.message().substr(0, 6), "plan: ") << status.message();
    EXPECT_NE(status.message().find(row.words), std::string_view::npos)
        << status.message() << "\nhas not: " << row.words;
  }
}

TEST(AttendErrors, unasked_arrays_are_not_ignored) {
  CaseOptions options = full_options();
  options.intervals = options.sink_logits = options.alibi = false;
  options.bias = BiasForm::none;
  AttentionCase c(options);
  const Attention attention = Attention::create(c.problem(), c.limits()).value();
  const GuardedMemory memory(attention.plan_bytes(), 64),
      workspace(attention.workspace_bytes(), 64);
  Batch batch = c.batch();
  batch.visible_begin = batch.visible_end = c.batch().query_offsets;
  EXPECT_EQ(plan(attention, batch, memory.span()).error().code(), Errc::invalid_argument);

  const AttentionPlan made = plan(attention, c.batch(), memory.span()).value();
  const float numbers[4] = {};
  for (const auto& give : std::vector<std::function<void(AttentionArgs&)>>{
           [&](AttentionArgs& a) { a.sink_logits = numbers; },
           [&](AttentionArgs& a) { a.alibi_slopes = numbers; },
           [&](AttentionArgs& a) {
             a.bias = dense_tensor(c.output_memory().data(), DType::f32, {1, 5, 40});
           },
           [&](AttentionArgs& a) { a.key_tail = a.key; }}) {
    AttentionArgs args = c.args();
    give(args);
    EXPECT_EQ(check(attention, made, args).code(), Errc::invalid_argument);
  }
}

TEST(AttendErrors, attend_names_the_argument_and_writes_nothing) {
  AttentionCase c(full_options());
  c.poison_output();
  const std::vector<std::byte> untouched = c.output_bits();
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value()) << p.error().message();
  ASSERT_TRUE(check(p->attention, p->plan, c.args()).is_ok());
  for (const ArgsRow& row : args_rows) {
    AttentionArgs args = c.args();
    row.break_it(args);
    const Status status =
        attend(p->attention, p->plan, args, p->workspace.span(), serial_executor());
    ASSERT_FALSE(status.is_ok()) << row.words;
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_EQ(status.message().substr(0, 8), "attend: ") << status.message();
    EXPECT_NE(status.message().find(row.words), std::string_view::npos)
        << status.message() << "\nhas not: " << row.words;
    const std::string words(status.message().substr(6));
    EXPECT_EQ(check(p->attention, p->plan, args).message(), "check" + words);
    EXPECT_EQ(prepare(p->attention, p->plan, args, p->workspace.span()).message(),
              "prepare" + words);
  }
  EXPECT_EQ(c.output_bits(), untouched);
}

TEST(AttendErrors, planes_are_aligned_to_their_elements) {
  CaseOptions options;
  options.key_dtype = options.value_dtype = DType::f16;
  AttentionCase c(options);
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value());
  AttentionArgs args = c.args();
  args.value.data = static_cast<std::byte*>(args.value.data) + 1;
  expect_error(check(p->attention, p->plan, args), Errc::invalid_argument, "check: ",
               "value.data is not aligned, expected a multiple of 2 bytes (the size of f16)");
}

TEST(AttendErrors, memory_and_executor_are_checked) {
  AttentionCase c(full_options());
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value());
  const Attention& attention = p->attention;
  const GuardedMemory large(std::max(attention.plan_bytes(), attention.workspace_bytes()) + 64, 64);
  const auto plan_with = [&](MemorySpan memory) {
    return plan(attention, c.batch(), memory).error();
  };
  const auto attend_with = [&](MemorySpan memory) {
    return attend(attention, p->plan, c.args(), memory, serial_executor());
  };
  expect_error(plan_with({nullptr, 1 << 20}), Errc::invalid_argument, "plan: plan_memory", "null");
  expect_error(plan_with({large.data(), attention.plan_bytes() - 1}), Errc::invalid_argument,
               "plan: plan_memory", "bytes");
  expect_error(plan_with({large.data() + 8, attention.plan_bytes()}), Errc::invalid_argument,
               "plan: plan_memory", "aligned");
  expect_error(attend_with({nullptr, 1 << 30}), Errc::invalid_argument, "attend: workspace",
               "null");
  expect_error(attend_with({large.data(), attention.workspace_bytes() - 1}), Errc::invalid_argument,
               "attend: workspace", "bytes");
  expect_error(attend_with({large.data() + 8, attention.workspace_bytes()}), Errc::invalid_argument,
               "attend: workspace", "aligned");
  expect_error(prepare(attention, p->plan, c.args(), {nullptr, 1 << 30}), Errc::invalid_argument,
               "prepare: workspace", "null");
  expect_error(attend(attention, p->plan, c.args(), p->workspace.span(), Executor{}),
               Errc::invalid_argument, "attend: executor", "parallel_for");
}

TEST(AttendErrors, empty_handles_are_named) {
  AttentionCase c(full_options());
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value());
  expect_error(plan(Attention{}, c.batch(), p->plan_memory.span()).error(), Errc::invalid_argument,
               "plan: attention", "empty");
  const MemorySpan workspace = p->workspace.span();
  expect_error(check(Attention{}, p->plan, c.args(), nullptr), Errc::invalid_argument,
               "check: attention", "empty");
  expect_error(check(Attention{}, p->plan, c.args(), "mine"), Errc::invalid_argument,
               "mine: attention", "empty");
  expect_error(check(Attention{}, p->plan, c.args()), Errc::invalid_argument, "check: attention",
               "empty");
  expect_error(check(p->attention, AttentionPlan{}, c.args()), Errc::invalid_argument,
               "check: plan", "empty");
  expect_error(prepare(p->attention, AttentionPlan{}, c.args(), workspace), Errc::invalid_argument,
               "prepare: plan", "empty");
  expect_error(attend_task(p->attention, AttentionPlan{}, c.args(), workspace, 0),
               Errc::invalid_argument, "attend_task: plan", "empty");
  EXPECT_EQ(Attention{}.kernel(), "");
}

TEST(AttendErrors, what_changes_per_layer_is_free) {
  // Data pointers, scale pointers and num_pages are not geometry.
  AttentionCase c(full_options());
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value());
  AttentionArgs args = c.args();
  args.key.num_pages = args.value.num_pages = args.key.num_pages + 1000;
  args.key.data = static_cast<std::byte*>(args.key.data) + 1;
  args.value.scales.data = args.key.scales.data;
  args.key.scales.tensor_scale = nullptr;
  args.lse = nullptr;
  EXPECT_EQ(check(p->attention, p->plan, args).message(), "");
}

/// Nothing unwinds through the caller's threads or frames.
[[maybe_unused]] void every_call_is_noexcept(const Attention& attention,
                                             const AttentionProblem& problem,
                                             const AttentionPlan& made, const Batch& batch,
                                             const AttentionArgs& args, MemorySpan memory,
                                             const Executor& executor,
                                             const AttentionLimits& limits, Device device) {
  static_assert(noexcept(refuse(problem, device)));
  static_assert(noexcept(Attention::create(problem, limits, device, std::string_view())));
  static_assert(noexcept(plan(attention, batch, memory)));
  static_assert(noexcept(check(attention, made, args)));
  static_assert(noexcept(prepare(attention, made, args, memory)));
  static_assert(noexcept(attend(attention, made, args, memory, executor)));
  static_assert(noexcept(attend_task(attention, made, args, memory, 0)));
}

}  // namespace
}  // namespace folio::test
