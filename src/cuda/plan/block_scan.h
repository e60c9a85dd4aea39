// SPDX-License-Identifier: Apache-2.0
/// src/cuda/plan/block_scan.h: sums over the threads of a block, in the order of threads: integers,
/// so that no result depends on how many threads there are.
#pragma once

#include <cstdint>

#include "cuda/primitives/device.h"

namespace folio::cuda {

template <int N, class T = int64_t>
struct Sums {
  T x[N] = {};
};

/// Scans of a block of `Threads` threads; all of them call every member.
template <int Threads>
class BlockScan {
 public:
  static_assert(Threads % 32 == 0 && Threads <= 1024);
  static constexpr int warps = Threads / 32;
  static constexpr int values_max = 3;
  static constexpr int shared_bytes = warps * values_max * 8;

  /// `at`: shared_bytes of shared memory at a multiple of 8, used by the scans alone.
  FOLIO_DEVICE explicit BlockScan(uint32_t at) : at_(at) {}

  /// What the threads before this one bring. `total` gets what all bring.
  template <int N, class T, class Thread>
  FOLIO_DEVICE Sums<N, T> before(Thread& t, const Sums<N, T>& mine, Sums<N, T>& total) {
    static_assert(N <= values_max);
    const int lane = t.thread() % 32, warp = t.thread() / 32;
    Sums<N, T> result;
    t.sync_block();  // the last scan's words are read
    FOLIO_UNROLL
    for (int i = 0; i < N; ++i) {
      const T up_to = up_to_lane(t, mine.x[i], lane);
      result.x[i] = up_to - mine.x[i];
      if (lane == 31) t.store_shared(word(warp, i), up_to);
    }
    t.sync_block();
    FOLIO_UNROLL
    for (int i = 0; i < N; ++i) {
      const T of_warp = lane < warps ? t.template load_shared<T>(word(lane, i)) : T{0};
      const T up_to = up_to_lane(t, of_warp, lane);
      total.x[i] = shuffled(t, up_to, 31);
      result.x[i] += shuffled(t, up_to - of_warp, warp);
    }
    return result;
  }

  /// The largest value of all threads, at least 0.
  template <class Thread>
  FOLIO_DEVICE int32_t largest(Thread& t, int32_t mine) {
    const int lane = t.thread() % 32, warp = t.thread() / 32;
    t.sync_block();
    mine = largest_of_warp(t, mine);
    if (lane == 0) t.store_shared(word(warp, 0), int64_t{mine});
    t.sync_block();
    const int64_t of_warp = lane < warps ? t.template load_shared<int64_t>(word(lane, 0)) : 0;
    return largest_of_warp(t, static_cast<int32_t>(of_warp));
  }

 private:
  [[nodiscard]] FOLIO_DEVICE uint32_t word(int warp, int value) const {
    return at_ + static_cast<uint32_t>(warp * values_max + value) * 8;
  }
  template <class Thread>
  static FOLIO_DEVICE int64_t shuffled(Thread& t, int64_t value, int from) {
    const auto bits = static_cast<uint64_t>(value);
    const uint64_t low = t.shuffle(static_cast<uint32_t>(bits), from);
    const uint64_t high = t.shuffle(static_cast<uint32_t>(bits >> 32), from);
    return static_cast<int64_t>(low | high << 32);
  }
  template <class Thread>
  static FOLIO_DEVICE int32_t shuffled(Thread& t, int32_t value, int from) {
    return static_cast<int32_t>(t.shuffle(static_cast<uint32_t>(value), from));
  }
  template <class T, class Thread>
  static FOLIO_DEVICE T up_to_lane(Thread& t, T value, int lane) {
    FOLIO_UNROLL
    for (int step = 1; step < 32; step *= 2) {
      const T other = shuffled(t, value, lane < step ? lane : lane - step);
      if (lane >= step) value += other;
    }
    return value;
  }
  template <class Thread>
  static FOLIO_DEVICE int32_t largest_of_warp(Thread& t, int32_t value) {
    FOLIO_UNROLL
    for (int step = 1; step < 32; step *= 2) {
      const auto other =
          static_cast<int32_t>(t.shuffle(static_cast<uint32_t>(value), (t.thread() % 32) ^ step));
      value = value > other ? value : other;
    }
    return value > 0 ? value : 0;
  }

  uint32_t at_;
};

}  // namespace folio::cuda
