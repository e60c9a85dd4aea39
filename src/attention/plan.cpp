// SPDX-License-Identifier: Apache-2.0
/// src/attention/plan.cpp: writes a step's work list into the caller's memory.
#include "folio/attention/plan.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "attention/check.h"
#include "attention/internals.h"
#include "attention/plan_memory.h"
#include "cache/check_tensor.h"
#include "kernel/sequence.h"

namespace folio::inline v1 {
namespace {

/// The caller's batch with its per-sequence arrays replaced by copies in the plan memory.
Batch copy_batch(const Batch& batch, const PlanParts& parts) {
  Batch copy = batch;
  if (batch.size == 0) {
    parts.query_offsets[0] = 0;
  } else {
    std::copy_n(batch.query_offsets, batch.size + 1, parts.query_offsets);
    std::copy_n(batch.context_lengths, batch.size, parts.context_lengths);
  }
  copy.query_offsets = parts.query_offsets;
  copy.context_lengths = parts.context_lengths;
  if (batch.query_positions != nullptr) {
    std::copy_n(batch.query_positions, batch.size, parts.query_positions);
    copy.query_positions = parts.query_positions;
  }
  if (batch.key_positions != nullptr) {
    std::copy_n(batch.key_positions, batch.size, parts.key_positions);
    copy.key_positions = parts.key_positions;
  }
  return copy;
}

/// Each sequence has no more rows of a head than the kernel for few is for.
bool has_few_rows(const Attention& attention, const Batch& batch) {
  if (few_rows_entry(attention) == nullptr) return false;
  const AttentionProblem& problem = attention.problem();
  const int32_t group = problem.q_heads / problem.key.num_heads,
                tokens = AttentionInternals::few_rows(attention) / group;
  for (int32_t b = 0; b < batch.size; ++b)
    if (batch.query_offsets[b + 1] - batch.query_offsets[b] > tokens) return false;
  return true;
}

/// Writes the tasks of the batch for `kernel`.
ScheduleSize write_tasks(const Attention& attention, const Batch& batch, const Kernel& kernel,
                         void* plan_memory) {
  const AttentionProblem& problem = attention.problem();
  const AttentionLimits& limits = attention.limits();
  const KernelGeometry geometry = geometry_of(kernel, problem);
  const PlanParts parts =
      plan_parts(plan_memory, limits, schedule_bounds(problem, limits, geometry));
  PlanHeader* const header = parts.header;
  header->kernel = &kernel;
  header->batch = copy_batch(batch, parts);
  header->tasks = parts.schedule.tasks;
  header->splits = parts.schedule.splits;
  header->queries = parts.schedule.queries;
  return make_schedule(problem, limits, header->batch, geometry, parts.schedule);
}

}  // namespace

uint64_t next_number() noexcept {
  static std::atomic<uint64_t> last = 0;
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Result<AttentionPlan> plan(const Attention& attention, const Batch& batch,
                           MemorySpan plan_memory) noexcept {
  if (kernel_entry(attention) == nullptr)
    return fail(Errc::invalid_argument,
                "plan: attention is empty, expected one made by Attention::create");
  if (Status s = check_host("plan", attention); !s.is_ok()) return s;
  const AttentionProblem& problem = attention.problem();
  const AttentionLimits& limits = attention.limits();
  if (Status s = check_memory("plan", "plan_memory", plan_memory, attention.plan_bytes());
      !s.is_ok())
    return s;
  ::new (plan_memory.data) PlanHeader();  // whatever the memory held is no plan any more
  if (Status s = check_batch(problem, limits, batch); !s.is_ok()) return s;

  const bool is_few = has_few_rows(attention, batch);
  ScheduleSize size =
      write_tasks(attention, batch, *(is_few ? few_rows_entry(attention) : kernel_entry(attention)),
                  plan_memory.data);
  // rows of several sequences that share keys are not few any more
  if (is_few && size.shared_queries > 0)
    size = write_tasks(attention, batch, *kernel_entry(attention), plan_memory.data);
  auto* const header = static_cast<PlanHeader*>(plan_memory.data);
  header->limits = limits;
  header->problem = problem;
  header->num_tasks = size.tasks;
  header->num_splits = size.splits;
  header->tokens = header->batch.query_offsets[batch.size];
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence sequence = sequence_of(header->batch, b);
    header->longest_context = std::max<int64_t>(header->longest_context, sequence.context);
    header->most_new_tokens = std::max<int64_t>(header->most_new_tokens, sequence.new_tokens);
  }

  header->generation = next_number();

  AttentionPlan result;
  result.num_tasks = size.tasks;
  result.items = header;
  result.batch = batch.size;
  result.tokens = static_cast<int32_t>(header->tokens);
  result.generation = header->generation;
  return result;
}

int64_t keys_read(const Attention& attention, const AttentionPlan& plan) noexcept {
  if (!check_plan("keys_read", attention, plan).is_ok()) return 0;
  const auto& header = *static_cast<const PlanHeader*>(plan.items);
  int64_t keys = 0;
  for (int64_t i = 0; i < header.num_tasks; ++i) {
    const Task& task = header.tasks[i];
    keys += int64_t{task.key_end - task.key_begin} * task.heads;
  }
  return keys / header.problem.key.num_heads;
}

std::string_view kernel_of(const Attention& attention, const AttentionPlan& plan) noexcept {
  if (!check_plan("kernel_of", attention, plan).is_ok()) return {};
  return static_cast<const PlanHeader*>(plan.items)->kernel->name;
}

}  // namespace folio::inline v1
