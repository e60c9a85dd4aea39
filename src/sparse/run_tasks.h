// SPDX-License-Identifier: Apache-2.0
/// src/sparse/run_tasks.h: the tasks of one call of an index kernel on an executor.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/run_on.h"
#include "sparse/check_index.h"
#include "sparse/schedule.h"

namespace folio::inline v1 {

/// One call of an index kernel, as its tasks see it.
struct IndexRun {
  const IndexKernel& kernel;
  IndexGeometry geometry;
  IndexCall call;
  IndexWorkspace workspace;
  int64_t tasks = 0;

  [[nodiscard]] std::byte* scratch(int64_t worker) const {
    return workspace.scratch + worker * geometry.scratch_bytes;
  }
};

/// Of checked arguments.
[[nodiscard]] inline IndexRun index_run(const Index& index, const Batch& batch,
                                        const ScoreArgs& args, const KeyRange& range,
                                        const MemorySpan& memory) {
  const IndexKernel& kernel = *IndexInternals::kernel(index);
  const IndexGeometry geometry = kernel.geometry(index.problem());
  IndexRun run{kernel,
               geometry,
               {&index.problem(), &args, &batch},
               index_workspace(memory.data, index.limits(), geometry)};
  run.tasks =
      make_schedule(index.problem(), index.limits(), geometry, batch, range, run.workspace).tasks;
  return run;
}

/// `Call` has an IndexRun `run` and do_task(task, worker). Workers take tasks until none is left;
/// no more than limits.parallelism exist, so each has memory of its own.
template <class Call>
Status run_tasks(const char* function, const Index& index, const Executor& executor,
                 const Call& call) {
  const Result<int64_t> threads = concurrency_of(function, executor);
  if (!threads) return threads.error();
  const int64_t workers = std::min({*threads, int64_t{index.limits().parallelism}, call.run.tasks});
  *call.run.workspace.next_task = 0;
  constexpr auto work = [](void* arg, int64_t worker) noexcept {
    const Call& c = *static_cast<const Call*>(arg);
    std::atomic_ref<int64_t> next(*c.run.workspace.next_task);
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < c.run.tasks;
         i = next.fetch_add(1, std::memory_order_relaxed))
      c.do_task(c.run.workspace.tasks[i], worker);
  };
  return run_on(function, executor, workers, work, const_cast<Call*>(&call));
}

}  // namespace folio::inline v1
