// SPDX-License-Identifier: Apache-2.0
/// tests/support/random.h: a small seeded generator, the same on every platform, and how tests get
/// their seeds.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <utility>

namespace folio::test {

/// splitmix64 (Steele, Lea and Flood 2014): any seed is good, two draws are independent enough for
/// test data.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [low, high], both included.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(next() % (static_cast<uint64_t>(high - low) + 1));
  }
  int32_t int_between(int64_t low, int64_t high) {
    return static_cast<int32_t>(between(low, high));
  }
  /// In [low, high).
  float uniform(float low, float high) {
    return low + (high - low) * static_cast<float>(static_cast<double>(next() >> 11) * 0x1p-53);
  }
  bool chance(double share) { return static_cast<double>(next() >> 11) * 0x1p-53 < share; }
  template <class Range>
  auto& pick(Range& range) {
    return range[static_cast<size_t>(between(0, static_cast<int64_t>(std::size(range)) - 1))];
  }
  template <class Range>
  void shuffle(Range& range) {
    for (size_t i = std::size(range); i > 1; --i) std::swap(range[i - 1], range[next() % i]);
  }

 private:
  uint64_t state_;
};

/// The seed of a random test, printed so that a failure can be repeated with --gtest_random_seed
/// (default: 1).
inline uint64_t test_seed() {
  const int given = GTEST_FLAG_GET(random_seed);
  const uint64_t seed = given == 0 ? 1u : static_cast<uint64_t>(given);
  std::printf("[     seed ] --gtest_random_seed=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace folio::test
