// SPDX-License-Identifier: Apache-2.0
/// cli/parts/parallel.h: small help around executors and clocks.
#pragma once

#include <chrono>
#include <cstdint>

#include "folio/core/execution.h"

namespace folio::cli {

/// body(i) for i in [0, n) on the executor's threads; it must not throw.
template <class Body>
void parallel_for(const Executor& executor, int64_t n, Body body) {
  const auto task = [](void* arg, int64_t i) noexcept { (*static_cast<const Body*>(arg))(i); };
  executor.parallel_for(executor.context, n, task, &body);
}

/// Adds the seconds of its life to `total`.
class Timed {
 public:
  explicit Timed(double& total) : total_(total), start_(Clock::now()) {}
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;
  ~Timed() { total_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& total_;
  Clock::time_point start_;
};

}  // namespace folio::cli
