// SPDX-License-Identifier: Apache-2.0
/// cli/replay/step_loop.cpp: one step after the other.
#include "replay/step_loop.h"

#include <vector>

#include "parts/parallel.h"
#include "parts/progress.h"

namespace folio::cli {
namespace {

using Copies = std::vector<std::span<const PageCopy>>;

/// The pool's part of a step, up to where the engine computes. Without sequences nothing is to be
/// computed: the only one gave up its pages and begins again.
Status begin_step(PagePool& pool, Scheduler& scheduler, Step& step, Copies& copies,
                  StepTicket& ticket) {
  if (Status s = scheduler.next(step); !s.is_ok() || step.ids.empty()) return s;
  for (uint32_t g = 0; g < copies.size(); ++g) copies[g] = pool.take_copies(g);
  const auto begun = pool.begin_step(step.ids);
  if (!begun) return begun.error();
  ticket = *begun;
  return {};
}

double spent(const StepTimes& times, const Engine* engine) {
  return times.pool_seconds + (engine != nullptr ? engine->totals().engine_seconds() : 0.0);
}

Status run_step(PagePool& pool, Scheduler& scheduler, Engine* engine, StepWatcher& watcher,
                Step& step, Copies& copies, StepTimes& times) {
  const double before = spent(times, engine);
  StepTicket ticket;
  {
    const Timed timed(times.pool_seconds);
    if (Status s = begin_step(pool, scheduler, step, copies, ticket); !s.is_ok()) return s;
  }
  if (step.ids.empty()) return {};
  watcher.begun(step, copies);
  if (engine != nullptr) {
    if (Status s = engine->run(step, pool, copies); !s.is_ok()) return s;
  }
  {
    const Timed timed(times.pool_seconds);
    if (Status s = pool.end_step(ticket); !s.is_ok()) return s;
    if (Status s = scheduler.commit(step); !s.is_ok()) return s;
  }
  if (engine != nullptr) engine->check(step);
  watcher.committed(step);
  times.computed_tokens += step.tokens();
  {
    const Timed timed(times.pool_seconds);
    if (Status s = scheduler.retire(); !s.is_ok()) return s;
  }
  watcher.ended(spent(times, engine) - before);
  return {};
}

}  // namespace

Status run_steps(PagePool& pool, Scheduler& scheduler, Engine* engine, StepWatcher& watcher,
                 int64_t requests, bool shows_progress, StepTimes& times) {
  const Timed timed(times.seconds);
  ProgressBar progress(shows_progress);
  Step step;
  Copies copies(pool.num_groups());
  while (scheduler.has_work()) {
    if (Status s = run_step(pool, scheduler, engine, watcher, step, copies, times); !s.is_ok())
      return s;
    progress.show(scheduler.finished(), requests);
  }
  return {};
}

}  // namespace folio::cli
