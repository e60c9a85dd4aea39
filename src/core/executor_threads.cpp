// SPDX-License-Identifier: Apache-2.0
/// src/core/executor_threads.cpp: the default executor's threads where folio is built without
/// OpenMP: those of thread_pool_executor.
#include "core/own_threads.h"
#include "core/thread_pool.h"

namespace folio::inline v1 {

int own_threads::count(void* context) { return thread_pool::count(context); }

void own_threads::parallel_for(void* context, int64_t n, LoopTask task, void* arg) {
  thread_pool::parallel_for(context, n, task, arg);
}

}  // namespace folio::inline v1
