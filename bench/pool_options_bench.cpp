// SPDX-License-Identifier: Apache-2.0
/// bench/pool_options_bench.cpp: what a page costs under each eviction policy and option, in pools
/// that are full: found by a prompt, or not found and in the place of another.
///
/// `scattered` says how the pool was filled (pool_workload.h). Prompts are made anew for each
/// request, outside the timing: they are in the caches, as they are where text has just become
/// tokens; requests in turn are not.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "pool_workload.h"

namespace folio::bench {
namespace {

struct OptionSet {
  std::string name;
  void (*turn_on)(PoolOptions&);
  bool asks_to_be_kept = false;
  Eviction eviction = Eviction::lru;
};

void keep(PoolOptions& options) { options.max_retention_ms = 3'600'000; }
void tell(PoolOptions& options) { options.event_capacity = 1 << 16; }
void copy(PoolOptions& options) { options.min_partial_tokens = 4; }
void watch(PoolOptions& options) { options.readers = options.histograms = true; }
void show(PoolOptions& options) { options.max_spans = 1024; }
/// All but names, which are computed when they are asked for.
void everything(PoolOptions& options) {
  for (const auto turn_on : {keep, tell, copy, watch, show}) turn_on(options);
}

/// Every policy alone, then options.
std::vector<OptionSet> option_sets() {
  std::vector<OptionSet> sets;
  for (size_t i = 0; i < std::size(pool::eviction_names); ++i) {
    sets.push_back({.name = std::string(pool::eviction_names[i]),
                    .turn_on = [](PoolOptions&) {},
                    .eviction = static_cast<Eviction>(i)});
  }
  sets.insert(sets.end(), {{"lru_retention", keep, true},
                           {"lru_events", tell},
                           {"lru_partial_hits", copy},
                           {"lru_statistics", watch},
                           {"lru_items", show},
                           {"lru_everything", everything, true}});
  return sets;
}

PoolOptions options_with(const OptionSet& set, int64_t pages) {
  PoolOptions options = options_of(pages);
  options.eviction = set.eviction;
  set.turn_on(options);
  return options;
}

SequenceOptions asked(const OptionSet& set) {
  static constexpr RetentionRange ranges[] = {{.level = 50}};
  return set.asks_to_be_kept ? SequenceOptions{.retention = ranges} : SequenceOptions{};
}

/// Every page of every request is found. Arguments: pages of the pool, how it was filled.
void hits(benchmark::State& state, const OptionSet& set) {
  const int64_t count = state.range(0) / request_pages - 2;
  const SequenceOptions options = asked(set);
  PagePool pool = make_pool(options_with(set, state.range(0)));
  fill(pool, count, state.range(1) != 0, options);
  CallTimes times;
  int64_t next = 0;
  for (auto _ : state) {
    Tokens tokens = request(next++ % count);
    tokens.push_back(0);  // so that a hit may cover all pages
    if (serve(pool, tokens, times, options) != request_tokens)
      return state.SkipWithError("a page was not found");
  }
  report(state, times, state.iterations());
}

/// No page is found, and each page of a request evicts one. Arguments: as of hits.
void misses(benchmark::State& state, const OptionSet& set) {
  const int64_t count = state.range(0) / request_pages;
  const SequenceOptions options = asked(set);
  PagePool pool = make_pool(options_with(set, state.range(0)));
  fill(pool, count, state.range(1) != 0, options);
  CallTimes times;
  int64_t next = count;  // never one that was served before: nobody knows it, ghosts included
  const int64_t evicted = pool.stats().evicted_pages;
  for (auto _ : state) {
    if (serve(pool, request(next++), times, options) != 0)
      return state.SkipWithError("a page of another request was found");
  }
  if (pool.stats().evicted_pages - evicted != (next - count) * request_pages)
    return state.SkipWithError("a request did not evict its number of pages");
  report(state, times, state.iterations());
}

/// Bytes of the pool beside its pages' tokens, without the table of sequences: per page, at the
/// worst and the best number of pages up to 2^20 (the index grows by doubling).
void bytes(benchmark::State& state, const OptionSet& set) {
  const auto per_page = [&](int64_t pages) {
    const int64_t all = PagePool::required_bytes(options_with(set, pages)).value();
    const int64_t fixed = PagePool::required_bytes(options_with(set, 1)).value();
    return static_cast<double>(all - fixed) / static_cast<double>(pages - 1) -
           double{page_size} * sizeof(TokenId);
  };
  for (auto _ : state) benchmark::DoNotOptimize(per_page(1 << 20));
  state.counters["least_bytes"] = per_page(1 << 20);
  state.counters["most_bytes"] = per_page((1 << 19) + 1);
}

const bool registered = [] {
  for (const OptionSet& set : option_sets()) {
    const auto add = [&](const char* what, auto function) {
      return benchmark::RegisterBenchmark((std::string(what) + "/" + set.name).c_str(), function,
                                          set);
    };
    for (const auto& [what, function] : {std::pair("hits", &hits), std::pair("misses", &misses)})
      add(what, function)
          ->ArgNames({"pages", "scattered"})
          ->Args({1 << 12, 0})
          ->Args({1 << 18, 0})
          ->Args({1 << 20, 0})
          ->Args({1 << 20, 1})
          ->Iterations(512);  // as many pages as in 2^18: filling takes longer
    add("bytes", bytes);
  }
  return true;
}();

}  // namespace
}  // namespace folio::bench
