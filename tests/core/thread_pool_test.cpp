// SPDX-License-Identifier: Apache-2.0
/// tests/core/thread_pool_test.cpp: who takes tasks of folio's own threads, who waits for whom, and
/// what forks, nested calls and threads that are held up do to them.
#include "core/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include "core/counts.h"

/// ThreadSanitizer ends a forked child that starts threads, unless told otherwise.
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_options() {
  return "die_after_fork=0";
}

namespace folio {
namespace {

using test::Counts;

bool runs_each_task_once(ThreadPool& pool, int64_t n, int helpers) {
  Counts counts(n);
  pool.run(n, Counts::task, &counts, helpers);
  return counts.each_once();
}

/// Two tasks that end when both are under way, each on its own thread; `then` follows on the one
/// that is not the caller's.
struct Meeting {
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> arrived = 0;
  void (*then)(Meeting&) = [](Meeting&) {};
  pthread_t worker = {};

  void hold(ThreadPool& pool) {
    pool.run(
        2,
        [](void* arg, int64_t) noexcept {
          Meeting& self = *static_cast<Meeting*>(arg);
          ++self.arrived;
          while (self.arrived < 2) std::this_thread::yield();
          if (std::this_thread::get_id() == self.caller) return;
          self.worker = pthread_self();
          self.then(self);
        },
        this, 1);
  }
};

TEST(ThreadPool, workers_that_fell_asleep_serve_the_next_loop) {
  ThreadPool pool;
  for (int round = 0; round < 5; ++round) {
    Meeting().hold(pool);                                       // ends only with both
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // ten times as long as they wait
  }
}

TEST(ThreadPool, a_caller_that_fell_asleep_is_woken_by_the_last_task) {
  ThreadPool pool;
  for (int round = 0; round < 5; ++round) {
    Meeting meeting;
    meeting.then = [](Meeting& self) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++self.arrived;
    };
    meeting.hold(pool);
    EXPECT_EQ(meeting.arrived, 3);
  }
}

TEST(ThreadPool, loops_that_follow_one_another_lose_and_repeat_nothing) {
  ThreadPool pool;
  for (int round = 0; round < 2000; ++round) {
    const int64_t n = 2 + round % 7;
    ASSERT_TRUE(runs_each_task_once(pool, n, 1 + round % 3)) << round;
  }
}

TEST(ThreadPool, no_more_threads_than_asked_for_are_in_a_loop_at_once) {
  ThreadPool pool;
  ASSERT_TRUE(runs_each_task_once(pool, 1000, 7));  // starts seven
  struct Seen {
    std::atomic<int> inside = 0, most = 0;
  } seen;
  for (int round = 0; round < 50; ++round) {
    pool.run(
        64,
        [](void* arg, int64_t) noexcept {
          Seen& s = *static_cast<Seen*>(arg);
          const int inside = ++s.inside;
          int most = s.most;
          while (most < inside && !s.most.compare_exchange_weak(most, inside)) {}
          std::this_thread::yield();
          --s.inside;
        },
        &seen, 2);
  }
  EXPECT_LE(seen.most, 3);
}

TEST(ThreadPool, a_task_may_run_a_loop_on_its_own_pool) {
  ThreadPool pool;
  struct Outer {
    ThreadPool& pool;
    std::atomic<int> good = 0;
  } outer{pool};
  pool.run(
      16,
      [](void* arg, int64_t) noexcept {
        Outer& o = *static_cast<Outer*>(arg);
        if (runs_each_task_once(o.pool, 100, 3)) ++o.good;
      },
      &outer, 3);
  EXPECT_EQ(outer.good, 16);
}

TEST(ThreadPool, callers_at_once_all_get_their_loops_done) {
  ThreadPool pool;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < 6; ++t)
    callers.emplace_back([&pool, &wrong, t] {
      for (int round = 0; round < 200; ++round)
        if (!runs_each_task_once(pool, 20 + t, 1 + t % 3)) ++wrong;
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

/// A signal's handler that keeps its thread from everything else.
struct Held {
  static inline std::atomic<bool> is_held = false, may_go = false;
  static void handle(int) {
    is_held = true;
    while (!may_go) {}
  }
};

TEST(ThreadPool, a_worker_that_has_begun_nothing_is_not_waited_for) {
  ThreadPool pool;
  Meeting meeting;
  meeting.hold(pool);
  Held::is_held = Held::may_go = false;
  struct sigaction held = {}, before = {};
  held.sa_handler = Held::handle;
  ASSERT_EQ(sigaction(SIGUSR1, &held, &before), 0);
  while (!Held::is_held) {  // ThreadSanitizer keeps a signal until the thread's next atomic access,
    ASSERT_EQ(pthread_kill(meeting.worker, SIGUSR1), 0);  // and one that falls asleep has none
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int round = 0; round < 10; ++round) EXPECT_TRUE(runs_each_task_once(pool, 100, 1));
  Held::may_go = true;
  Meeting().hold(pool);  // it is back
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(ThreadPool, a_forked_child_has_threads_of_its_own) {
#ifdef FOLIO_TESTS_UNDER_EMULATOR
  GTEST_SKIP() << "qemu's user mode ends a forked child that starts threads";
#endif
  ASSERT_NE(ThreadPool::of_process(), nullptr);
  ASSERT_TRUE(runs_each_task_once(*ThreadPool::of_process(), 100, 2));
  const pid_t child = fork();
  if (child == 0) _exit(runs_each_task_once(*ThreadPool::of_process(), 100, 2) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

/// Loops without end, on a thread that goes on while the process ends.
void run_loops_for_ever() {
  std::atomic<int> loops = 0;
  std::thread([&loops] {
    for (;; ++loops) runs_each_task_once(*ThreadPool::of_process(), 64, 2);
  }).detach();
  while (loops < 10) std::this_thread::yield();
  std::exit(7);  // NOLINT(concurrency-mt-unsafe): that is the point
}

TEST(ThreadPoolDeathTest, a_process_may_end_while_a_thread_of_it_runs_loops) {
#ifdef FOLIO_TESTS_UNDER_EMULATOR
  GTEST_SKIP() << "qemu's user mode ends a forked child that starts threads";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_loops_for_ever(), testing::ExitedWithCode(7), "");
}

TEST(ThreadPoolDeathTest, a_task_may_end_the_process) {
#ifdef FOLIO_TESTS_UNDER_EMULATOR
  GTEST_SKIP() << "qemu's user mode ends a forked child that starts threads";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto end = [](void*, int64_t i) noexcept {
    if (i == 7) std::exit(7);  // NOLINT(concurrency-mt-unsafe)
  };
  EXPECT_EXIT(ThreadPool::of_process()->run(64, end, nullptr, 2), testing::ExitedWithCode(7), "");
}

TEST(ThreadPool, a_pool_that_is_closed_leaves_callers_their_tasks) {
  ThreadPool pool;
  ASSERT_TRUE(runs_each_task_once(pool, 100, 2));
  pool.close();
  EXPECT_TRUE(runs_each_task_once(pool, 100, 2));
}

}  // namespace
}  // namespace folio
