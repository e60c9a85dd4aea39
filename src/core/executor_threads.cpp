// SPDX-License-Identifier: Apache-2.0
/// src/core/executor_threads.cpp: the default executor on std::thread, for builds without OpenMP.
///
/// One process-wide pool, started at first use and joined at exit. A caller publishes one job,
/// works on it itself and waits until the workers have left it; a second caller meanwhile runs its
/// tasks alone, so that nobody waits for a stranger's job. The context of an executor is the thread
/// count itself.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "folio/core/execution.h"

namespace folio::inline v1 {
namespace {

using Task = void (*)(void*, int64_t) noexcept;

struct Job {
  int64_t n = 0;
  Task task = nullptr;
  void* arg = nullptr;
  std::atomic<int64_t> next = 0;

  void work() noexcept {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < n;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      task(arg, i);
    }
  }
};

class ThreadPool {
 public:
  ~ThreadPool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  /// Runs the job on the caller and up to `helpers` workers. Where no thread can be had, the caller
  /// does the work.
  void run(Job& job, int helpers) noexcept {
    const std::unique_lock only_job(one_job_, std::try_to_lock);
    if (!only_job.owns_lock()) return job.work();
    start_workers(helpers);
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      seats_ = helpers;
    }
    wake_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    left_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  void start_workers(int count) noexcept {
    try {
      while (static_cast<int>(workers_.size()) < count) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // fewer workers, same results
    } catch (const std::bad_alloc&) {}
  }

  void serve() noexcept {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || (job_ != nullptr && seats_ > 0); });
      if (stop_) return;
      Job& job = *job_;
      --seats_;
      ++inside_;
      lock.unlock();
      job.work();
      lock.lock();
      if (--inside_ == 0) left_.notify_all();
    }
  }

  std::mutex one_job_;  // held by the caller whose job the workers serve; guards workers_
  std::mutex mutex_;    // guards what follows
  std::condition_variable wake_;
  std::condition_variable left_;
  Job* job_ = nullptr;
  int seats_ = 0;   // workers that may still join the job
  int inside_ = 0;  // workers in the job
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

int thread_count(void* context) {
  const auto threads = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void run_in_order(void*, int64_t n, Task task, void* arg) {
  for (int64_t i = 0; i < n; ++i) task(arg, i);
}

void parallel_for(void* context, int64_t n, Task task, void* arg) {
  static ThreadPool pool;
  const int threads = static_cast<int>(std::min<int64_t>(thread_count(context), n));
  if (threads <= 1) return run_in_order(context, n, task, arg);
  Job job;
  job.n = n;
  job.task = task;
  job.arg = arg;
  pool.run(job, threads - 1);
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
