// SPDX-License-Identifier: Apache-2.0
/// src/attention/attend.cpp: the border of attend: check, then run the plan's tasks.
#include "folio/attention/attend.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "attention/check.h"
#include "attention/internals.h"
#include "attention/plan_memory.h"
#include "cache/check_tensor.h"
#include "core/checked.h"
#include "core/run_on.h"

namespace folio::inline v1 {
namespace {

/// One call of attend, as its tasks see it.
struct Call {
  const Kernel& kernel;
  const PlanHeader& plan;
  KernelCall kernel_call;
  KernelGeometry geometry;
  WorkspaceParts workspace;
};

Call call_of(const Attention& attention, const AttentionPlan& plan, const AttentionArgs& args,
             const MemorySpan& workspace) {
  const auto& header = *static_cast<const PlanHeader*>(plan.items);
  const Kernel& kernel = *header.kernel;
  const KernelGeometry geometry = geometry_of(kernel, attention.problem());
  const ScheduleSize bounds = schedule_bounds(attention.problem(), attention.limits(), geometry);
  return {kernel,
          header,
          {&attention.problem(), &args, &header.batch, header.splits, header.queries},
          geometry,
          workspace_parts(workspace.data, attention.limits().parallelism, bounds, geometry)};
}

/// One more task of a split is done.
void finish_one(const Call& call, int32_t number, std::byte* scratch) {
  const Split& split = call.plan.splits[number];
  std::atomic_ref<int32_t> finished(call.workspace.finished[number]);
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == split.tasks)
    call.kernel.finish(call.kernel_call, split.whole, scratch,
                       call.workspace.partials + split.first_byte);
}

/// Runs a task; the one that finishes a split last folds its states, in ascending order.
void run_task(const Call& call, const Task& task, std::byte* scratch) {
  const AttentionProblem& problem = *call.kernel_call.problem;
  call.kernel.run(call.kernel_call, task, scratch,
                  stores_states(task) ? call.workspace.partials : nullptr);
  for_each_split(task, call.plan.queries, problem.q_heads / problem.key.num_heads,
                 [&](int32_t split) { finish_one(call, split, scratch); });
}

/// Worker `worker` takes tasks until none is left; no more than `parallelism` workers exist, so
/// each has scratch memory of its own.
void work(void* arg, int64_t worker) noexcept {
  const Call& call = *static_cast<const Call*>(arg);
  std::byte* scratch = call.workspace.scratch + worker * call.geometry.scratch_bytes;
  std::atomic_ref<int64_t> next(call.workspace.header->next_task);
  for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < call.plan.num_tasks;
       i = next.fetch_add(1, std::memory_order_relaxed))
    run_task(call, call.plan.tasks[i], scratch);
}

Status check_bias_of_plan(const char* function, const AttentionProblem& problem,
                          const PlanHeader& header, const AttentionArgs& args) {
  const ConstTensor<3>& bias = args.bias;
  const int64_t stride = args.bias_sequence_stride_bytes;
  if (!reach_bytes(header.batch.size, stride).is_at_most(memory_bytes_max))
    return fail(Errc::invalid_argument,
                "{}: bias_sequence_stride_bytes is {} over {} sequences, expected a reach of at "
                "most 2^56 bytes",
                function, stride, header.batch.size);
  if (bias.extent[2] < header.longest_context)
    return fail(Errc::invalid_argument,
                "{}: bias has {} keys, expected at least {} (the longest context)", function,
                bias.extent[2], header.longest_context);
  if (problem.bias_per_sequence && bias.extent[1] < header.most_new_tokens)
    return fail(Errc::invalid_argument,
                "{}: bias has {} rows, expected at least {} (new tokens of a sequence)", function,
                bias.extent[1], header.most_new_tokens);
  return {};
}

/// The lists may change from layer to layer: their entries are looked at in every call.
Status check_listed_slots(const char* function, const AttentionProblem& problem, const Batch& batch,
                          const PagedKVView& key) {
  const int64_t slots = key.page_size == unbounded_page_size ? 1 : key.page_size;
  const int64_t rows = std::min<int64_t>(key.num_pages * slots, INT64_C(1) << 31);
  const int64_t heads = problem.selection_per_head ? key.num_heads : 1;
  const int64_t count = batch.query_offsets[batch.size] * heads * batch.selected_stride;
  bool is_outside = false;
  for (int64_t i = 0; i < count; ++i)
    is_outside |= batch.selected[i] < -1 || batch.selected[i] >= rows;
  if (!is_outside) return {};
  int64_t i = 0;
  while (batch.selected[i] >= -1 && batch.selected[i] < rows) ++i;
  const int64_t list = i / batch.selected_stride, entry = i % batch.selected_stride;
  if (problem.selection_per_head)
    return fail(Errc::invalid_argument,
                "{}: batch.selected[{}][{}][{}] is {}, expected -1 (none) or a slot below {} (of "
                "key)",
                function, list / heads, list % heads, entry, batch.selected[i], rows);
  return fail(Errc::invalid_argument,
              "{}: batch.selected[{}][{}] is {}, expected -1 (none) or a slot below {} (of key)",
              function, list, entry, batch.selected[i], rows);
}

/// `prepare`, for the function of that name and for attend.
Status prepare_call(const char* function, const Attention& attention, const AttentionPlan& plan,
                    const AttentionArgs& args, const MemorySpan& workspace) {
  if (Status s = check(attention, plan, args, function); !s.is_ok()) return s;
  if (Status s = check_memory(function, "workspace", workspace, attention.workspace_bytes());
      !s.is_ok())
    return s;
  const Call call = call_of(attention, plan, args, workspace);
  call.workspace.header->next_task = 0;
  call.workspace.header->generation = plan.generation;
  for (int32_t i = 0; i < attention.limits().parallelism; ++i) call.workspace.workers[i] = 0;
  for (int64_t i = 0; i < call.plan.num_splits; ++i) call.workspace.finished[i] = 0;
  return {};
}

}  // namespace

Status check(const Attention& attention, const AttentionPlan& plan, const AttentionArgs& args,
             const char* function) noexcept {
  if (function == nullptr) function = "check";
  if (Status s = check_plan(function, attention, plan); !s.is_ok()) return s;
  const auto& header = *static_cast<const PlanHeader*>(plan.items);
  const AttentionProblem& problem = attention.problem();
  if (Status s = check_args(function, *header.kernel, problem, plan.tokens, args); !s.is_ok())
    return s;
  if (problem.bias && plan.tokens > 0) {
    if (Status s = check_bias_of_plan(function, problem, header, args); !s.is_ok()) return s;
  }
  return problem.selection && plan.tokens > 0
             ? check_listed_slots(function, problem, header.batch, args.key)
             : Status();
}

Status prepare(const Attention& attention, const AttentionPlan& plan, const AttentionArgs& args,
               MemorySpan workspace) noexcept {
  return prepare_call("prepare", attention, plan, args, workspace);
}

Status attend(const Attention& attention, const AttentionPlan& plan, const AttentionArgs& args,
              MemorySpan workspace, const Executor& executor) noexcept {
  if (Status s = check_executor("attend", executor); !s.is_ok()) return s;
  if (Status s = prepare_call("attend", attention, plan, args, workspace); !s.is_ok()) return s;
  Call call = call_of(attention, plan, args, workspace);
  const Result<int64_t> threads = concurrency_of("attend", executor);
  if (!threads) return threads.error();
  int64_t workers = attention.limits().parallelism;
  if (*threads < workers) workers = *threads;
  if (plan.num_tasks < workers) workers = plan.num_tasks;
  return run_on("attend", executor, workers, work, &call);
}

Status attend_task(const Attention& attention, const AttentionPlan& plan, const AttentionArgs& args,
                   MemorySpan workspace, int64_t task) noexcept {
  if (Status s = check_task(attention, plan, workspace, task); !s.is_ok()) return s;
  const Call call = call_of(attention, plan, args, workspace);
  for (int32_t worker = 0;; worker = (worker + 1) % attention.limits().parallelism) {
    std::atomic_ref<uint32_t> taken(call.workspace.workers[worker]);
    if (taken.exchange(1, std::memory_order_acquire) == 0) {
      run_task(call, call.plan.tasks[task],
               call.workspace.scratch + worker * call.geometry.scratch_bytes);
      taken.store(0, std::memory_order_release);
      return {};
    }
    if (worker + 1 == attention.limits().parallelism) std::this_thread::yield();
  }
}

}  // namespace folio::inline v1
