// SPDX-License-Identifier: Apache-2.0
/// src/core/executor_openmp.cpp: the default executor's threads on the compiler's OpenMP runtime.
#include <omp.h>

#include <algorithm>

#include "core/own_threads.h"

namespace folio::inline v1 {

int own_threads::count(void* context) {
  const auto threads = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return threads > 0 ? threads : omp_get_max_threads();
}

void own_threads::parallel_for(void* context, int64_t n, LoopTask task, void* arg) {
  const int threads = count(context);
  if (n <= 1 || threads == 1) {
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
  // More threads than tasks would be started for nothing, and the runtime ends the process where
  // it cannot. Up to the usual number the team keeps its size: a smaller one ends threads.
  const auto team =
      static_cast<int>(std::min<int64_t>(threads, std::max<int64_t>(n, omp_get_max_threads())));
#pragma omp parallel for schedule(dynamic, 1) num_threads(team)
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

}  // namespace folio::inline v1
