// SPDX-License-Identifier: Apache-2.0
/// src/core/executor_openmp.cpp: the default executor's threads on the compiler's OpenMP runtime.
#include <omp.h>

#include <algorithm>

#include "core/own_threads.h"
#include "core/team_loop.h"

namespace folio::inline v1 {
namespace {

void run_team(int threads, void (*region)(void* arg), void* arg) {
#pragma omp parallel num_threads(threads)
  region(arg);
}

}  // namespace

int own_threads::count(void* context) {
  const auto threads = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return threads > 0 ? threads : omp_get_max_threads();
}

void own_threads::parallel_for(void* context, int64_t n, LoopTask task, void* arg) {
  // More threads than tasks would be started for nothing, and the runtime ends the process where
  // it cannot. Up to the usual number the team keeps its size: a smaller one ends threads.
  const auto team = static_cast<int>(
      std::min<int64_t>(count(context), std::max<int64_t>(n, omp_get_max_threads())));
  run_team_loop(run_team, team, n, task, arg);
}

}  // namespace folio::inline v1
