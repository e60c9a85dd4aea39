// SPDX-License-Identifier: Apache-2.0
/// src/core/team_loop.h: a loop on somebody's team of threads, or on folio's pool while others are
/// on the team's cores.
#pragma once

#include <cstdint>

#include "core/own_threads.h"
#include "folio/core/execution.h"

namespace folio::inline v1 {

/// Calls task(arg, i) once for each i in [0, n), on the threads of `run`, which is that of a
/// ThreadTeam, or on as many of thread_pool_executor. Threads take tasks one by one.
void run_team_loop(decltype(ThreadTeam::run) run, int threads, int64_t n, LoopTask task, void* arg);

}  // namespace folio::inline v1
