// SPDX-License-Identifier: Apache-2.0
/// bench/peers/roof_worker.cpp: the roofs of the machine as two more contenders of bench/peers.
///
///     roof_worker (read | arithmetic) THREADS      a line of JSON in, a line of JSON out
///
///     {"run_bytes": N, "runs": N, "parts": N}
///                                   read: makes so many runs of so many bytes, in random order,
///                                   and finds the fastest pattern over them and over so many parts
///                                   of each, if these are multiples of 256 bytes: {"how": pattern}
///     {"turn": SECONDS}             {"per_second": [bytes or operations of each pass]}
///     {"drop": true}                gives its memory back: {}
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "roofs.h"

namespace folio::bench {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

class Worker {
 public:
  Worker(bool reads, int threads) : reads_(reads), threads_(threads) {}

  Json answer(const Json& message) {
    if (message.contains("turn")) return {{"per_second", turn(message["turn"].get<double>())}};
    memory_.reset();
    runs_ = {};
    if (!message.contains("run_bytes")) return Json::object();
    if (!reads_) return {{"how", name(fastest_unit(threads_))}};
    make_runs(message["run_bytes"].get<int64_t>(), message["runs"].get<int64_t>());
    choose(message["parts"].get<int64_t>());
    return {{"how", describe(pattern_)}};
  }

 private:
  void make_runs(int64_t bytes, int64_t count) {
    memory_ = std::make_unique<HugeMemory>(bytes * count);
    runs_.bytes = bytes;
    for (int64_t i = 0; i < count; ++i) runs_.at.push_back(memory_->data() + i * bytes);
    std::shuffle(runs_.at.begin(), runs_.at.end(), std::mt19937_64(20261122));
  }

  /// The way of reading: whole runs or, if that is faster, their parts one after the other.
  void choose(int64_t parts) {
    pattern_ = best_pattern(runs_, threads_);
    if (parts < 2 || runs_.bytes % (parts * 256) != 0) return;
    ReadRuns cut{.at = {}, .bytes = runs_.bytes / parts};
    for (const std::byte* run : runs_.at)
      for (int64_t i = 0; i < parts; ++i) cut.at.push_back(run + i * cut.bytes);
    const ReadChoice other = best_pattern(cut, threads_);
    const double rate = median(read_rates(runs_, pattern_, threads_, passes));
    if (median(read_rates(cut, other, threads_, passes)) <= rate) return;
    runs_ = std::move(cut);
    pattern_ = other;
  }

  [[nodiscard]] std::vector<double> turn(double seconds) const {
    if (!reads_) return arithmetic_rates(fastest_unit(threads_), threads_, seconds);
    std::vector<double> rates;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    do {
      rates.push_back(read_rates(runs_, pattern_, threads_, 1).front());
    } while (Clock::now() < end);
    return rates;
  }

  static constexpr int passes = 5;

  bool reads_;
  int threads_;
  std::unique_ptr<HugeMemory> memory_;
  ReadRuns runs_;
  ReadChoice pattern_;
};

int serve(bool reads, int threads) {
  arithmetic_units();  // asks the system for the tile registers
  Worker worker(reads, threads);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << worker.answer(Json::parse(line)) << std::endl;
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  const int threads = argc == 3 ? std::atoi(argv[2]) : 0;
  if ((what != "read" && what != "arithmetic") || threads < 1) {
    std::cerr << "usage: roof_worker (read | arithmetic) THREADS\n";
    return 2;
  }
  try {
    return folio::bench::serve(what == "read", threads);
  } catch (const std::exception& error) {
    std::cerr << "roof_worker: " << error.what() << '\n';
    return 1;
  }
}
