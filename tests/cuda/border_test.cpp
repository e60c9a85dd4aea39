// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/border_test.cpp: what create, plan_async, prepare_async and attend_async refuse
/// before anything is launched; two streams at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "attention/internals.h"
#include "cuda/emulated_device.h"
#include "folio/attention/attend.h"
#include "support/attention_case.h"
#include "support/guarded_memory.h"
#include "support/run_case.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

constexpr Device gpu = EmulatedDevice::device();

CaseOptions options_of(std::vector<SequenceShape> sequences) {
  CaseOptions options;
  options.sequences = std::move(sequences);
  options.q_dtype = options.key_dtype = options.value_dtype = DType::bf16;
  options.parallelism = 3;
  options.unassigned = 0.1;
  return options;
}

/// A case, and an Attention of it on the device with its memories. The case's memory counts as the
/// device's.
struct DeviceCase {
  explicit DeviceCase(CaseOptions options, AttentionLimits limits = {})
      : c(std::move(options)),
        attention(
            Attention::create(c.problem(), limits.tokens == 1 ? c.limits() : limits, gpu).value()),
        plan_memory(attention.plan_bytes(), 64),
        workspace(attention.workspace_bytes(), 64) {
    c.set_precision({.weights = DType::bf16});
    c.poison_output();
  }

  Status attend_on(Stream stream) {
    const Result<AttentionPlan> plan = plan_async(attention, c.batch(), plan_memory.span(), stream);
    if (!plan) return plan.error();
    if (Status s = prepare_async(attention, workspace.span(), stream); !s.is_ok()) return s;
    return attend_async(attention, *plan, c.args(), workspace.span(), stream);
  }

  AttentionCase c;
  Attention attention;
  GuardedMemory plan_memory;
  GuardedMemory workspace;
};

struct Border : ::testing::Test {
  explicit Border(const EmulatedOptions& options = {.any_memory = true})
      : device(options, emulated_kernels()) {}
  EmulatedDevice device;
};
struct LateBorder : Border {
  LateBorder() : Border({.order = WorkOrder::late, .seed = 5, .any_memory = true}) {}
};

std::string refusal(const Status& status, Errc code) {
  EXPECT_EQ(status.code(), code) << status.message();
  return std::string(status.message());
}

TEST_F(LateBorder, keeps_two_streams_apart) {
  DeviceCase one(options_of({{1, 70}, {1, 20}})), other(options_of({{3, 50}, {18, 60}}));
  const Stream first = device.make_stream(), second = device.make_stream();
  ASSERT_TRUE(one.attend_on(first).is_ok());
  ASSERT_TRUE(other.attend_on(second).is_ok());
  device.synchronise(first);
  device.synchronise(second);
  for (DeviceCase* const run : {&one, &other}) {
    EXPECT_TRUE(matches_reference(run->c));
    EXPECT_TRUE(run->plan_memory.slack_untouched());
    EXPECT_TRUE(run->workspace.slack_untouched());
  }
}

TEST_F(Border, memory_is_checked_before_anything_is_launched) {
  DeviceCase run(options_of({{1, 700}}));
  ASSERT_GT(run.attention.workspace_bytes(), 0);
  const MemorySpan plan_memory = run.plan_memory.span(), workspace = run.workspace.span();
  const auto bytes = [](const MemorySpan& memory) { return static_cast<std::byte*>(memory.data); };
  const AttentionPlan plan =
      plan_async(run.attention, run.c.batch(), plan_memory, Stream()).value();
  device.forget_calls();
  for (const MemorySpan& broken :
       {MemorySpan{nullptr, plan_memory.bytes}, MemorySpan{plan_memory.data, plan_memory.bytes - 1},
        MemorySpan{bytes(plan_memory) + 4, plan_memory.bytes}, MemorySpan{plan_memory.data, -1}})
    EXPECT_THAT(refusal(plan_async(run.attention, run.c.batch(), broken, Stream()).error(),
                        Errc::invalid_argument),
                HasSubstr("plan_async: plan_memory"));
  for (const MemorySpan& broken :
       {MemorySpan{nullptr, workspace.bytes}, MemorySpan{workspace.data, workspace.bytes - 1},
        MemorySpan{bytes(workspace) + 4, workspace.bytes}}) {
    EXPECT_THAT(refusal(prepare_async(run.attention, broken, Stream()), Errc::invalid_argument),
                HasSubstr("prepare_async: workspace"));
    EXPECT_THAT(refusal(attend_async(run.attention, plan, run.c.args(), broken, Stream()),
                        Errc::invalid_argument),
                HasSubstr("attend_async: workspace"));
  }
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

TEST_F(Border, a_workspace_of_no_bytes_may_be_null) {
  CaseOptions options = options_of({{1, 40}, {2, 20}});
  options.reproducible = Reproducible::per_query;
  DeviceCase run(options);
  ASSERT_EQ(run.attention.workspace_bytes(), 0) << "no row is shared by tasks";
  const AttentionPlan plan =
      plan_async(run.attention, run.c.batch(), run.plan_memory.span(), Stream()).value();
  for (const Status& status : {prepare_async(run.attention, {}, Stream()),
                               attend_async(run.attention, plan, run.c.args(), {}, Stream())})
    ASSERT_TRUE(status.is_ok()) << status.message();
  device.synchronise(Stream());
  EXPECT_TRUE(matches_reference(run.c));
  EXPECT_THAT(
      refusal(prepare_async(run.attention, {nullptr, -1}, Stream()), Errc::invalid_argument),
      HasSubstr("workspace has -1 bytes"));
}

struct BrokenBatch {
  const char* words;
  void (*break_it)(Batch& batch);
};

TEST_F(Border, what_the_host_knows_of_a_batch_is_checked) {
  DeviceCase run(options_of({{1, 40}}));
  const BrokenBatch rows[] = {
      {"batch.size is -1", [](Batch& b) { b.size = -1; }},
      {"batch.size is 2147483647", [](Batch& b) { b.size = INT32_MAX; }},
      {"batch.query_offsets is null", [](Batch& b) { b.query_offsets = nullptr; }},
      {"batch.context_lengths is null", [](Batch& b) { b.context_lengths = nullptr; }},
      {"batch.table.entries is null", [](Batch& b) { b.table.entries = nullptr; }},
      {"batch.visible_begin is given", [](Batch& b) { b.visible_begin = b.context_lengths; }},
      {"batch.tree is given",
       [](Batch& b) { b.tree = reinterpret_cast<const uint64_t*>(b.table.entries); }},
      {"batch.selected is given", [](Batch& b) { b.selected = b.context_lengths; }}};
  device.forget_calls();
  for (const BrokenBatch& row : rows) {
    Batch batch = run.c.batch();
    row.break_it(batch);
    EXPECT_THAT(refusal(plan_async(run.attention, batch, run.plan_memory.span(), Stream()).error(),
                        Errc::invalid_argument),
                HasSubstr(std::string("plan_async: ") + row.words));
  }
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
}

struct BrokenCall {
  const char* words;
  std::function<void(AttentionPlan& plan, AttentionArgs& args)> break_it;
};

TEST_F(Border, plans_and_arguments_are_checked_before_anything_is_launched) {
  DeviceCase run(options_of({{1, 40}, {2, 30}}));
  const AttentionPlan plan =
      plan_async(run.attention, run.c.batch(), run.plan_memory.span(), Stream()).value();
  const auto shift = [](auto& tensor, int64_t n) {
    tensor.data =
        static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(tensor.data))) + n;
  };
  const BrokenCall rows[] = {
      {"plan is empty", [](auto& p, auto&) { p = {}; }},
      {"plan is of another Attention", [](auto& p, auto&) { ++p.generation; }},
      {"plan.num_tasks is", [](auto& p, auto&) { ++p.num_tasks; }},
      {"plan.tokens is", [](auto& p, auto&) { p.tokens = -1; }},
      {"plan.batch is", [](auto& p, auto&) { p.batch = INT32_MAX; }},
      {"q has -1 tokens", [](auto&, auto& a) { a.q.extent[0] = -1; }},
      {"q has 9 tokens", [](auto&, auto& a) { a.q.extent[0] = 9; }},
      {"q has data or strides", [&](auto&, auto& a) { shift(a.q, 2); }},
      {"out has data or strides", [](auto&, auto& a) { a.out.stride_bytes[0] += 4; }},
      {"out", [](auto&, auto& a) { --a.out.extent[0]; }},
      {"q.data is null", [](auto&, auto& a) { a.q.data = nullptr; }},
      {"key.data is null", [](auto&, auto& a) { a.key.data = nullptr; }},
      {"key", [](auto&, auto& a) { a.key.slot_stride_bytes += 2; }},
      {"value.num_pages is", [](auto&, auto& a) { ++a.value.num_pages; }},
      {"sink_logits is given", [](auto&, auto& a) { a.sink_logits = a.lse; }},
      {"alibi_slopes is given", [](auto&, auto& a) { a.alibi_slopes = a.lse; }}};
  const std::vector<std::byte> before = run.c.output_bits();
  device.forget_calls();
  for (const BrokenCall& row : rows) {
    AttentionPlan broken = plan;
    AttentionArgs args = run.c.args();
    row.break_it(broken, args);
    EXPECT_THAT(refusal(attend_async(run.attention, broken, args, run.workspace.span(), Stream()),
                        Errc::invalid_argument),
                HasSubstr(std::string("attend_async: ") + row.words));
  }
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
  EXPECT_EQ(run.c.output_bits(), before);
}

/// Many rows and few, under a mask that the kernels' plain instances serve, or their general ones.
DeviceCase masked_case(const Mask& mask) {
  CaseOptions options = options_of({{19, 150}, {1, 90}});
  options.mask = mask;
  return DeviceCase(std::move(options));
}

TEST_F(Border, with_mask_keeps_the_memory_whatever_instance_the_mask_needs) {
  const Mask plain = {.left = 30}, general = {.left = 30, .sink_tokens = 4};
  for (const auto& [from, to] : {std::pair(plain, general), std::pair(general, plain)}) {
    DeviceCase before = masked_case(from), run = masked_case(to);
    run.attention = before.attention.with_mask(to).value();
    EXPECT_EQ(run.plan_memory.span().bytes, run.attention.plan_bytes());
    EXPECT_EQ(run.workspace.span().bytes, run.attention.workspace_bytes());
    ASSERT_TRUE(run.attend_on(Stream()).is_ok());
    device.synchronise(Stream());
    EXPECT_TRUE(matches_reference(run.c));
  }
}

TEST_F(Border, finds_each_instance_of_decode_over_8_bits) {
  const Stream stream = device.make_stream();
  for (const DType stored : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    for (const int32_t head_size : {64, 128, 256})
      for (const int32_t granularity : {0, 1, 2, 4, 7, 8, 16, 64}) {  // 0: a scale a row
        CaseOptions options = options_of({{1, 33}, {2, 5}});
        options.head_size = head_size;
        options.key_dtype = options.value_dtype = stored;
        options.key_scales.kind = options.value_scales.kind =
            granularity == 0 ? ScaleKind::token_and_head : ScaleKind::granule;
        options.key_scales.granularity = options.value_scales.granularity = granularity;
        options.softcap = stored == DType::i8 ? 5.0f : 0.0f;
        DeviceCase run(options);
        run.c.set_precision(precision_of(*kernel_entry(run.attention), run.c.problem()));
        ASSERT_TRUE(run.attend_on(stream).is_ok()) << describe(options);
        device.synchronise(stream);
        EXPECT_TRUE(matches_reference(run.c)) << describe(options);
      }
}

TEST_F(Border, a_plan_serves_copies_of_its_attention_and_no_other) {
  DeviceCase run = masked_case({.left = 30});
  const AttentionPlan plan =
      plan_async(run.attention, run.c.batch(), run.plan_memory.span(), Stream()).value();
  const auto attend = [&](const Attention& attention) {
    return attend_async(attention, plan, run.c.args(), run.workspace.span(), Stream());
  };
  ASSERT_TRUE(prepare_async(run.attention, run.workspace.span(), Stream()).is_ok());
  device.forget_calls();
  for (const Attention& other : {run.attention.with_mask({.left = 31}).value(),
                                 run.attention.with_limits(run.c.limits()).value(),
                                 Attention::create(run.c.problem(), run.c.limits(), gpu).value()})
    EXPECT_THAT(refusal(attend(other), Errc::invalid_argument),
                HasSubstr("attend_async: plan is of another Attention"));
  EXPECT_EQ(device.calls("cuLaunchKernel"), 0);
  const Attention copy = run.attention;
  EXPECT_TRUE(attend(copy).is_ok());
  device.synchronise(Stream());
  EXPECT_TRUE(matches_reference(run.c));
}

TEST_F(Border, calls_of_the_host_refuse_an_attention_of_a_device) {
  DeviceCase run(options_of({{1, 40}}));
  const AttentionPlan made =
      plan_async(run.attention, run.c.batch(), run.plan_memory.span(), Stream()).value();
  const MemorySpan workspace = run.workspace.span();
  const char* const words = "attention is of a CUDA device, expected plan_async";
  EXPECT_THAT(refusal(plan(run.attention, run.c.batch(), run.plan_memory.span()).error(),
                      Errc::unsupported),
              HasSubstr(words));
  EXPECT_THAT(refusal(prepare(run.attention, made, run.c.args(), workspace), Errc::unsupported),
              HasSubstr(words));
  EXPECT_THAT(refusal(attend(run.attention, made, run.c.args(), workspace, serial_executor()),
                      Errc::unsupported),
              HasSubstr(words));
  EXPECT_THAT(
      refusal(attend_task(run.attention, made, run.c.args(), workspace, 0), Errc::unsupported),
      HasSubstr(words));
}

TEST_F(Border, create_selects_among_the_devices_kernels_alone) {
  AttentionCase c(options_of({{1, 40}}));
  const Attention attention = Attention::create(c.problem(), c.limits(), gpu).value();
  EXPECT_EQ(attention.kernel(), "attention_cuda_decode_bf16");
  EXPECT_EQ(attention.device(), gpu);
  EXPECT_THAT(
      refusal(Attention::create(c.problem(), c.limits(), gpu, "attention_paged_any_x86_64").error(),
              Errc::unsupported),
      HasSubstr("the kernel runs on the CPU, this is another device"));
  EXPECT_THAT(
      refusal(Attention::create(c.problem(), c.limits(), {}, "attention_cuda_decode_bf16").error(),
              Errc::unsupported),
      HasSubstr("the kernel runs on CUDA devices"));
  AttentionProblem f32 = c.problem();
  f32.q_dtype = DType::f32;
  EXPECT_NE(refuse(f32, gpu), nullptr);
  EXPECT_EQ(refuse(c.problem(), gpu), nullptr);
  const auto error_of_device = [&](int32_t index) {
    return Attention::create(c.problem(), c.limits(), {Device::Kind::cuda, index}).error();
  };
  EXPECT_EQ(error_of_device(1).code(), Errc::device) << "there is one";
  for (const int32_t index : {-1, INT32_MAX, INT32_MIN})
    EXPECT_THAT(refusal(error_of_device(index), Errc::invalid_argument),
                HasSubstr("Attention::create: device.index is"));
}

TEST_F(Border, limits_of_zero_parallelism_take_every_multiprocessor) {
  AttentionCase c(options_of({{1, 40}}));
  AttentionLimits limits = c.limits();
  limits.parallelism = 0;
  EXPECT_EQ(Attention::create(c.problem(), limits, gpu)->limits().parallelism, 4);
}

TEST_F(Border, limits_that_no_plan_can_count_are_refused) {
  CaseOptions options = options_of({{1, 40}});
  options.q_heads = options.kv_heads = 1;
  AttentionCase c(options);
  const AttentionLimits limits = {INT32_MAX - 1, INT32_MAX, INT32_MAX, 16384};
  EXPECT_THAT(refusal(Attention::create(c.problem(), limits, gpu).error(), Errc::invalid_argument),
              HasSubstr("Attention::create: limits of batch 2147483646"));
}

}  // namespace
}  // namespace folio::test
