// SPDX-License-Identifier: Apache-2.0
/// cli/parallel.h: small help around executors, memory and clocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "folio/core/execution.h"

namespace folio::cli {

/// body(i) for i in [0, n) on the executor's threads; it must not throw.
template <class Body>
void parallel_for(const Executor& executor, int64_t n, const Body& body) {
  const auto task = [](void* arg, int64_t i) noexcept { (*static_cast<const Body*>(arg))(i); };
  executor.parallel_for(executor.context, n, task,
                        const_cast<void*>(static_cast<const void*>(&body)));
}

/// Memory for cache planes and activations, 64-byte aligned. Pages of the system that are never
/// written cost nothing.
class Buffer {
 public:
  /// Null data if there is no memory.
  static Buffer allocate(int64_t bytes) {
    const auto rounded = static_cast<size_t>((bytes + 63) / 64 * 64);
    Buffer buffer;
    if (bytes == 0) return buffer;
    buffer.data_.reset(std::aligned_alloc(64, rounded));
    buffer.bytes_ = buffer.data_ != nullptr ? static_cast<int64_t>(rounded) : 0;
    return buffer;
  }
  void fill(unsigned char byte) {
    if (data_ != nullptr) std::memset(data_.get(), byte, static_cast<size_t>(bytes_));
  }
  [[nodiscard]] MemorySpan span() const { return {data_.get(), bytes_}; }
  [[nodiscard]] float* floats() const { return static_cast<float*>(data_.get()); }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> data_;
  int64_t bytes_ = 0;
};

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
