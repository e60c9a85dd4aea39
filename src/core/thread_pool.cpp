// SPDX-License-Identifier: Apache-2.0
/// src/core/thread_pool.cpp: rounds of loops, and who waits for whom.
#include "core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <system_error>

namespace folio::inline v1 {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a thread that has nothing to do stays awake: waking it takes 30 us and more, and a
/// layer of an engine's step asks again sooner than this.
constexpr auto awake = std::chrono::microseconds(200);
constexpr int looks_of_clock = 64;  // from one look at the clock to the next

void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks until `is_done`, for at most the time that a thread stays awake.
template <class Look>
bool spin(Look is_done) noexcept {
  const auto until = Clock::now() + awake;
  do {
    for (int i = 0; i < looks_of_clock; ++i) {
      if (is_done()) return true;
      pause();
    }
  } while (Clock::now() < until);
  return false;
}

}  // namespace

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int64_t n, Task task, void* arg, int helpers) noexcept {
  constexpr int seats_max = std::numeric_limits<uint16_t>::max();
  const int seats = static_cast<int>(std::min<int64_t>({helpers, n - 1, seats_max}));
  const std::unique_lock only_loop(one_loop_, std::try_to_lock);
  if (seats <= 0 || !only_loop.owns_lock()) {
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
  start_workers(seats);
  open({n, task, arg}, seats);
  work();
  close();
}

void ThreadPool::start_workers(int count) noexcept {
  try {
    while (static_cast<int>(workers_.size()) < count) workers_.emplace_back([this] { serve(); });
  } catch (const std::system_error&) {  // fewer workers, same results
  } catch (const std::bad_alloc&) {}
}

void ThreadPool::open(const Loop& loop, int seats) noexcept {
  loop_ = loop;
  next_.store(0, std::memory_order_relaxed);
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  door_.store({round, static_cast<uint16_t>(seats), 0}, std::memory_order_release);
  round_.store(round, std::memory_order_release);
  round_.notify_all();
}

/// Nobody joins any more; waits for those inside.
void ThreadPool::close() noexcept {
  Door door = door_.load(std::memory_order_acquire);
  while (!door_.compare_exchange_weak(door, {door.round, 0, door.inside},
                                      std::memory_order_acq_rel)) {}
  const auto is_empty = [this, &door] {
    door = door_.load(std::memory_order_acquire);
    return door.inside == 0;
  };
  if (spin(is_empty)) return;
  while (!is_empty()) door_.wait(door, std::memory_order_acquire);
}

void ThreadPool::serve() noexcept {
  uint32_t round = 0;
  while (true) {
    round = wait_for_round_after(round);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (!join(round)) continue;
    work();
    leave();
  }
}

uint32_t ThreadPool::wait_for_round_after(uint32_t seen) noexcept {
  uint32_t round = seen;
  const auto is_new = [this, seen, &round] {
    round = round_.load(std::memory_order_acquire);
    return round != seen;
  };
  if (!spin(is_new)) {
    round_.wait(seen, std::memory_order_acquire);
    round = round_.load(std::memory_order_acquire);
  }
  return round;
}

bool ThreadPool::join(uint32_t round) noexcept {
  Door door = door_.load(std::memory_order_acquire);
  while (door.round == round && door.seats > 0) {
    const Door joined = {round, static_cast<uint16_t>(door.seats - 1),
                         static_cast<uint16_t>(door.inside + 1)};
    if (door_.compare_exchange_weak(door, joined, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadPool::leave() noexcept {
  Door door = door_.load(std::memory_order_relaxed);
  Door left;
  do {
    left = {door.round, door.seats, static_cast<uint16_t>(door.inside - 1)};
  } while (!door_.compare_exchange_weak(door, left, std::memory_order_acq_rel));
  if (left.inside == 0 && left.seats == 0) door_.notify_one();
}

void ThreadPool::work() noexcept {
  const Loop loop = loop_;
  for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < loop.n;
       i = next_.fetch_add(1, std::memory_order_relaxed))
    loop.task(loop.arg, i);
}

namespace {

class ProcessPool {
 public:
  ProcessPool() noexcept {
    begin();
    pthread_atfork(nullptr, nullptr, begin);
  }
  ~ProcessPool() { delete pool_.exchange(nullptr); }
  static ThreadPool* get() noexcept {
    static ProcessPool only;
    return pool_.load(std::memory_order_acquire);
  }

 private:
  static void begin() noexcept { pool_.store(new (std::nothrow) ThreadPool); }
  static inline std::atomic<ThreadPool*> pool_ = nullptr;
};

}  // namespace

ThreadPool* ThreadPool::of_process() noexcept { return ProcessPool::get(); }

}  // namespace folio::inline v1
