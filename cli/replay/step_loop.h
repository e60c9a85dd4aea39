// SPDX-License-Identifier: Apache-2.0
/// cli/replay/step_loop.h: the step loop: pool, then append and attend for each layer, then pool
/// again.
#pragma once

#include <span>

#include "replay/engine.h"
#include "replay/scheduler.h"

namespace folio::cli {

/// Sees what happens in steps.
class StepWatcher {
 public:
  StepWatcher() = default;
  StepWatcher(const StepWatcher&) = delete;
  StepWatcher& operator=(const StepWatcher&) = delete;
  virtual ~StepWatcher() = default;

  /// The step has all its pages. `copies`: of each group, which run before it is computed.
  virtual void begun(const Step& step, std::span<const std::span<const PageCopy>> copies) = 0;
  /// Its tokens are in the cache; what is done has its pages yet.
  virtual void committed(const Step&) {}
  /// The step took `seconds` of the pool and of the engine.
  virtual void ended(double seconds) = 0;
};

struct StepTimes {
  double seconds = 0.0;       ///< of everything
  double pool_seconds = 0.0;  ///< of these, in the pool
  int64_t computed_tokens = 0;
};

/// Runs the scheduler's trace of `requests` to its end. `engine` may be null. Errors: those of the
/// scheduler, the pool and the engine
Status run_steps(PagePool& pool, Scheduler& scheduler, Engine* engine, StepWatcher& watcher,
                 int64_t requests, bool shows_progress, StepTimes& times);

}  // namespace folio::cli
