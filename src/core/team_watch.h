// SPDX-License-Identifier: Apache-2.0
/// src/core/team_watch.h: whether a team's loops end late because somebody else is on its cores.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace folio::inline v1 {

/// A team ends a loop together: with its last task done it still waits for every thread, and for
/// one whose core is taken that is a slice of the system's, 3 to 4 ms. Who sees two such waits
/// among 16 loops leaves the team alone, for 64 loops at first, then asks it again; as long as the
/// answer is a wait, for twice as many each time, up to 1,024.
///
/// Thread safety: any thread; the counts are of all callers together, and approximate.
class TeamWatch {
 public:
  using Duration = std::chrono::nanoseconds;

  static constexpr Duration held = std::chrono::microseconds(500);
  static constexpr int strikes = 2, window = 16;
  static constexpr int shortest_leave = 64, longest_leave = 1024;

  /// Asked before each loop: whether it goes to the team.
  [[nodiscard]] bool wants_team() noexcept {
    if (leave_.load(std::memory_order_relaxed) <= 0) return true;
    leave_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }

  /// Told after each loop of the team: how long it lasted beyond its last task.
  void saw_wait(Duration wait) noexcept {
    if (wait >= held) return strike();
    const int calm = calm_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (calm < window) return;
    calm_.store(0, std::memory_order_relaxed);
    strikes_.store(0, std::memory_order_relaxed);
    next_leave_.store(shortest_leave, std::memory_order_relaxed);
  }

 private:
  void strike() noexcept {
    if (strikes_.fetch_add(1, std::memory_order_relaxed) + 1 < strikes) return;
    const int leave = next_leave_.load(std::memory_order_relaxed);
    next_leave_.store(leave < longest_leave ? 2 * leave : longest_leave, std::memory_order_relaxed);
    strikes_.store(strikes - 1, std::memory_order_relaxed);  // one more is enough when it is back
    calm_.store(0, std::memory_order_relaxed);
    leave_.store(leave, std::memory_order_relaxed);
  }

  std::atomic<int> leave_ = 0;  // loops that go elsewhere
  std::atomic<int> next_leave_ = shortest_leave;
  std::atomic<int> strikes_ = 0;
  std::atomic<int> calm_ = 0;  // loops since that ended in time
};

}  // namespace folio::inline v1
