// SPDX-License-Identifier: Apache-2.0
/// tests/attention/attend_errors_test.cpp: the table of mistakes of create, plan and attend: call, broken argument, words of the
/// message. Nothing is written then.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "support/attention_case.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

void expect_error(const Status& status, Errc code, std::string_view function, std::string_view words) {
  ASSERT_FALSE(status.is_ok()) << words;
  EXPECT_EQ(status.code(), code) << status.message();
  EXPECT_EQ(status.message().substr(0, function.size()), function) << status.message();
  EXPECT_NE(status.message().find(words), std::string_view::npos) << status.message() << "\nhas not: " << words;
  EXPECT_NE(status.message().find("expected"), std::string_view::npos) << status.message();
}

CaseOptions full_options() {
  CaseOptions options;
  options.sequences = {{2, 40}, {3, 20}};
  options.head_size = 32;
  options.key_dtype = options.value_dtype = DType::i8;
  options.key_scales = options.value_scales = {ScaleKind::granule, DType::f16, 16, true};
  options.sink_logits = options.alibi = options.intervals = true;
  options.bias = BiasForm::per_head;
  return options;
}

struct ProblemRow {
  const char* words;
  void (*break_it)(AttentionProblem& p, AttentionLimits& l);
};

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

const ProblemRow problem_rows[] = {
    {"key.dtype", [](AttentionProblem& p, AttentionLimits&) { p.key.dtype = DType::invalid; }},
    {"key.dtype", [](AttentionProblem& p, AttentionLimits&) { p.key.dtype = static_cast<DType>(77); }},
    {"key.num_heads is 0", [](AttentionProblem& p, AttentionLimits&) { p.key.num_heads = 0; }},
    {"key.head_size is -8", [](AttentionProblem& p, AttentionLimits&) { p.key.head_size = -8; }},
    {"key.page_size is 0", [](AttentionProblem& p, AttentionLimits&) { p.key.page_size = 0; }},
    {"value.num_heads is 3", [](AttentionProblem& p, AttentionLimits&) { p.value.num_heads = 3; }},
    {"value.page_size is 8", [](AttentionProblem& p, AttentionLimits&) { p.value.page_size = 8; }},
    {"value.head_size is 0", [](AttentionProblem& p, AttentionLimits&) { p.value.head_size = 0; }},
    {"v_head_size is 16", [](AttentionProblem& p, AttentionLimits&) { p.v_head_size = 16; }},
    {"v_head_size is 40",
     [](AttentionProblem& p, AttentionLimits&) {
       p.value_in_key = true;
       p.v_head_size = 40;
     }},
    {"slot_stride_bytes is 67",
     [](AttentionProblem& p, AttentionLimits&) {
       p.key.dtype = DType::bf16;
       p.key.slot_stride_bytes = 67;
     }},
    {"key.scales.dtype is i8", [](AttentionProblem& p, AttentionLimits&) { p.key.scales.dtype = DType::i8; }},
    {"key.scales.dtype is invalid", [](AttentionProblem& p, AttentionLimits&) { p.key.scales.dtype = DType::invalid; }},
    {"value.scales.granularity is 0", [](AttentionProblem& p, AttentionLimits&) { p.value.scales.granularity = 0; }},
    {"key.scales.head_stride_bytes is 3", [](AttentionProblem& p, AttentionLimits&) { p.key.scales.head_stride_bytes = 3; }},
    {"q_heads is 5", [](AttentionProblem& p, AttentionLimits&) { p.q_heads = 5; }},
    {"q_heads is 0", [](AttentionProblem& p, AttentionLimits&) { p.q_heads = 0; }},
    {"q_dtype", [](AttentionProblem& p, AttentionLimits&) { p.q_dtype = DType::invalid; }},
    {"out_dtype", [](AttentionProblem& p, AttentionLimits&) { p.out_dtype = static_cast<DType>(200); }},
    {"mask.left is -2", [](AttentionProblem& p, AttentionLimits&) { p.mask.left = -2; }},
    {"mask.right is -3", [](AttentionProblem& p, AttentionLimits&) { p.mask.right = -3; }},
    {"mask.chunk is -1", [](AttentionProblem& p, AttentionLimits&) { p.mask.chunk = -1; }},
    {"mask.sink_tokens is -1", [](AttentionProblem& p, AttentionLimits&) { p.mask.sink_tokens = -1; }},
    {"scale is", [](AttentionProblem& p, AttentionLimits&) { p.scale = nan_value; }},
    {"softcap is", [](AttentionProblem& p, AttentionLimits&) { p.softcap = -1.0f; }},
    {"softcap is", [](AttentionProblem& p, AttentionLimits&) { p.softcap = std::numeric_limits<float>::infinity(); }},
    {"reproducible is 9", [](AttentionProblem& p, AttentionLimits&) { p.reproducible = static_cast<Reproducible>(9); }},
    {"limits.batch is 0", [](AttentionProblem&, AttentionLimits& l) { l.batch = 0; }},
    {"limits.tokens is -1", [](AttentionProblem&, AttentionLimits& l) { l.tokens = -1; }},
    {"limits.context is 0", [](AttentionProblem&, AttentionLimits& l) { l.context = 0; }},
    {"limits.parallelism is 0", [](AttentionProblem&, AttentionLimits& l) { l.parallelism = 0; }},
    {"limits.tokens", [](AttentionProblem&, AttentionLimits& l) { l.tokens = std::numeric_limits<int32_t>::max(); }},
};

TEST(AttendErrors, create_names_the_argument) {
  AttentionCase c(full_options());
  ASSERT_TRUE(Attention::create(c.problem(), c.limits()).has_value());
  for (const ProblemRow& row : problem_rows) {
    AttentionProblem problem = c.problem();
    AttentionLimits limits = c.limits();
    row.break_it(problem, limits);
    expect_error(Attention::create(problem, limits).error(), Errc::invalid_argument, "Attention::create: ", row.words);
  }
}

TEST(AttendErrors, an_unknown_kernel_name_is_an_error) {
  AttentionCase c(full_options());
  expect_error(Attention::create(c.problem(), c.limits(), {}, "attention_paged_any_z80").error(), Errc::invalid_argument,
               "Attention::create: ", "attention_paged_any_z80");
}

struct BatchRow {
  const char* words;
  void (*break_it)(Batch& b);
};

constexpr int32_t offsets_from_1[] = {1, 2, 5}, descending[] = {0, 3, 2}, too_many[] = {0, 2, 900};
constexpr int32_t negative_context[] = {40, -1}, too_long[] = {40, 900};

const BatchRow batch_rows[] = {
    {"batch.size is -1", [](Batch& b) { b.size = -1; }},
    {"batch.size is 3", [](Batch& b) { b.size = 3; }},
    {"batch.query_offsets is null", [](Batch& b) { b.query_offsets = nullptr; }},
    {"batch.context_lengths is null", [](Batch& b) { b.context_lengths = nullptr; }},
    {"batch.query_offsets[0] is 1", [](Batch& b) { b.query_offsets = offsets_from_1; }},
    {"batch.query_offsets[2] is 2", [](Batch& b) { b.query_offsets = descending; }},
    {"batch.query_offsets[2] is 900", [](Batch& b) { b.query_offsets = too_many; }},
    {"batch.context_lengths[1] is -1", [](Batch& b) { b.context_lengths = negative_context; }},
    {"batch.context_lengths[1] is 900", [](Batch& b) { b.context_lengths = too_long; }},
    {"batch.table.entries is null", [](Batch& b) { b.table.entries = nullptr; }},
    {"batch.visible_begin", [](Batch& b) { b.visible_begin = nullptr; }},
    {"batch.visible_end", [](Batch& b) { b.visible_end = nullptr; }},
    {"batch.tree", [](Batch& b) { b.tree = reinterpret_cast<const uint64_t*>(b.query_offsets); }},
    {"batch.selected", [](Batch& b) { b.selected = b.query_offsets; }},
};

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
    EXPECT_NE(status.message().find(row.words), std::string_view::npos) << status.message() << "\nhas not: " << row.words;
  }
}

TEST(AttendErrors, unasked_arrays_are_not_ignored) {
  CaseOptions options = full_options();
  options.intervals = options.sink_logits = options.alibi = false;
  options.bias = BiasForm::none;
  AttentionCase c(options);
  const Attention attention = Attention::create(c.problem(), c.limits()).value();
  const GuardedMemory memory(attention.plan_bytes(), 64), workspace(attention.workspace_bytes(), 64);
  Batch batch = c.batch();
  batch.visible_begin = batch.visible_end = c.batch().query_offsets;
  EXPECT_EQ(plan(attention, batch, memory.span()).error().code(), Errc::invalid_argument);

  const AttentionPlan made = plan(attention, c.batch(), memory.span()).value();
  const float numbers[4] = {};
  for (const auto& give : std::vector<std::function<void(AttentionArgs&)>>{
           [&](AttentionArgs& a) { a.sink_logits = numbers; }, [&](AttentionArgs& a) { a.alibi_slopes = numbers; },
           [&](AttentionArgs& a) {
             a.bias = dense_tensor(c.output_memory().data(), DType::f32, {1, 5, 40});
           },
           [&](AttentionArgs& a) { a.key_tail = a.key; }}) {
    AttentionArgs args = c.args();
    give(args);
    EXPECT_EQ(check(attention, made, args).code(), Errc::invalid_argument);
  }
}

struct ArgsRow {
  const char* words;
  void (*break_it)(AttentionArgs& a);
};

const ArgsRow args_rows[] = {
    {"q has dtype bf16", [](AttentionArgs& a) { a.q.dtype = DType::bf16; }},
    {"q has shape [5, 3, 32]", [](AttentionArgs& a) { a.q.extent[1] = 3; }},
    {"q has shape [4, 4, 32]", [](AttentionArgs& a) { a.q.extent[0] = 4; }},
    {"q.data is null", [](AttentionArgs& a) { a.q.data = nullptr; }},
    {"q.data is not aligned", [](AttentionArgs& a) { a.q.data = static_cast<char*>(a.q.data) + 1; }},
    {"q.stride_bytes[2] is 8", [](AttentionArgs& a) { a.q.stride_bytes[2] = 8; }},
    {"q.stride_bytes", [](AttentionArgs& a) { a.q.stride_bytes[0] += 1; }},
    {"out has shape [5, 4, 40]", [](AttentionArgs& a) { a.out.extent[2] = 40; }},
    {"out has dtype f16", [](AttentionArgs& a) { a.out.dtype = DType::f16; }},
    {"out.data is null", [](AttentionArgs& a) { a.out.data = nullptr; }},
    {"key has dtype f32", [](AttentionArgs& a) { a.key.dtype = DType::f32; }},
    {"key.num_heads is 1", [](AttentionArgs& a) { a.key.num_heads = 1; }},
    {"key.head_size is 24", [](AttentionArgs& a) { a.key.head_size = 24; }},
    {"key.page_size is 4", [](AttentionArgs& a) { a.key.page_size = 4; }},
    {"key.page_stride_bytes", [](AttentionArgs& a) { a.key.page_stride_bytes += 1; }},
    {"value.slot_stride_bytes", [](AttentionArgs& a) { a.value.slot_stride_bytes += 1; }},
    {"value.head_stride_bytes", [](AttentionArgs& a) { a.value.head_stride_bytes = 0; }},
    {"key.data is null", [](AttentionArgs& a) { a.key.data = nullptr; }},
    {"value.num_pages", [](AttentionArgs& a) { a.value.num_pages -= 1; }},
    {"key.num_pages is -1", [](AttentionArgs& a) { a.key.num_pages = -1; }},
    {"key.scales.dtype is f32", [](AttentionArgs& a) { a.key.scales.dtype = DType::f32; }},
    {"key.scales.granularity is 8", [](AttentionArgs& a) { a.key.scales.granularity = 8; }},
    {"value.scales.data is null", [](AttentionArgs& a) { a.value.scales.data = nullptr; }},
    {"value.scales.page_stride_bytes", [](AttentionArgs& a) { a.value.scales.page_stride_bytes += 2; }},
    {"value.scales.slot_stride_bytes", [](AttentionArgs& a) { a.value.scales.slot_stride_bytes += 2; }},
    {"key.scales.head_stride_bytes", [](AttentionArgs& a) { a.key.scales.head_stride_bytes += 2; }},
    {"key.scales.granule_stride_bytes", [](AttentionArgs& a) { a.key.scales.granule_stride_bytes += 2; }},
    {"sink_logits is null", [](AttentionArgs& a) { a.sink_logits = nullptr; }},
    {"alibi_slopes is null", [](AttentionArgs& a) { a.alibi_slopes = nullptr; }},
    {"bias is null", [](AttentionArgs& a) { a.bias.data = nullptr; }},
    {"bias has 2 heads", [](AttentionArgs& a) { a.bias.extent[0] = 2; }},
    {"bias has 39 keys", [](AttentionArgs& a) { a.bias.extent[2] = 39; }},
    {"bias has dtype bf16", [](AttentionArgs& a) { a.bias.dtype = DType::bf16; }},
    {"bias has shape [4, 6, 40]", [](AttentionArgs& a) { a.bias.extent[1] = 6; }},
};

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
    const Status status = attend(p->attention, p->plan, args, p->workspace.span(), serial_executor());
    ASSERT_FALSE(status.is_ok()) << row.words;
    EXPECT_EQ(status.code(), Errc::invalid_argument);
    EXPECT_EQ(status.message().substr(0, 8), "attend: ") << status.message();
    EXPECT_NE(status.message().find(row.words), std::string_view::npos) << status.message() << "\nhas not: " << row.words;
    EXPECT_EQ(check(p->attention, p->plan, args).message(), status.message());
    EXPECT_EQ(prepare(p->attention, p->plan, args, p->workspace.span()).message(), status.message());
  }
  EXPECT_EQ(c.output_bits(), untouched);
}

TEST(AttendErrors, memory_and_executor_are_checked) {
  AttentionCase c(full_options());
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value());
  const Attention& attention = p->attention;
  const GuardedMemory large(std::max(attention.plan_bytes(), attention.workspace_bytes()) + 64, 64);
  const auto plan_with = [&](MemorySpan memory) { return plan(attention, c.batch(), memory).error(); };
  const auto attend_with = [&](MemorySpan memory) { return attend(attention, p->plan, c.args(), memory, serial_executor()); };
  expect_error(plan_with({nullptr, 1 << 20}), Errc::invalid_argument, "plan: plan_memory", "null");
  expect_error(plan_with({large.data(), attention.plan_bytes() - 1}), Errc::invalid_argument, "plan: plan_memory", "bytes");
  expect_error(plan_with({large.data() + 8, attention.plan_bytes()}), Errc::invalid_argument, "plan: plan_memory", "aligned");
  expect_error(attend_with({nullptr, 1 << 30}), Errc::invalid_argument, "attend: workspace", "null");
  expect_error(attend_with({large.data(), attention.workspace_bytes() - 1}), Errc::invalid_argument, "attend: workspace",
               "bytes");
  expect_error(attend_with({large.data() + 8, attention.workspace_bytes()}), Errc::invalid_argument, "attend: workspace",
               "aligned");
  expect_error(attend(attention, p->plan, c.args(), p->workspace.span(), Executor{}), Errc::invalid_argument, "attend: executor",
               "parallel_for");
}

TEST(AttendErrors, empty_handles_are_named) {
  AttentionCase c(full_options());
  const Result<PreparedCase> p = prepare_case(c, {}, c.limits());
  ASSERT_TRUE(p.has_value());
  expect_error(plan(Attention{}, c.batch(), p->plan_memory.span()).error(), Errc::invalid_argument, "plan: attention", "empty");
  expect_error(check(Attention{}, p->plan, c.args()), Errc::invalid_argument, "attend: attention", "empty");
  expect_error(check(p->attention, AttentionPlan{}, c.args()), Errc::invalid_argument, "attend: plan", "empty");
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
[[maybe_unused]] void every_call_is_noexcept(const Attention& attention, const AttentionProblem& problem,
                                             const AttentionPlan& made, const Batch& batch, const AttentionArgs& args,
                                             MemorySpan memory, const Executor& executor, const AttentionLimits& limits,
                                             Device device) {
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
