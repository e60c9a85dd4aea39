// SPDX-License-Identifier: Apache-2.0
/// bench/roofs.h: what this machine can do at best, measured in the process that reports
/// percentages of it.
///
///     R  bytes per second read from the very runs that a case reads, in its order, with the best
///        of all prefetch patterns
///     P  floating-point operations per second of the fastest unit, on random data
///     C  bytes per second of a copy, read and written bytes counted once each
///
/// Machines drift (clocks, neighbours), so a roof is found once by trying everything and timed
/// again next to each case, with what was found best. Not thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "loops.h"

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

/// Sum of the last two levels of cache that the system reports, in bytes.
int64_t cache_bytes();

/// The middle one; of an even number the lower of the two in the middle. Sorts its copy.
double median(std::vector<double> values);

/// Runs of equal length, a multiple of 256 bytes, in the order of reading.
struct ReadRuns {
  std::vector<const std::byte*> at;
  int64_t bytes = 0;

  [[nodiscard]] double total() const {
    return static_cast<double>(at.size()) * static_cast<double>(bytes);
  }
};

/// Which way of reading was the fastest.
struct ReadChoice {
  ReadPattern pattern = {};
  int64_t piece_bytes = 0;  ///< what a pattern takes for a run: a whole run, or 4 KiB of it
};

/// Tries every pattern on `threads` threads, each reading a consecutive part of the runs, and times
/// the best three again.
ReadChoice best_pattern(const ReadRuns& runs, int threads);

/// Bytes per second of each of `passes` passes.
std::vector<double> read_rates(const ReadRuns& runs, const ReadChoice& choice, int threads,
                               int passes);

/// "plain, 16 KiB runs" and the like.
std::string describe(const ReadChoice& choice);

enum class ArithmeticUnit : uint8_t { fma, bf16_dot, amx };

/// "f32 fused multiply-add", "bf16 dot product", "AMX bf16".
const char* name(ArithmeticUnit unit);

/// Those that this machine has.
std::vector<ArithmeticUnit> arithmetic_units();

/// Operations per second in each slice of 10 ms, over about `seconds`.
std::vector<double> arithmetic_rates(ArithmeticUnit unit, int threads, double seconds);

/// The unit with the highest median rate; measured at the first call for each number of threads.
ArithmeticUnit fastest_unit(int threads);

/// memcpy, ordinary and non-temporal stores: the best of their medians over buffers that exceed the
/// caches.
double copy_rate(int threads);

/// Runs work(thread) on `threads` threads and returns the seconds from when all have started until
/// all have returned.
double timed(int threads, void (*work)(void* arg, int thread), void* arg);

template <class Work>
double timed(int threads, Work work) {
  return timed(
      threads, [](void* arg, int thread) { (*static_cast<Work*>(arg))(thread); }, &work);
}

}  // namespace folio::bench
