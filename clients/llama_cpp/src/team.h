// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/team.h: how ggml's threads share a node: one makes it ready, all take
/// tasks.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "trace.h"

namespace ggml_folio {

/// The meeting place of one run of one node. ggml's threads come to the node together, behind its
/// barrier, and the next barrier follows: so the first to come prepares, the others wait for it,
/// and nobody waits at the end.
class Team {
 public:
  /// For the next run. No thread may be inside.
  void reset() {
    state_.store(State::empty, std::memory_order_relaxed);
    next_.store(0, std::memory_order_relaxed);
  }

  /// `prepare() -> int64_t`: the number of tasks, below 0 after a failure: there are none then.
  /// It runs on one thread, before any `run(task)`; every task is run once. `is_first`: this
  /// thread's time is the one that is counted.
  template <class Prepare, class Run>
  void work(bool is_first, Prepare&& prepare, Run&& run) {
    State expected = State::empty;
    if (state_.compare_exchange_strong(expected, State::preparing, std::memory_order_acquire)) {
      tasks_ = prepare();
      state_.store(State::ready, std::memory_order_release);
    } else if (expected != State::ready) {
      const Timer timer(&Counters::wait_ns, is_first);
      wait();
    }
    const Timer timer(&Counters::attend_ns, is_first);
    for (int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks_;
         i = next_.fetch_add(1, std::memory_order_relaxed))
      run(i);
  }

 private:
  enum class State : uint8_t { empty, preparing, ready };

  /// A preparation takes about a microsecond, unless the thread that does it has lost its core.
  void wait() const {
    constexpr int patience = 4096;
    for (int i = 0; state_.load(std::memory_order_acquire) != State::ready; ++i) {
      if (i < patience)
        relax();
      else
        std::this_thread::yield();
    }
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  alignas(64) std::atomic<State> state_ = State::empty;
  int64_t tasks_ = 0;
  alignas(64) std::atomic<int64_t> next_ = 0;
};

}  // namespace ggml_folio
