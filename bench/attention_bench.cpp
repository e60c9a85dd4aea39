// SPDX-License-Identifier: Apache-2.0
/// bench/attention_bench.cpp: attention against the roofs of this machine, on one core and on two.
///
///     attention_bench [--benchmark_filter=REGEX] [--kernel=NAME] [--json=FILE] [--commit=ID]
///
/// Roofs are benchmarks themselves and come first; a case whose roof was not run measures it.
/// Before and after each case its roof is timed again, and the case is held against the median of
/// these. What one core can do two can, too: a case of two cores is held against the higher of the
/// medians on one and on two; where either roof may be the nearer, against the one that leaves less
/// time. A case is checked once against the reference before it is timed; plan
/// is not in the timed region. Memory of a case is built when it runs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "attention_cases.h"
#include "report.h"
#include "roofs.h"
#include "timed_runs.h"

namespace folio::bench {
namespace {

/// The roofs found so far. Runs of the same length and order have the same fastest pattern.
class Roofs {
 public:
  /// Times again what was found to be fastest.
  void add_sample(RoofKind kind, int threads, const ReadRuns& runs, std::vector<double>& samples) {
    if (kind == RoofKind::read) {
      append(samples, read_rates(runs, pattern(threads, runs), threads, 3));
    } else if (kind != RoofKind::none) {
      append(samples, arithmetic_rates(unit(kind, threads), threads, 0.15));
    }
  }

  std::string how(RoofKind kind, int threads, const ReadRuns& runs) {
    return kind == RoofKind::read ? describe(pattern(threads, runs))
                                  : std::string(bench::name(unit(kind, threads)));
  }

 private:
  static void append(std::vector<double>& samples, const std::vector<double>& more) {
    samples.insert(samples.end(), more.begin(), more.end());
  }
  static ArithmeticUnit unit(RoofKind kind, int threads) {
    return kind == RoofKind::fma ? ArithmeticUnit::fma : fastest_unit(threads);
  }
  const ReadChoice& pattern(int threads, const ReadRuns& runs) {
    const auto [at, is_new] = patterns_.try_emplace({threads, runs.bytes});
    if (is_new) at->second = best_pattern(runs, threads);
    return at->second;
  }

  std::map<std::pair<int, int64_t>, ReadChoice> patterns_;
};

/// The roof of a case on n cores, timed next to it on 1 ... n: the highest of the medians, since
/// more cores can do what fewer can, whatever the host does to them meanwhile.
class RoofBeside {
 public:
  RoofBeside(Roofs& roofs, RoofKind kind, int threads, const ReadRuns& runs)
      : roofs_(roofs), kind_(kind), runs_(runs), samples_(static_cast<size_t>(threads)) {}

  void sample() {
    for (size_t t = 0; t < samples_.size(); ++t)
      roofs_.add_sample(kind_, static_cast<int>(t) + 1, runs_, samples_[t]);
  }

  [[nodiscard]] Roof roof(const std::string& name) const {
    Roof best{name, 0.0, {}};
    for (size_t t = samples_.size(); kind_ != RoofKind::none && t-- > 0;) {
      const double rate = median(samples_[t]);
      if (rate <= best.per_second) continue;
      best.per_second = rate;
      best.how = roofs_.how(kind_, static_cast<int>(t) + 1, runs_);
      if (t + 1 < samples_.size()) best.how += ", fewer cores";
    }
    return best;
  }

 private:
  Roofs& roofs_;
  RoofKind kind_;
  const ReadRuns& runs_;
  std::vector<std::vector<double>> samples_;  // [cores - 1]
};

/// What is being measured: Google Benchmark calls a case several times until it lasts long enough,
/// and memory is made once.
struct Session {
  Report report;
  Roofs roofs;
  std::string built;
  std::unique_ptr<Workload> workload;
  ReadRuns runs;
  std::string wrong;
};

const char* name(RoofKind kind) {
  switch (kind) {
    case RoofKind::read: return "R";
    case RoofKind::arithmetic: return "P";
    case RoofKind::fma: return "P (FMA)";
    case RoofKind::nearer:
    case RoofKind::none: break;
  }
  return "";
}

/// What is timed beside a case.
std::vector<RoofKind> kinds_of(RoofKind kind) {
  if (kind == RoofKind::nearer) return {RoofKind::read, RoofKind::arithmetic};
  return {kind};
}

bool has_read_roof(const Case& c) { return c.roof == RoofKind::read || c.roof == RoofKind::nearer; }

void build(Session& session, const Case& c, int threads) {
  const std::string id = c.shape + "/" + std::to_string(threads);
  if (session.built == id) return;
  session.workload.reset();
  session.built = id;
  session.runs = {};
  session.wrong.clear();
  try {
    session.workload =
        std::make_unique<Workload>(c.workload, session.report.options().kernel, threads);
    session.workload->run();
    session.wrong = session.workload->check();
  } catch (const std::exception& error) {
    session.wrong = error.what();
  }
  if (session.wrong.empty() && has_read_roof(c)) session.runs = session.workload->runs();
}

void state_balance(Session& session, const Case& c, const std::vector<double>& balance) {
  if (c.workload.first_context == 0) return;
  session.report.set(Ratio{c.shape + ": makespan over perfect balance", median(balance)});
}

void run_case(benchmark::State& state, Session* session, const Case& c, int threads) {
  build(*session, c, threads);
  if (!session->wrong.empty()) {
    state.SkipWithError(session->wrong.c_str());
    return;
  }
  Workload& workload = *session->workload;
  std::vector<double> balance;
  const std::vector<RoofKind> kinds = kinds_of(c.roof);
  std::vector<RoofBeside> roofs;
  for (const RoofKind kind : kinds)
    roofs.emplace_back(session->roofs, kind, threads, session->runs).sample();
  const double seconds = median_of(state, [&] {
    workload.run();
    if (threads > 1) balance.push_back(workload.makespan() * threads / workload.busy());
  });
  for (RoofBeside& roof : roofs) roof.sample();

  Row row{workload.kernel(), c.shape, threads, seconds, workload.bytes(), workload.flops(), {}};
  for (size_t i = 0; i < kinds.size(); ++i) {
    Row held = row;
    held.roof = roofs[i].roof(name(kinds[i]));
    if (i == 0 || held.percent_of_roof() > row.percent_of_roof()) row.roof = held.roof;
  }
  raise_to_fewer(row, session->report);
  session->report.set(row);
  state_balance(*session, c, balance);
  state.SetLabel(row.kernel);
  state.counters["GB/s"] = row.bytes / row.seconds / 1e9;
  state.counters["GFLOP/s"] = row.flops / row.seconds / 1e9;
  state.counters["%roof"] = row.percent_of_roof();
}

/// States a roof: of two cores not less than that of one.
void state_rate(benchmark::State& state, Session* session, const std::string& shape, int threads,
                Roof roof) {
  const Row* fewer = threads > 1 ? session->report.find(shape, 1) : nullptr;
  if (fewer != nullptr && fewer->bytes + fewer->flops > roof.per_second) {
    roof.per_second = fewer->bytes + fewer->flops;  // of one second
    roof.how = fewer->kernel + ", fewer cores";
  }
  for (auto _ : state) state.SetIterationTime(1.0);
  state.SetLabel(roof.how);
  state.counters[roof.name == "P" ? "GFLOP/s" : "GB/s"] = roof.per_second / 1e9;
  const bool is_arithmetic = roof.name == "P";
  session->report.set(Row{roof.how,
                          shape,
                          threads,
                          1.0,
                          is_arithmetic ? 0.0 : roof.per_second,
                          is_arithmetic ? roof.per_second : 0.0,
                          {}});
}

benchmark::internal::Benchmark* add(const std::string& title, const auto& function) {
  return benchmark::RegisterBenchmark(title.c_str(), function)
      ->Unit(benchmark::kMillisecond)
      ->UseManualTime();
}

void add_roofs(Session* session, int threads) {
  const std::string suffix = "/threads:" + std::to_string(threads);
  for (const ArithmeticUnit unit : arithmetic_units()) {
    const std::string shape = std::string("roof/arithmetic/") + bench::name(unit);
    add(shape + suffix, [=](benchmark::State& state) {
      state_rate(state, session, shape, threads,
                 {"P", median(arithmetic_rates(unit, threads, 1.0)), bench::name(unit)});
    })->Iterations(1);
  }
  add("roof/copy" + suffix, [=](benchmark::State& state) {
    state_rate(state, session, "roof/copy", threads,
               {"C", copy_rate(threads), "copy, read and written bytes"});
  })->Iterations(1);
}

/// Cases with equal runs share a roof; the first of them stands for all.
void add_read_roofs(Session* session, const std::vector<Case>& cases, int threads) {
  std::vector<int64_t> seen;
  for (const Case& c : cases) {
    if (!has_read_roof(c) || !(threads == 1 ? c.one_core : c.two_cores)) continue;
    const int64_t heads = c.workload.order == StorageOrder::head_major ? 1 : c.workload.kv_heads;
    const int64_t bytes =
        heads * c.workload.page_size * c.workload.head_size * bit_width(c.workload.dtype) / 8;
    if (std::find(seen.begin(), seen.end(), bytes) != seen.end()) continue;
    seen.push_back(bytes);
    const std::string shape = "roof/read/runs_of_" + std::to_string(bytes);
    add(shape + "/threads:" + std::to_string(threads), [=](benchmark::State& state) {
      build(*session, c, threads);
      std::vector<double> samples;
      if (session->wrong.empty())
        session->roofs.add_sample(RoofKind::read, threads, session->runs, samples);
      const std::string how = session->wrong.empty()
                                  ? session->roofs.how(RoofKind::read, threads, session->runs)
                                  : session->wrong;
      state_rate(state, session, shape, threads, {"R", median(samples), how});
    })->Iterations(1);
  }
}

/// How much two cores gain, over what they could gain by the roof of the same row.
void state_scaling(Report& report, const Case& c) {
  const Row* one = report.find(c.shape, 1);
  const Row* two = report.find(c.shape, 2);
  if (one == nullptr || two == nullptr || one->roof.name != two->roof.name) return;
  const double gain = one->seconds / two->seconds;
  report.set(Ratio{c.shape + ": two cores against one, over the roofs' ratio",
                   gain / (two->roof.per_second / one->roof.per_second)});
}

void state_ratios(Report& report, const std::vector<Case>& cases) {
  for (const Comparison& comparison : comparisons()) {
    const Row* slower = report.find(comparison.slower, 1);
    const Row* faster = report.find(comparison.faster, 1);
    if (slower != nullptr && faster != nullptr)
      report.set(Ratio{comparison.name, slower->seconds / faster->seconds});
  }
  for (const Case& c : cases) state_scaling(report, c);
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  using namespace folio::bench;
  Session session{Report(take_options(argc, argv)), {}, {}, nullptr, {}, {}};
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const std::vector<Case> cases = attention_cases();
  const int cores = std::thread::hardware_concurrency() > 1 ? 2 : 1;
  for (int threads = 1; threads <= cores; ++threads) {
    add_roofs(&session, threads);
    add_read_roofs(&session, cases, threads);
  }
  for (const Case& c : cases) {
    for (int threads = 1; threads <= cores; ++threads) {
      if (!(threads == 1 ? c.one_core : c.two_cores)) continue;
      add(c.shape + "/threads:" + std::to_string(threads),
          [&session, c, threads](benchmark::State& state) {
            run_case(state, &session, c, threads);
          });
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  state_ratios(session.report, cases);
  session.report.finish();
  return 0;
}
