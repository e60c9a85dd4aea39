// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/selected.cpp: look-ups in short lists: a model has few kinds of layers.
#include "selected.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "trace.h"

namespace ggml_folio {
namespace {

using namespace folio;

int32_t power_of_two(int64_t least, int64_t size) {
  const auto rounded = std::bit_ceil(static_cast<uint64_t>(std::max(least, size)));
  return static_cast<int32_t>(
      std::min<uint64_t>(rounded, static_cast<uint64_t>(std::numeric_limits<int32_t>::max())));
}

}  // namespace

Result<AttentionPlan> Selected::plan_of(const MaskedBatch* masked, uint64_t graph) {
  Plan* old = nullptr;
  for (const auto& plan : plans_) {
    if (plan->graph == graph && plan->masked == masked) return AttentionPlan(plan->plan);
    if (plan->graph != graph) old = plan.get();
  }
  if (old == nullptr) {
    plans_.push_back(std::make_unique<Plan>());
    old = plans_.back().get();
  }
  const Timer timer(&Counters::plan_ns);
  old->graph = 0;
  const MemorySpan memory = old->memory.at_least(attention_.plan_bytes());
  if (memory.data == nullptr) return Status(Errc::out_of_memory, "no memory for a plan");
  Result<AttentionPlan> made = plan(attention_, masked->batch, memory);
  if (!made) return made;
  old->masked = masked;
  old->graph = graph;
  old->plan = *made;
  count(&Counters::plans);
  return made;
}

Result<Selected*> Selections::find(const AttentionProblem& problem, const MaskedBatch& masked,
                                   int threads) {
  const AttentionLimits limits = {.batch = power_of_two(1, masked.batch.size),
                                  .tokens = power_of_two(1, masked.tokens),
                                  .context = power_of_two(256, masked.context),
                                  .parallelism = threads};
  for (const Entry& entry : entries_)
    if (entry.limits == limits && entry.problem == problem) return entry.selected.get();
  const Timer timer(&Counters::create_ns);
  Result<Attention> made = Attention::create(problem, limits);
  if (!made) return made.error();
  entries_.push_back({problem, limits, std::make_unique<Selected>(*made)});
  trace_kernel(made->kernel());
  return entries_.back().selected.get();
}

}  // namespace ggml_folio
