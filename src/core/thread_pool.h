// SPDX-License-Identifier: Apache-2.0
/// src/core/thread_pool.h: threads that wait for loops, awake for a while and then asleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace folio::inline v1 {

/// A caller offers one loop, takes tasks of it itself until none is left, and waits for those that
/// workers have taken: never for a worker that has taken none. A worker whose core is taken by
/// somebody else costs at most the task that it is in.
///
/// Thread safety: run() from any thread. A second caller meanwhile runs its tasks alone, and so
/// does a task that calls run(): nobody waits for a stranger's loop.
class ThreadPool {
 public:
  using Task = void (*)(void* arg, int64_t i) noexcept;

  ThreadPool() noexcept = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { close(); }

  /// Calls task(arg, i) once for each i in [0, n), on the caller and up to `helpers` workers, which
  /// are started as far as they are missing. Where no thread can be had the caller does the work.
  void run(int64_t n, Task task, void* arg, int helpers) noexcept;

  /// Waits for a loop that is under way and ends the workers; from then on callers run their tasks
  /// alone. Where it is a task of that loop that closes (it ends the process), the workers stay as
  /// they are.
  void close() noexcept;

  /// That of this process. A forked child begins with one of its own, for none of its parent's
  /// threads is there, and whoever held its parent's pool may be missing, too. It is closed when
  /// the process ends or folio is unloaded, and never freed: threads that go on have a pool still.
  /// Null where the system had no memory for one.
  static ThreadPool* of_process() noexcept;

 private:
  /// Tasks that nobody has taken, and workers that may still take their first: one word, so that
  /// to take a task is to take it of the loop that is on offer. A loop ends when what was taken is
  /// done, so whoever has taken one finds nothing but this loop until he reports.
  struct Offer {
    uint32_t tasks = 0;
    uint32_t seats = 0;
  };
  struct Loop {
    int64_t first = 0;
    uint32_t n = 0;
    Task task = nullptr;
    void* arg = nullptr;
  };
  enum class Role : uint32_t { caller = 0, worker = 1 };  // seats that its first task takes

  [[nodiscard]] bool is_in_loop() const noexcept;
  void start_workers(int count) noexcept;
  void offer(const Loop& loop, uint32_t seats) noexcept;
  void wake_workers(uint32_t seats) noexcept;
  void wait_for_workers(uint32_t tasks) noexcept;
  void serve() noexcept;
  [[nodiscard]] bool is_served() const noexcept;
  void sleep() noexcept;
  bool make_way() noexcept;
  uint32_t work(Role role) noexcept;

  static constexpr int line = 64;  // bytes that cores pass on as one
  static constexpr uint32_t caller_sleeps = uint32_t{1} << 31;

  std::atomic<bool> has_caller_ = false;  // who set it has loop_ and workers_
  std::atomic<std::thread::id> caller_ = std::thread::id();
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> workers_;
  alignas(line) std::atomic<Offer> offer_ = Offer();
  Loop loop_;  // written while nobody has a task of it
  std::atomic<int> caller_core_ = -1;
  alignas(line) std::atomic<uint32_t> done_ = 0;  // tasks, by workers; and caller_sleeps
  alignas(line) std::atomic<uint32_t> sleepers_ = 0;
  std::atomic<uint32_t> calls_ = 0;  // to those who sleep
};

}  // namespace folio::inline v1
