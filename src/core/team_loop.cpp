// SPDX-License-Identifier: Apache-2.0
/// src/core/team_loop.cpp: loops on teams, timed behind their last task.
#include "core/team_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "core/team_watch.h"
#include "core/thread_pool.h"

namespace folio::inline v1 {
namespace {

using Clock = std::chrono::steady_clock;

TeamWatch watch;  // of the process: its teams share the cores

class TeamLoop {
 public:
  TeamLoop(int64_t n, LoopTask task, void* arg) noexcept : n_(n), task_(task), arg_(arg) {}

  static void work(void* self) { static_cast<TeamLoop*>(self)->take_tasks(); }

  [[nodiscard]] Clock::time_point last_end() const noexcept {
    return Clock::time_point(Clock::duration(last_end_.load()));
  }

 private:
  void take_tasks() noexcept {
    bool has_worked = false;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < n_; has_worked = true)
      task_(arg_, i);
    if (!has_worked) return;
    const Clock::rep now = Clock::now().time_since_epoch().count();
    Clock::rep last = last_end_.load();
    while (last < now && !last_end_.compare_exchange_weak(last, now)) {}
  }

  const int64_t n_;
  const LoopTask task_;
  void* const arg_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<Clock::rep> last_end_ = 0;
};

}  // namespace

void run_team_loop(decltype(ThreadTeam::run) run, int threads, int64_t n, LoopTask task,
                   void* arg) {
  if (n <= 1 || threads <= 1) {
    for (int64_t i = 0; i < n; ++i) task(arg, i);
    return;
  }
  if (ThreadPool* const pool = ThreadPool::of_process(); !watch.wants_team() && pool != nullptr)
    return pool->run(n, task, arg, static_cast<int>(std::min<int64_t>(threads, n)) - 1);
  TeamLoop loop(n, task, arg);
  run(threads, TeamLoop::work, &loop);
  watch.saw_wait(Clock::now() - loop.last_end());
}

}  // namespace folio::inline v1
