// SPDX-License-Identifier: Apache-2.0
/// bench/roofs.h: what this machine can do at best, measured in the process that reports percentages of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace folio::bench {

/// Memory with huge pages where the system grants them, touched; freed on destruction.
class HugeMemory {
 public:
  explicit HugeMemory(int64_t bytes);
  ~HugeMemory();
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// Sum of the last-level caches that the system reports, in bytes.
int64_t cache_bytes();

/// f32 operations per second (a fused multiply-add is two) on `threads` threads: the best of several short runs.
double peak_flops(int threads);

/// Bytes per second read from the pages `order` of `memory`, each `page_bytes` long, on `threads` threads: the best over plain reading
/// and two prefetch patterns (the head of the next page; every line a fixed distance ahead).
double read_rate(const HugeMemory& memory, int64_t page_bytes, std::span<const uint32_t> order, int threads);

}  // namespace folio::bench
