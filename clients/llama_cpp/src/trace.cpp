// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/trace.cpp: one set of counters for the process.
#include "trace.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "line.h"
#include "settings.h"

namespace ggml_folio {
namespace {

Counters counters;
std::atomic<bool> is_traced = false, is_begun = false;
Counter reported = 0;  ///< nodes, served and refused, when the counters were said last
std::mutex kernels_mutex;
std::set<std::string> kernels;

/// Microseconds of each, as hundredths.
int64_t hundredths_each(int64_t ns, int64_t number) { return number > 0 ? ns / number / 10 : 0; }

void report_on_signal(int number) {
  const int before = errno;
  report_trace();
  errno = before;
  (void)std::raise(number);  // when this returns; its action is the default again
}

void report_before(int number) {
  struct sigaction action = {};
  if (sigaction(number, nullptr, &action) != 0 || (action.sa_flags & SA_SIGINFO) != 0 ||
      action.sa_handler != SIG_DFL)
    return;
  action = {};
  action.sa_handler = report_on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  (void)sigaction(number, &action, nullptr);
}

}  // namespace

void begin_trace() {
  is_begun = true;
  if (!settings().trace) return;
  is_traced = true;
  (void)std::atexit(report_trace);
  for (const int number : {SIGTERM, SIGINT}) report_before(number);
}

bool has_begun() { return is_begun; }

void count(Counter Counters::*counter, int64_t by) {
  if (is_traced.load(std::memory_order_relaxed))
    (counters.*counter).fetch_add(by, std::memory_order_relaxed);
}

Timer::Timer(Counter Counters::*counter, bool is_wanted)
    : counter_(is_wanted && is_traced.load(std::memory_order_relaxed) ? counter : nullptr) {
  if (counter_ != nullptr) start_ = std::chrono::steady_clock::now();
}

Timer::~Timer() {
  if (counter_ == nullptr) return;
  const std::chrono::nanoseconds life = std::chrono::steady_clock::now() - start_;
  count(counter_, life.count());
}

void trace_kernel(std::string_view name) {
  if (!is_traced) return;
  const std::lock_guard lock(kernels_mutex);
  if (kernels.emplace(name).second) say("kernel " + std::string(name));
}

void report_trace() {
  if (!is_traced) return;
  const Counters& c = counters;
  const int64_t nodes = c.nodes, graphs = c.graphs, seen = nodes + c.refused;
  if (reported.exchange(seen) == seen) return;
  Line line;
  line << "nodes " << nodes << " refused " << c.refused << " graphs " << graphs;
  line << " | masks read " << c.masks << " (runs " << c.runs << " cells " << c.cells << " bias "
       << c.biased << ", alibi " << c.alibi << ") plans " << c.plans << " tasks " << c.tasks;
  line << " | us per node:";
  const struct {
    std::string_view name;
    const Counter& ns;
  } times[] = {{" mask ", c.mask_ns},       {" create ", c.create_ns}, {" plan ", c.plan_ns},
               {" prepare ", c.prepare_ns}, {" wait ", c.wait_ns},     {" attend ", c.attend_ns}};
  for (const auto& [name, ns] : times) (line << name).hundredths(hundredths_each(ns, nodes));
  (line << " | us per graph ").hundredths(hundredths_each(c.graph_ns, graphs));
  line.write();
}

}  // namespace ggml_folio
