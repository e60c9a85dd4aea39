// SPDX-License-Identifier: Apache-2.0
/// src/core/executor_threads.cpp: the default executor's threads on std::thread, for builds without
/// OpenMP.
///
/// One process-wide pool, started at first use and joined at exit. A caller publishes one loop,
/// works on it itself and waits until the workers have left it; a second caller meanwhile runs its
/// tasks alone, so that nobody waits for a stranger's loop. A forked child has none of its parent's
/// threads and begins with a pool of its own.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/own_threads.h"

namespace folio::inline v1 {
namespace {

using Task = void (*)(void*, int64_t) noexcept;

struct Loop {
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

  /// Runs the loop on the caller and up to `helpers` workers. Where no thread can be had, the
  /// caller does the work.
  void run(Loop& loop, int helpers) noexcept {
    const std::unique_lock only_loop(one_loop_, std::try_to_lock);
    if (!only_loop.owns_lock()) return loop.work();
    start_workers(helpers);
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      seats_ = helpers;
    }
    wake_.notify_all();
    loop.work();
    std::unique_lock lock(mutex_);
    loop_ = nullptr;
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
      wake_.wait(lock, [this] { return stop_ || (loop_ != nullptr && seats_ > 0); });
      if (stop_) return;
      Loop& loop = *loop_;
      --seats_;
      ++inside_;
      lock.unlock();
      loop.work();
      lock.lock();
      if (--inside_ == 0) left_.notify_all();
    }
  }

  std::mutex one_loop_;  // held by the caller whose loop the workers serve; guards workers_
  std::mutex mutex_;     // guards what follows
  std::condition_variable wake_;
  std::condition_variable left_;
  Loop* loop_ = nullptr;
  int seats_ = 0;   // workers that may still join the loop
  int inside_ = 0;  // workers in the loop
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

/// The pool of this process. A child leaves its parent's as it is: its workers are gone and whoever
/// held its locks may be, too.
class ProcessPool {
 public:
  ProcessPool() noexcept {
    begin();
    pthread_atfork(nullptr, nullptr, begin);
  }
  ~ProcessPool() { delete pool_.exchange(nullptr); }
  /// Null where the system had no memory for one.
  static ThreadPool* get() noexcept {
    static ProcessPool only;
    return pool_.load(std::memory_order_acquire);
  }

 private:
  static void begin() noexcept { pool_.store(new (std::nothrow) ThreadPool); }
  static inline std::atomic<ThreadPool*> pool_ = nullptr;
};

}  // namespace

int own_threads::count(void* context) {
  const auto threads = static_cast<int>(reinterpret_cast<intptr_t>(context));
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void own_threads::parallel_for(void* context, int64_t n, Task task, void* arg) {
  ThreadPool* pool = ProcessPool::get();
  const int threads = static_cast<int>(std::min<int64_t>(count(context), n));
  Loop loop;
  loop.n = n;
  loop.task = task;
  loop.arg = arg;
  if (threads <= 1 || pool == nullptr) return loop.work();
  pool->run(loop, threads - 1);
}

}  // namespace folio::inline v1
