// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/trace.h: what FOLIO_GGML_TRACE=1 counts: nodes, forms of masks, and where
/// the time goes. Without it nothing is counted and no clock is read.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace ggml_folio {

/// Sums of the whole process; microseconds are those of the thread that did the work.
struct Counters {
  int64_t graphs = 0;
  int64_t nodes = 0;    ///< served
  int64_t refused = 0;  ///< left to the CPU backend
  int64_t masks = 0;    ///< read
  int64_t runs = 0;     ///< of these, by form
  int64_t cells = 0;
  int64_t biased = 0;
  int64_t alibi = 0;
  int64_t plans = 0;
  int64_t tasks = 0;
  double mask_us = 0;
  double create_us = 0;
  double plan_us = 0;
  double prepare_us = 0;  ///< of a node, inside the graph: the other threads wait
  double wait_us = 0;     ///< of thread 0, until a node was prepared
  double attend_us = 0;   ///< of thread 0, inside tasks
  double graph_us = 0;    ///< of whole graphs
};

/// Adds to a counter, if the trace is on. One thread at a time for each counter.
void count(int64_t Counters::*counter, int64_t by = 1);
void add_us(double Counters::*counter, double us);

/// Adds its life's time to a counter.
class Timer {
 public:
  explicit Timer(double Counters::*counter, bool is_wanted = true);
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer();

 private:
  double Counters::*counter_;
  std::chrono::steady_clock::time_point start_;
};

/// Says a kernel's name once, if the trace is on.
void trace_kernel(std::string_view name);

/// Says the counters, if the trace is on and a node was seen.
void report_trace();

}  // namespace ggml_folio
