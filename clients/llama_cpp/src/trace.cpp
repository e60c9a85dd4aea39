// SPDX-License-Identifier: Apache-2.0
/// clients/llama_cpp/src/trace.cpp: one set of counters for the process.
#include "trace.h"

#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "settings.h"

namespace ggml_folio {
namespace {

// Contexts that run at once may lose a count: the trace is for looking, not for accounting.
Counters counters;
std::mutex kernels_mutex;
std::set<std::string> kernels;

}  // namespace

void count(int64_t Counters::*counter, int64_t by) {
  if (settings().trace) counters.*counter += by;
}

void add_us(double Counters::*counter, double us) {
  if (settings().trace) counters.*counter += us;
}

Timer::Timer(double Counters::*counter, bool is_wanted)
    : counter_(is_wanted && settings().trace ? counter : nullptr) {
  if (counter_ != nullptr) start_ = std::chrono::steady_clock::now();
}

Timer::~Timer() {
  if (counter_ == nullptr) return;
  const std::chrono::duration<double, std::micro> life = std::chrono::steady_clock::now() - start_;
  counters.*counter_ += life.count();
}

void trace_kernel(std::string_view name) {
  if (!settings().trace) return;
  const std::lock_guard lock(kernels_mutex);
  if (kernels.emplace(name).second) say("kernel " + std::string(name));
}

void report_trace() {
  const Counters& c = counters;
  if (!settings().trace || c.nodes + c.refused == 0) return;
  const double nodes = c.nodes > 0 ? static_cast<double>(c.nodes) : 1.0;
  char line[600];
  std::snprintf(line, sizeof(line),
                "nodes %lld refused %lld graphs %lld | masks read %lld (runs %lld cells %lld bias "
                "%lld, alibi "
                "%lld) plans %lld tasks %lld | us per node: mask %.2f create %.2f plan %.2f "
                "prepare %.2f wait "
                "%.2f attend %.2f | us per graph %.1f",
                static_cast<long long>(c.nodes), static_cast<long long>(c.refused),
                static_cast<long long>(c.graphs), static_cast<long long>(c.masks),
                static_cast<long long>(c.runs), static_cast<long long>(c.cells),
                static_cast<long long>(c.biased), static_cast<long long>(c.alibi),
                static_cast<long long>(c.plans), static_cast<long long>(c.tasks), c.mask_us / nodes,
                c.create_us / nodes, c.plan_us / nodes, c.prepare_us / nodes, c.wait_us / nodes,
                c.attend_us / nodes,
                c.graphs > 0 ? c.graph_us / static_cast<double>(c.graphs) : 0.0);
  say(line);
}

}  // namespace ggml_folio
