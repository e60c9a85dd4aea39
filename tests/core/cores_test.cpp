// SPDX-License-Identifier: Apache-2.0
/// tests/core/cores_test.cpp: threads that leave a core, or the cores of the one that started them.
#include "core/cores.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/thread_pool.h"

namespace folio {
namespace {

cpu_set_t own_cores() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

void bind_to(const cpu_set_t& cores) { ASSERT_EQ(sched_setaffinity(0, sizeof cores, &cores), 0); }

void bind_to_core(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(static_cast<size_t>(core), &only);
  bind_to(only);
}

cpu_set_t pair_of(int a, int b) {
  cpu_set_t pair;
  CPU_ZERO(&pair);
  CPU_SET(static_cast<size_t>(a), &pair);
  CPU_SET(static_cast<size_t>(b), &pair);
  return pair;
}

/// A core of this thread that is not `core`; -1: none.
int other_core(int core) {
  const cpu_set_t cores = own_cores();
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (i != core && CPU_ISSET(static_cast<size_t>(i), &cores)) return i;
  return -1;
}

constexpr const char* one_core = "this machine or its test runner has one core";

TEST(Cores, a_thread_that_leaves_a_core_is_on_another) {
  const cpu_set_t before = own_cores();
  if (CPU_COUNT(&before) == 1) GTEST_SKIP() << one_core;
  int moved = 0;
  for (int round = 0; round < 100; ++round) {
    const int core = current_core();
    ASSERT_TRUE(leave_core(core));
    if (current_core() != core) ++moved;
  }
  EXPECT_GT(moved, 50);  // the system may move it back, but seldom that soon
  const cpu_set_t after = own_cores();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Cores, a_thread_with_one_core_and_a_core_that_is_none_are_left_alone) {
  EXPECT_FALSE(leave_core(-1));
  EXPECT_FALSE(leave_core(1 << 30));
  std::thread([] {
    const int core = current_core();
    bind_to_core(core);
    EXPECT_FALSE(leave_core(core));
    EXPECT_EQ(current_core(), core);
  }).join();
}

TEST(Cores, a_thread_whose_starter_is_bound_gets_the_cores_of_the_process) {
  const cpu_set_t whole = own_cores();
  std::thread([&whole] {
    bind_to_core(current_core());
    std::thread([&whole] {
      EXPECT_TRUE(leave_starters_cores());
      const cpu_set_t after = own_cores();
      EXPECT_TRUE(CPU_EQUAL(&whole, &after));
    }).join();
  }).join();
}

TEST(Cores, workers_are_not_bound_to_the_core_of_the_caller_that_starts_them) {
  const cpu_set_t whole = own_cores();
  std::thread([&whole] {
    bind_to_core(current_core());
    struct Seen {
      const cpu_set_t& whole;
      std::thread::id caller = std::this_thread::get_id();
      std::atomic<int> arrived = 0, free_workers = 0;
    } seen{whole};
    ThreadPool pool;
    pool.run(
        2,
        [](void* arg, int64_t) noexcept {
          Seen& s = *static_cast<Seen*>(arg);
          const cpu_set_t cores = own_cores();
          if (std::this_thread::get_id() != s.caller && CPU_EQUAL(&cores, &s.whole))
            ++s.free_workers;
          ++s.arrived;
          while (s.arrived < 2) std::this_thread::yield();
        },
        &seen, 1);
    EXPECT_EQ(seen.free_workers, 1);
  }).join();
}

/// A caller that is bound to one core, a worker that may run on that and on a second, and a
/// stranger that is always there: the system sees no reason to move the worker.
struct Crowd {
  int callers, strangers;
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> arrived = 0, away = 0;
  std::atomic<bool> is_over = false;
  ThreadPool pool = {};

  /// Both threads come; `then` is the worker's.
  void meet(void (*then)(Crowd&)) {
    struct Call {
      Crowd& crowd;
      void (*then)(Crowd&);
    } call{*this, then};
    arrived = 0;
    pool.run(
        2,
        [](void* arg, int64_t) noexcept {
          Call& c = *static_cast<Call*>(arg);
          if (std::this_thread::get_id() != c.crowd.caller) c.then(c.crowd);
          ++c.crowd.arrived;
          while (c.crowd.arrived < 2) std::this_thread::yield();
        },
        &call, 1);
  }

  /// One round: the worker comes to the caller's core, then is called again.
  void round() {
    meet([](Crowd& c) {
      bind_to_core(c.callers);
      bind_to(pair_of(c.callers, c.strangers));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // it sleeps, wherever it is
    meet([](Crowd& c) {
      if (current_core() != c.callers) ++c.away;
    });
  }
};

TEST(Cores, a_worker_that_wakes_on_its_callers_core_leaves_it) {
  const int callers = current_core(), strangers = other_core(callers);
  if (strangers < 0) GTEST_SKIP() << one_core;
  std::thread([callers, strangers] {
    Crowd crowd{callers, strangers};
    std::thread stranger([&crowd] {
      bind_to_core(crowd.strangers);
      while (!crowd.is_over) {}
    });
    bind_to_core(callers);
    constexpr int rounds = 20;
    for (int i = 0; i < rounds; ++i) crowd.round();
    crowd.is_over = true;
    stranger.join();
    EXPECT_GT(crowd.away, 0) << "of " << rounds;  // the system may move it back, but not each time
  }).join();
}

}  // namespace
}  // namespace folio
