// SPDX-License-Identifier: Apache-2.0
/// bench/report.cpp: writes rows as JSON and as a table.
#include "report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "cpu/features.h"
#include "roofs.h"

namespace folio::bench {
namespace {

/// The value of `--name=` if `argument` is that flag.
bool take(std::string_view argument, std::string_view name, std::string& value) {
  if (!argument.starts_with(name) || argument.substr(name.size(), 1) != "=") return false;
  value = argument.substr(name.size() + 1);
  return true;
}

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown processor";
}

/// "2026-11-21T07:53:17Z"
std::string utc(std::time_t time) {
  char text[32];
  std::tm parts = {};
  gmtime_r(&time, &parts);
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// The best that this machine offers.
std::string instruction_set() {
  for (int i = num_capabilities - 1; i > 0; --i)
    if (machine_has(static_cast<Capability>(i))) return name(static_cast<Capability>(i));
  return "x86-64";
}

bool is_arithmetic(const Roof& roof) { return roof.name.starts_with("P"); }

nlohmann::json json_of(const Roof& roof) {
  if (roof.name.empty()) return nullptr;
  return {{"name", roof.name},
          {is_arithmetic(roof) ? "gflop_per_s" : "gb_per_s", roof.per_second / 1e9},
          {"how", roof.how}};
}

}  // namespace

ReportOptions take_options(int& argc, char** argv) {
  ReportOptions options;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const bool ours = take(argv[i], "--json", options.json) ||
                      take(argv[i], "--commit", options.commit) ||
                      take(argv[i], "--kernel", options.kernel);
    if (!ours) argv[kept++] = argv[i];
  }
  argc = kept;
  return options;
}

double Row::percent_of_roof() const {
  if (roof.name.empty()) return 0.0;
  return 100.0 * (is_arithmetic(roof) ? flops : bytes) / seconds / roof.per_second;
}

Report::Report(ReportOptions options)
    : options_(std::move(options)), machine_(machine_name()), began_(std::time(nullptr)) {}

void Report::set(const Row& row) {
  const auto same = [&](const Row& r) {
    return r.kernel == row.kernel && r.shape == row.shape && r.threads == row.threads;
  };
  const auto found = std::find_if(rows_.begin(), rows_.end(), same);
  if (found == rows_.end()) {
    rows_.push_back(row);
  } else {
    *found = row;
  }
}

void Report::set(const Ratio& ratio) {
  const auto found = std::find_if(ratios_.begin(), ratios_.end(),
                                  [&](const Ratio& r) { return r.name == ratio.name; });
  if (found == ratios_.end()) {
    ratios_.push_back(ratio);
  } else {
    *found = ratio;
  }
}

const Row* Report::find(const std::string& shape, int threads) const {
  const auto same = [&](const Row& r) { return r.shape == shape && r.threads == threads; };
  const auto found = std::find_if(rows_.begin(), rows_.end(), same);
  return found == rows_.end() ? nullptr : &*found;
}

void Report::finish() const {
  nlohmann::json rows = nlohmann::json::array(), ratios = nlohmann::json::array();
  std::printf("\n%-52s %-34s %2s %10s %8s %9s %5s\n", "shape", "kernel", "th", "ms", "GB/s",
              "GFLOP/s", "roof");
  for (const Row& row : rows_) {
    rows.push_back({{"kernel", row.kernel},
                    {"shape", row.shape},
                    {"threads", row.threads},
                    {"ms", row.seconds * 1e3},
                    {"gb_per_s", row.bytes / row.seconds / 1e9},
                    {"gflop_per_s", row.flops / row.seconds / 1e9},
                    {"roof", json_of(row.roof)},
                    {"percent_of_roof", row.percent_of_roof()},
                    {"machine", machine_},
                    {"commit", options_.commit}});
    std::printf("%-52s %-34s %2d %10.4f %8.2f %9.1f", row.shape.c_str(), row.kernel.c_str(),
                row.threads, row.seconds * 1e3, row.bytes / row.seconds / 1e9,
                row.flops / row.seconds / 1e9);
    if (row.roof.name.empty()) {
      std::printf("\n");
    } else {
      std::printf(" %4.0f %% of %s = %.1f %s\n", row.percent_of_roof(), row.roof.name.c_str(),
                  row.roof.per_second / 1e9, is_arithmetic(row.roof) ? "GFLOP/s" : "GB/s");
    }
  }
  for (const Ratio& ratio : ratios_) {
    ratios.push_back({{"name", ratio.name}, {"value", ratio.value}});
    std::printf("%-88s %10.3f\n", ratio.name.c_str(), ratio.value);
  }
  if (options_.json.empty()) return;
  const nlohmann::json context = {{"machine", machine_},
                                  {"commit", options_.commit},
                                  {"compiler", __VERSION__},
                                  {"flags", FOLIO_BENCH_FLAGS},
                                  {"began", utc(began_)},
                                  {"isa", instruction_set()},
                                  {"cache_mib", static_cast<double>(cache_bytes()) / (1 << 20)}};
  std::ofstream file(options_.json);
  file << nlohmann::json{{"context", context}, {"rows", rows}, {"ratios", ratios}}.dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + options_.json);
}

void raise_to_fewer(Row& row, const Report& report) {
  for (int threads = 1; threads < row.threads; ++threads) {
    const Row* const fewer = report.find(row.shape, threads);
    if (fewer == nullptr || fewer->roof.name != row.roof.name) continue;
    if (fewer->roof.per_second <= row.roof.per_second) continue;
    row.roof = fewer->roof;
    row.roof.how += ", fewer cores";
  }
}

std::string machine_name() {
  const Processor& p = processor();
  return model_name() + ", family " + std::to_string(p.family) + ", model " +
         std::to_string(p.model) + ", " + std::to_string(std::thread::hardware_concurrency()) +
         " processors";
}

}  // namespace folio::bench
