// SPDX-License-Identifier: Apache-2.0
/// src/core/executor_openmp.cpp: the default executor on the compiler's OpenMP runtime. The context
/// is the thread count itself.
#include <omp.h>

#include "folio/core/execution.h"

namespace folio::inline v1 {
namespace {

int thread_count(void* context) {
  const auto threads = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return threads > 0 ? threads : omp_get_max_threads();
}

void parallel_for(void* context, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
  const int threads = thread_count(context);
  if (n <= 1 || threads == 1) {
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

void run_in_order(void*, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

}  // namespace

Executor serial_executor() noexcept {
  return {nullptr, [](void*) { return 1; }, run_in_order};
}

Executor default_executor(int threads) noexcept {
  return {reinterpret_cast<void*>(static_cast<intptr_t>(threads > 0 ? threads : 0)), thread_count,
          parallel_for};
}

}  // namespace folio::inline v1
