// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/trace.h: what FOLIO_GGML_TRACE=1 counts: nodes, forms of masks, and where
/// the time goes. Without it nothing is counted and no clock is read.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace ggml_folio {

using Counter = std::atomic<int64_t>;
static_assert(Counter::is_always_lock_free);  // a signal handler reads them

/// Sums of the whole process; nanoseconds are those of the thread that did the work.
struct Counters {
  Counter graphs = 0;
  Counter nodes = 0;    ///< served
  Counter refused = 0;  ///< left to the CPU backend
  Counter masks = 0;    ///< read
  Counter runs = 0;     ///< of these, by form
  Counter cells = 0;
  Counter biased = 0;
  Counter alibi = 0;
  Counter plans = 0;
  Counter tasks = 0;
  Counter mask_ns = 0;
  Counter create_ns = 0;
  Counter plan_ns = 0;
  Counter prepare_ns = 0;  ///< of a node, inside the graph: the other threads wait
  Counter wait_ns = 0;     ///< of thread 0, until a node was prepared
  Counter attend_ns = 0;   ///< of thread 0, inside tasks
  Counter graph_ns = 0;    ///< of whole graphs
};

/// The probe's graph has been run: what runs from now on is told of, and counted if the trace is
/// on. With the trace, the counters are also said when the process ends: when it exits, and when
/// SIGTERM or SIGINT end it that nobody handles, by a handler of ours, which is installed where the
/// signal has its default action, writes the line, and lets the default action follow. A program
/// that handles these signals, now or later, keeps its handlers: it exits by itself. Call it once.
void begin_trace();

/// Whether begin_trace was called.
[[nodiscard]] bool has_begun();

/// Adds to a counter, if the trace is on. Any number of threads.
void count(Counter Counters::*counter, int64_t by = 1);

/// Adds its life's time to a counter.
class Timer {
 public:
  explicit Timer(Counter Counters::*counter, bool is_wanted = true);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

 private:
  Counter Counters::*counter_;
  std::chrono::steady_clock::time_point start_;
};

/// Says a kernel's name once, if the trace is on.
void trace_kernel(std::string_view name);

/// Says the counters, if the trace is on and nodes were seen since they were said last.
void report_trace();

}  // namespace ggml_folio
