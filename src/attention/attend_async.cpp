// SPDX-License-Identifier: Apache-2.0
/// src/attention/attend_async.cpp: the border of attention on a device: check what the host knows,
/// then launch on the caller's stream.
#include "attention/check.h"
#include "attention/device.h"
#include "attention/internals.h"
#include "cache/check_alignment.h"
#include "cache/check_tensor.h"
#include "cuda/attention/planes.h"
#include "cuda/attention_kernel.h"
#include "cuda/plan/launch.h"
#include "cuda/runtime/launch.h"
#include "folio/attention/attend.h"

namespace folio::inline v1 {
namespace {

constexpr int64_t row_alignment = 16;  // of q and out: what kernels move at once

Status check_device(const char* function, const char* instead, const Attention& attention) {
  const Kernel* const kernel = kernel_entry(attention);
  if (kernel == nullptr)
    return fail(Errc::invalid_argument,
                "{}: attention is empty, expected one made by Attention::create", function);
  if (kernel->device != nullptr) return {};
  return fail(Errc::unsupported, "{}: the CPU has no streams, expected a call of {}", function,
              instead);
}

DeviceLists lists_of(const Attention& attention) {
  return device_lists(attention.problem(), attention.limits(), *kernel_entry(attention),
                      many_rows_entry(attention));
}

struct Count {
  const char* name;
  int64_t given;
  int64_t expected;
};

/// The plan is one that plan_async made of this Attention, and says of itself what it said then.
Status check_device_plan(const char* function, const Attention& attention,
                         const AttentionPlan& plan, const DeviceLists& lists) {
  if (plan.items == nullptr || plan.generation == 0)
    return fail(Errc::invalid_argument, "{}: plan is empty, expected one made by plan_async()",
                function);
  if (plan.generation != identity_of(attention))
    return fail(
        Errc::invalid_argument,
        "{}: plan is of another Attention, expected one that plan_async made of this one or "
        "a copy of it",
        function);
  const Count counts[] = {{"num_tasks", plan.num_tasks, lists.layout.max_tasks()},
                          {"tokens", plan.tokens, attention.limits().tokens}};
  for (const Count& c : counts) {
    if (c.given == c.expected) continue;
    return fail(Errc::invalid_argument, "{}: plan.{} is {}, expected {} (from attention)", function,
                c.name, c.given, c.expected);
  }
  if (plan.batch >= 0 && plan.batch <= attention.limits().batch) return {};
  return fail(Errc::invalid_argument, "{}: plan.batch is {}, expected 0 to limits.batch = {}",
              function, plan.batch, attention.limits().batch);
}

template <class Tensor>
Status check_rows_aligned(const char* function, const char* name, const Tensor& tensor) {
  const int64_t places[] = {static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data)),
                            tensor.stride_bytes[0], tensor.stride_bytes[1]};
  for (const int64_t place : places) {
    if (place % row_alignment == 0) continue;
    return fail(Errc::invalid_argument,
                "{}: {} has data or strides that are no multiples of {} bytes, expected such (on a "
                "device)",
                function, name, row_alignment);
  }
  return {};
}

Status check_device_args(const char* function, const Attention& attention,
                         const AttentionArgs& args) {
  const AttentionProblem& problem = attention.problem();
  const int64_t tokens = args.q.extent[0];
  if (tokens < 0 || tokens > attention.limits().tokens)
    return fail(Errc::invalid_argument, "{}: q has {} tokens, expected 0 to limits.tokens = {}",
                function, tokens, attention.limits().tokens);
  for (const Kernel* const kernel : {kernel_entry(attention), many_rows_entry(attention)}) {
    if (kernel == nullptr) continue;
    if (Status s = check_args(function, *kernel, problem, tokens, args); !s.is_ok()) return s;
  }
  if (Status s = check_rows_aligned(function, "q", args.q); !s.is_ok()) return s;
  if (Status s = check_rows_aligned(function, "out", args.out); !s.is_ok()) return s;
  if (problem.bias && tokens > 0 && args.bias.extent[2] < attention.limits().context)
    return fail(Errc::invalid_argument,
                "{}: bias has {} keys, expected at least limits.context = {}", function,
                args.bias.extent[2], attention.limits().context);
  return {};
}

/// Launches one list's kernel.
Status launch_list(const char* function, const Attention& attention, const Kernel& kernel,
                   const cuda::AttendCall& call, int32_t blocks, Stream stream) {
  const cuda::DeviceKernel& device = *kernel.device;
  const int32_t number = cuda::kernel_number(device.instance(attention.problem()));
  if (!device.takes_tensor_maps)
    return cuda::launch(function, attention.device(), number, blocks, &call, sizeof call, stream);
  cuda::AttendTileCall tiles;
  tiles.call = call;
  if (Status s = cuda::encode_planes(attention.device(), tiles); !s.is_ok()) return s;
  return cuda::launch(function, attention.device(), number, blocks, &tiles, sizeof tiles, stream);
}

}  // namespace

Result<AttentionPlan> plan_async(const Attention& attention, const Batch& batch,
                                 MemorySpan plan_memory, Stream stream) noexcept {
  constexpr auto function = "plan_async";
  if (Status s = check_device(function, "plan", attention); !s.is_ok()) return s;
  if (Status s = check_memory(function, "plan_memory", plan_memory, attention.plan_bytes());
      !s.is_ok())
    return s;
  if (Status s = check_device_batch(function, attention.problem(), attention.limits(), batch);
      !s.is_ok())
    return s;
  const DeviceLists lists = lists_of(attention);
  if (Status s =
          cuda::launch_plan(function, attention.device(), attention.problem(), attention.limits(),
                            batch, lists.layout, plan_memory.data, stream);
      !s.is_ok())
    return s;
  AttentionPlan plan;
  plan.num_tasks = lists.layout.max_tasks();
  plan.items = plan_memory.data;
  plan.batch = batch.size;
  plan.tokens = attention.limits().tokens;
  plan.generation = identity_of(attention);
  return plan;
}

Status prepare_async(const Attention& attention, MemorySpan workspace, Stream stream) noexcept {
  constexpr auto function = "prepare_async";
  if (Status s = check_device(function, "prepare", attention); !s.is_ok()) return s;
  if (Status s = check_memory(function, "workspace", workspace, attention.workspace_bytes());
      !s.is_ok())
    return s;
  const cuda::DevicePlanLayout layout = lists_of(attention).layout;
  if (layout.max_splits == 0) return {};
  return cuda::fill_async(function, attention.device(), layout.arrivals(workspace.data),
                          cuda::arrivals_ready, layout.max_splits, stream);
}

Status attend_async(const Attention& attention, const AttentionPlan& plan,
                    const AttentionArgs& args, MemorySpan workspace, Stream stream) noexcept {
  constexpr auto function = "attend_async";
  if (Status s = check_device(function, "attend", attention); !s.is_ok()) return s;
  const DeviceLists lists = lists_of(attention);
  if (Status s = check_device_plan(function, attention, plan, lists); !s.is_ok()) return s;
  if (Status s = check_device_args(function, attention, args); !s.is_ok()) return s;
  if (Status s = check_memory(function, "workspace", workspace, attention.workspace_bytes());
      !s.is_ok())
    return s;
  if (plan.batch == 0 || args.q.extent[0] == 0) return {};

  cuda::AttendCall call = lists.layout.call(const_cast<void*>(plan.items), workspace.data);
  call.problem = attention.problem();
  call.args = args;
  call.list = lists.layout.few(const_cast<void*>(plan.items));
  if (Status s = launch_list(function, attention, *kernel_entry(attention), call, lists.blocks_few,
                             stream);
      !s.is_ok())
    return s;
  const Kernel* const many = many_rows_entry(attention);
  if (many == nullptr) return {};
  call.list = lists.layout.many(const_cast<void*>(plan.items));
  return launch_list(function, attention, *many, call, lists.blocks_many, stream);
}

}  // namespace folio::inline v1
