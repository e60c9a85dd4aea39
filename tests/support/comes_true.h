// SPDX-License-Identifier: Apache-2.0
/// tests/support/comes_true.h: waiting for what another thread, process or clock does.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace folio::test {

/// Far beyond what anything takes, however busy the machine: whoever waits for longer hangs.
inline constexpr std::chrono::seconds patience{300};

/// The same for options of what is under test, where its own deadlines are not what is tested: a
/// test that relies on one does not end.
inline constexpr int64_t no_deadline_ms = 600'000;

/// Asks again and again until it holds. False: it has not within `patience`.
template <class Condition>
[[nodiscard]] bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace folio::test
