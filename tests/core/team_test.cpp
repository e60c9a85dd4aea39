// SPDX-License-Identifier: Apache-2.0
/// tests/core/team_test.cpp: loops on a caller's team of threads, and when they leave it.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/counts.h"
#include "core/run_on.h"
#include "core/team_watch.h"
#include "folio/core/execution.h"

namespace folio {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::Counts;

TEST(TeamWatch, one_late_loop_is_chance) {
  TeamWatch watch;
  for (int round = 0; round < 10; ++round) {
    watch.saw_wait(milliseconds(4));
    for (int i = 0; i < TeamWatch::window; ++i) {
      EXPECT_TRUE(watch.wants_team());
      watch.saw_wait(microseconds(20));
    }
  }
}

int loops_elsewhere(TeamWatch& watch) {
  int loops = 0;
  while (!watch.wants_team()) ++loops;
  return loops;
}

TEST(TeamWatch, leaves_for_longer_each_time_and_forgets_when_it_is_calm) {
  TeamWatch watch;
  watch.saw_wait(TeamWatch::held);
  EXPECT_TRUE(watch.wants_team());
  watch.saw_wait(TeamWatch::held);
  for (const int loops : {64, 128, 256, 512, 1024, 1024}) {
    EXPECT_EQ(loops_elsewhere(watch), loops);
    watch.saw_wait(TeamWatch::held);  // one is enough now
  }
  EXPECT_EQ(loops_elsewhere(watch), 1024);
  for (int i = 0; i < TeamWatch::window; ++i) watch.saw_wait(TeamWatch::held - microseconds(1));
  watch.saw_wait(TeamWatch::held);
  EXPECT_EQ(loops_elsewhere(watch), 0);
  watch.saw_wait(TeamWatch::held);
  EXPECT_EQ(loops_elsewhere(watch), 64);
}

/// A team of threads that are started for each region; `late`: its last thread comes when
/// everything is done, and later.
struct FakeTeam {
  static inline int threads = 3, regions = 0;
  static inline bool late = false;

  static int size() { return threads; }
  static void run(int threads, void (*region)(void*), void* arg) {
    ++regions;
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(region, arg);
    region(arg);
    for (std::thread& other : others) other.join();
    if (late) std::this_thread::sleep_for(2 * TeamWatch::held);
  }
};
constexpr ThreadTeam fake_team = {FakeTeam::size, FakeTeam::run};

void expect_each_task_once(const Executor& executor, int64_t n) {
  Counts counts(n);
  executor.parallel_for(executor.context, n, Counts::task, &counts);
  EXPECT_TRUE(counts.each_once()) << n;
}

TEST(TeamExecutor, every_task_runs_exactly_once_wherever_it_runs) {
  const Executor executor = team_executor(&fake_team);
  EXPECT_EQ(executor.concurrency(executor.context), 3);
  FakeTeam::late = false;
  for (const int64_t n : {0, 1, 2, 3, 64, 1000}) expect_each_task_once(executor, n);
  // The watch is the process': it may be away from teams when this begins.
  constexpr int many = 3 * TeamWatch::longest_leave;
  for (const bool late : {true, false}) {
    FakeTeam::late = late;
    FakeTeam::regions = 0;
    for (int i = 0; i < many; ++i) expect_each_task_once(executor, 3);
    EXPECT_GT(FakeTeam::regions, 0) << "the team is not asked again";
    if (!late) continue;
    EXPECT_LT(FakeTeam::regions, many / 16) << "a late team is asked too often";
  }
}

TEST(TeamExecutor, a_team_of_one_is_the_caller) {
  FakeTeam::regions = 0;
  for (const int threads : {1, 0, -5}) {
    FakeTeam::threads = threads;
    expect_each_task_once(team_executor(&fake_team), 20);
  }
  FakeTeam::threads = 3;
  EXPECT_EQ(FakeTeam::regions, 0);
}

TEST(TeamExecutor, a_team_without_functions_makes_an_executor_that_is_refused) {
  const ThreadTeam no_size = {nullptr, FakeTeam::run}, no_run = {FakeTeam::size, nullptr};
  for (const ThreadTeam* team : {static_cast<const ThreadTeam*>(nullptr), &no_size, &no_run})
    EXPECT_EQ(check_executor("attend", team_executor(team)).message(),
              "attend: executor has no parallel_for, expected a function");
}

TEST(TeamExecutor, what_a_team_throws_or_leaves_out_is_an_error) {
  const ThreadTeam throws = {FakeTeam::size, [](int, void (*)(void*), void*) {
                               throw std::runtime_error("no threads today");
                             }};
  const ThreadTeam idle = {FakeTeam::size, [](int, void (*)(void*), void*) {}};
  // While other loops were late just now a call may go to folio's threads and succeed.
  bool was_thrown = false, was_left_out = false;
  for (int i = 0; i < 2 * TeamWatch::longest_leave; ++i) {
    Counts counts(8);
    const Status s = run_on("attend", team_executor(&throws), 8, Counts::task, &counts);
    was_thrown |= s.message().find("threw no threads today") != std::string::npos;
    EXPECT_EQ(s.is_ok(), counts.each_once());
  }
  for (int i = 0; i < 2 * TeamWatch::longest_leave; ++i) {
    Counts counts(8);
    const Status s = run_on("attend", team_executor(&idle), 8, Counts::task, &counts);
    was_left_out |= s.message().find("ran 0 tasks, expected 8") != std::string::npos;
    EXPECT_EQ(s.is_ok(), counts.each_once());
  }
  EXPECT_TRUE(was_thrown && was_left_out);
}

}  // namespace
}  // namespace folio
