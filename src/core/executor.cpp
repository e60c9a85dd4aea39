// SPDX-License-Identifier: Apache-2.0
/// src/core/executor.cpp: the executors that folio offers.
#include <algorithm>
#include <thread>

#include "core/own_threads.h"
#include "core/team_loop.h"
#include "core/thread_pool.h"
#include "folio/core/execution.h"

namespace folio::inline v1 {
namespace {

/// How many threads are wanted, as a context; 0: as many as the machine offers.
void* context_of(int threads) {
  return reinterpret_cast<void*>(static_cast<intptr_t>(std::max(threads, 0)));
}

}  // namespace

int thread_pool::count(void* context) {
  // Asking the system takes 5 us, ten times as long as everything else that a loop needs.
  static const int machine = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto threads = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return threads > 0 ? threads : machine;
}

void thread_pool::parallel_for(void* context, int64_t n, LoopTask task, void* arg) {
  ThreadPool* const pool = ThreadPool::of_process();
  const int threads = static_cast<int>(std::min<int64_t>(count(context), n));
  if (threads > 1 && pool != nullptr) return pool->run(n, task, arg, threads - 1);
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

Executor serial_executor() noexcept {
  return {nullptr, [](void*) { return 1; },
          [](void*, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
            for (int64_t i = 0; i < n; ++i) task(arg, i);
          }};
}

Executor default_executor(int threads) noexcept {
  return {context_of(threads), own_threads::count, own_threads::parallel_for};
}

Executor thread_pool_executor(int threads) noexcept {
  return {context_of(threads), thread_pool::count, thread_pool::parallel_for};
}

Executor team_executor(const ThreadTeam* team) noexcept {
  if (team == nullptr || team->size == nullptr || team->run == nullptr) return {};
  return {const_cast<ThreadTeam*>(team),
          [](void* context) { return static_cast<const ThreadTeam*>(context)->size(); },
          [](void* context, int64_t n, LoopTask task, void* arg) {
            const auto* const of = static_cast<const ThreadTeam*>(context);
            run_team_loop(of->run, of->size(), n, task, arg);
          }};
}

}  // namespace folio::inline v1
