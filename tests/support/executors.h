// SPDX-License-Identifier: Apache-2.0
/// tests/support/executors.h: executors that make schedules vary: real threads, tasks in a shuffled
/// order.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "folio/core/execution.h"
#include "support/random.h"

namespace folio::test {

/// Starts `threads` threads per call, which take the tasks in an order that differs from call to
/// call.
class ShufflingExecutor {
 public:
  ShufflingExecutor(int threads, uint64_t seed) : threads_(threads), rng_(seed) {}

  [[nodiscard]] Executor executor() {
    Executor e;
    e.context = this;
    e.concurrency = [](void* self) { return static_cast<ShufflingExecutor*>(self)->threads_; };
    e.parallel_for = [](void* self, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
      static_cast<ShufflingExecutor*>(self)->run(n, task, arg);
    };
    return e;
  }

  void run(int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
    rng_.shuffle(order);
    std::atomic<size_t> next = 0;
    std::vector<std::thread> workers;
    for (int t = 0; t < threads_; ++t) {
      workers.emplace_back([&] {
        for (size_t i = next.fetch_add(1); i < order.size(); i = next.fetch_add(1))
          task(arg, order[i]);
      });
    }
    for (std::thread& worker : workers) worker.join();
  }

 private:
  int threads_;
  Rng rng_;
};

}  // namespace folio::test
