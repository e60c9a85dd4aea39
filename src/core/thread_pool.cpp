// SPDX-License-Identifier: Apache-2.0
/// src/core/thread_pool.cpp: loops on offer, and who waits for whom.
#include "core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "core/cores.h"

namespace folio::inline v1 {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread that has nothing to do stays awake. To wake one takes its caller some 10 us
/// and itself 30, and the next layer of an engine's step asks again sooner than this. A caller that
/// has waited so long for a task leaves its core to the worker, which has lost its own.
constexpr auto awake = std::chrono::microseconds(200);
constexpr int looks = 64;  // until the clock is read; a pause between two takes 10 to 40 ns

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks until `is_done`, for as long as a thread stays awake and `may_stay` holds.
template <class IsDone, class MayStay>
bool spin(IsDone is_done, MayStay may_stay) noexcept {
  Clock::time_point until = {};
  do {
    for (int i = 0; i < looks; ++i) {
      if (is_done()) return true;
      pause();
    }
    if (until == Clock::time_point()) until = Clock::now() + awake;
  } while (may_stay() && Clock::now() < until);
  return false;
}

thread_local const ThreadPool* served = nullptr;  // by this thread, if it is a worker

}  // namespace

/// Whether this thread is one of those that run the tasks of the loop under way.
bool ThreadPool::is_in_loop() const noexcept {
  return served == this || caller_.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

void ThreadPool::close() noexcept {
  if (is_in_loop() || stop_.load()) return;
  while (has_caller_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  stop_.store(true);
  calls_.fetch_add(1);
  calls_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::run(int64_t n, Task task, void* arg, int helpers) noexcept {
  if (n < 2 || helpers < 1 || has_caller_.exchange(true, std::memory_order_acquire)) {
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
  caller_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  constexpr int64_t most = caller_sleeps - 1;
  start_workers(static_cast<int>(std::min<int64_t>(helpers, n - 1)));
  for (int64_t first = 0; first < n; first += most) {
    const auto tasks = static_cast<uint32_t>(std::min(n - first, most));
    offer({first, tasks, task, arg}, static_cast<uint32_t>(helpers));
    wait_for_workers(tasks - work(Role::caller));
  }
  caller_.store(std::thread::id(), std::memory_order_relaxed);
  has_caller_.store(false, std::memory_order_release);
}

void ThreadPool::start_workers(int count) noexcept {
  try {
    while (static_cast<int>(workers_.size()) < count) workers_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {  // fewer workers, same results
  } catch (const std::bad_alloc&) {}
}

void ThreadPool::offer(const Loop& loop, uint32_t seats) noexcept {
  loop_ = loop;
  caller_core_.store(current_core(), std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  seats = std::min(seats, loop.n - 1);
  offer_.store({loop.n, seats});
  wake_workers(seats);
}

/// As many as have a seat, less those that are awake.
void ThreadPool::wake_workers(uint32_t seats) noexcept {
  const uint32_t asleep = sleepers_.load();
  if (asleep == 0) return;
  const auto awake_ones = static_cast<uint32_t>(workers_.size()) - asleep;
  if (awake_ones >= seats) return;
  calls_.fetch_add(1);
  if (asleep <= seats - awake_ones) return calls_.notify_all();
  for (uint32_t i = awake_ones; i < seats; ++i) calls_.notify_one();
}

void ThreadPool::wait_for_workers(uint32_t tasks) noexcept {
  const auto is_done = [this, tasks] { return done_.load(std::memory_order_acquire) == tasks; };
  if (spin(is_done, [] { return true; })) return;
  uint32_t done = done_.fetch_or(caller_sleeps, std::memory_order_acq_rel) | caller_sleeps;
  while (done != (tasks | caller_sleeps)) {
    done_.wait(done, std::memory_order_acquire);
    done = done_.load(std::memory_order_acquire);
  }
}

void ThreadPool::serve() noexcept {
  served = this;
  leave_starters_cores();
  const auto is_called = [this] { return !is_served() || stop_.load(); };
  const auto may_stay = [this] { return make_way(); };
  while (!stop_.load()) {
    if (!spin(is_called, may_stay)) sleep();
    const uint32_t tasks = work(Role::worker);
    if (tasks == 0) continue;
    if ((done_.fetch_add(tasks, std::memory_order_acq_rel) & caller_sleeps) != 0)
      done_.notify_one();
  }
}

/// A worker on its caller's core takes the caller's time. The system wakes it there where it finds
/// no idle core, and leaves it there as long as the others have a thread each, whosoever it is.
bool ThreadPool::make_way() noexcept {
  const int core = current_core();
  return core < 0 || core != caller_core_.load(std::memory_order_relaxed) || leave_core(core);
}

/// Whether there is nothing that one more worker may do.
bool ThreadPool::is_served() const noexcept {
  const Offer offer = offer_.load();
  return offer.tasks == 0 || offer.seats == 0;
}

/// A caller that finds no sleeper has made its offer before the worker looks for one again.
void ThreadPool::sleep() noexcept {
  sleepers_.fetch_add(1);
  const uint32_t calls = calls_.load();
  if (is_served() && !stop_.load()) calls_.wait(calls);
  sleepers_.fetch_sub(1);
  make_way();
}

/// Takes tasks until there are none, or no seat for a first one; how many.
uint32_t ThreadPool::work(Role role) noexcept {
  auto seat = static_cast<uint32_t>(role);
  uint32_t taken = 0;
  Offer offer = offer_.load(std::memory_order_relaxed);
  while (offer.tasks > 0 && offer.seats >= seat) {
    if (!offer_.compare_exchange_weak(offer, {offer.tasks - 1, offer.seats - seat},
                                      std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    loop_.task(loop_.arg, loop_.first + (loop_.n - offer.tasks));
    seat = 0;
    ++taken;
    offer = offer_.load(std::memory_order_relaxed);
  }
  return taken;
}

namespace {

class ProcessPool {
 public:
  ProcessPool() noexcept {
    begin();
    pthread_atfork(nullptr, nullptr, begin);
  }
  ~ProcessPool() {
    if (ThreadPool* const last = pool.load()) last->close();
  }
  static ThreadPool* get() noexcept {
    static ProcessPool only;
    return pool.load(std::memory_order_acquire);
  }

 private:
  static void begin() noexcept { pool.store(new (std::nothrow) ThreadPool); }
  static inline std::atomic<ThreadPool*> pool = nullptr;
};

}  // namespace

ThreadPool* ThreadPool::of_process() noexcept { return ProcessPool::get(); }

}  // namespace folio::inline v1
