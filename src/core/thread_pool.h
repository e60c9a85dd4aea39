// SPDX-License-Identifier: Apache-2.0
/// src/core/thread_pool.h: threads that wait for loops, awake for a while and then asleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace folio::inline v1 {

/// A caller opens a round: it publishes one loop, works on it itself, and closes the round when no
/// task is left. Workers join an open round while it has seats. The caller waits for those that
/// joined, never for one that has not: a worker whose core is taken by somebody else costs at most
/// the task that it is in.
///
/// Thread safety: run() from any thread. A second caller meanwhile runs its tasks alone, so that
/// nobody waits for a stranger's loop.
class ThreadPool {
 public:
  using Task = void (*)(void* arg, int64_t i) noexcept;

  ThreadPool() noexcept = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  /// Calls task(arg, i) once for each i in [0, n), on the caller and up to `helpers` workers, which
  /// are started as far as they are missing. Where no thread can be had the caller does the work.
  void run(int64_t n, Task task, void* arg, int helpers) noexcept;

  /// That of this process. A forked child begins with one of its own, for none of its parent's
  /// threads is there, and whoever held its parent's locks may be missing, too. Null where the
  /// system had no memory for one.
  static ThreadPool* of_process() noexcept;

 private:
  /// Who may still join round `round`, and how many of its workers are at work: one word, so that a
  /// worker joins the round that it saw or none.
  struct Door {
    uint32_t round = 0;
    uint16_t seats = 0;
    uint16_t inside = 0;
  };
  struct Loop {
    int64_t n = 0;
    Task task = nullptr;
    void* arg = nullptr;
  };

  void start_workers(int count) noexcept;
  void open(const Loop& loop, int seats) noexcept;
  void close() noexcept;
  void serve() noexcept;
  [[nodiscard]] uint32_t wait_for_round_after(uint32_t seen) noexcept;
  [[nodiscard]] bool join(uint32_t round) noexcept;
  void leave() noexcept;
  void work() noexcept;

  static constexpr int line = 64;  // bytes that cores pass on as one
  std::mutex one_loop_;            // held by the caller of a round; guards workers_
  std::vector<std::thread> workers_;
  std::atomic<bool> stop_ = false;
  Loop loop_;  // written while nobody is inside and no seat is free
  alignas(line) std::atomic<int64_t> next_ = 0;
  alignas(line) std::atomic<Door> door_ = Door();
  alignas(line) std::atomic<uint32_t> round_ = 0;  // the door's; what workers wait for
};

}  // namespace folio::inline v1
