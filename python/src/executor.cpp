// SPDX-License-Identifier: Apache-2.0
/// python/src/executor.cpp: an executor on the OpenMP runtime that is already in the process.
///
/// `GOMP_parallel` is what compilers emit for a parallel region; libgomp, libomp and libiomp5 all
/// export it.
#include "executor.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "errors.h"

namespace folio::python {
namespace {

struct Runtime {
  void (*parallel)(void (*region)(void*), void* data, unsigned threads, unsigned flags) = nullptr;
  int (*max_threads)() = nullptr;
};
Runtime found;  // written before `runtime` points to it
std::atomic<const Runtime*> runtime = nullptr;
std::atomic<int> wanted_threads = 0;
std::atomic<Threads> wanted_owner = Threads::automatic;
std::atomic<bool> is_forked = false;

int openmp_threads() {
  const int wanted = wanted_threads.load(std::memory_order_relaxed);
  return wanted > 0 ? wanted : runtime.load(std::memory_order_acquire)->max_threads();
}

/// The team keeps its size whatever the number of tasks: runtimes end and start threads otherwise.
const ThreadTeam openmp_team = {openmp_threads, [](int threads, void (*region)(void*), void* arg) {
                                  runtime.load(std::memory_order_acquire)
                                      ->parallel(region, arg, static_cast<unsigned>(threads), 0);
                                }};

template <class Function>
Function* symbol(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// The runtime whose threads calls run on now; null: folio's own threads.
const Runtime* current_runtime() {
  if (wanted_owner.load(std::memory_order_relaxed) == Threads::pool) return nullptr;
  return runtime.load(std::memory_order_acquire);
}

}  // namespace

Executor current_executor() {
  if (current_runtime() != nullptr) return team_executor(&openmp_team);
  return thread_pool_executor(wanted_threads.load(std::memory_order_relaxed));
}

bool share_openmp_threads() {
  static std::mutex finding;
  const std::lock_guard lock(finding);
  if (runtime.load(std::memory_order_acquire) != nullptr) return true;
  if (is_forked.load()) return false;
  found.parallel = symbol<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
  found.max_threads = symbol<int()>("omp_get_max_threads");
  if (found.parallel == nullptr || found.max_threads == nullptr) return false;
  // The runtime's threads do not follow into a forked child, and it would wait for them for ever.
  static const int registered = pthread_atfork(nullptr, nullptr, [] {
    is_forked.store(true);
    runtime.store(nullptr);
  });
  runtime.store(&found, std::memory_order_release);
  return registered == 0;
}

void set_num_threads(int threads) {
  if (threads < 0 || threads > 4096)
    refuse_argument("set_num_threads: threads is {}, expected 0 (as many as there are) to 4096",
                    threads);
  wanted_threads.store(threads, std::memory_order_relaxed);
}

void set_threads(Threads threads) { wanted_owner.store(threads, std::memory_order_relaxed); }

int num_threads() {
  const Executor executor = current_executor();
  return executor.concurrency(executor.context);
}

std::string executor_name() {
  const Runtime* r = current_runtime();
  if (r == nullptr) return "thread_pool";
  Dl_info info = {};
  const bool is_known = dladdr(reinterpret_cast<void*>(r->parallel), &info) != 0;
  return std::string("OpenMP (") + (is_known ? info.dli_fname : "unknown") + ")";
}

}  // namespace folio::python
