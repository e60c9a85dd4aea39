// SPDX-License-Identifier: Apache-2.0
/// bench/pool_growth_bench.cpp: what a page costs in larger pools, beside what memory of that size
/// costs; and a long prompt that is cached.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "pool_workload.h"
#include "support/random.h"

namespace folio::bench {
namespace {

constexpr int64_t small_pool = 10'000;

/// Dependent loads over `bytes`, of lines in a random cycle through all of them. Much memory asks
/// for large pages, as the pool's does (src/pool/pages/block.cpp).
class Chase {
 public:
  explicit Chase(size_t bytes) : lines_(take(bytes)) {
    const size_t count = bytes / sizeof(Line);
    test::Rng rng(1);
    for (size_t i = 0; i < count; ++i) lines_[i].next = i;
    for (size_t i = count - 1; i > 0; --i)  // Sattolo: one cycle
      std::swap(lines_[i].next, lines_[rng.next() % i].next);
  }

  /// Goes on for `steps` lines; returns the seconds that it took.
  double walk(int64_t steps) {
    double seconds = 0;
    here_ = timed(seconds, [&] {
      size_t at = here_;
      for (int64_t i = 0; i < steps; ++i) at = lines_[at].next;
      return at;
    });
    benchmark::DoNotOptimize(here_);
    return seconds;
  }

 private:
  struct alignas(64) Line {
    size_t next;
  };
  struct Free {
    void operator()(Line* lines) const { std::free(lines); }
  };
  using Lines = std::unique_ptr<Line[], Free>;

  static Lines take(size_t bytes) {
    constexpr size_t large_page = size_t{1} << 21;
    const bool is_large = bytes >= 4 * large_page;
    const size_t align = is_large ? large_page : alignof(Line);
    const size_t size = (bytes + align - 1) / align * align;
    void* const memory = std::aligned_alloc(align, size);
    if (memory == nullptr) std::abort();
    if (is_large) (void)::madvise(memory, size, MADV_HUGEPAGE);
    return Lines(static_cast<Line*>(memory));
  }

  Lines lines_;
  size_t here_ = 0;
};

/// A full pool, filled side by side, and a chase over as many bytes.
class Sized {
 public:
  explicit Sized(int64_t pages)
      : pool_(make_pool(options_of(pages))),
        chase_(static_cast<size_t>(PagePool::required_bytes(options_of(pages)).value())),
        count_(pages / request_pages - 2),
        fresh_(count_) {
    fill(pool_, count_, true);
    // what is left of free pages: from now on a miss evicts
    CallTimes times;
    while (pool_.stats().free_pages >= request_pages) serve(pool_, request(fresh_++), times);
  }

  /// Nanoseconds a page of some requests that are found.
  double hits(int64_t requests) {
    CallTimes times;
    for (int64_t i = 0; i < requests; ++i) {
      Tokens tokens = request(found_++ % count_);
      tokens.push_back(0);
      if (serve(pool_, tokens, times) != request_tokens) return -1;
    }
    return times.all() * 1e9 / static_cast<double>(requests) / request_pages;
  }
  /// The same of requests that are not found, and evict others.
  double misses(int64_t requests) {
    CallTimes times;
    for (int64_t i = 0; i < requests; ++i)
      if (serve(pool_, request(fresh_++), times) != 0) return -1;
    return times.all() * 1e9 / static_cast<double>(requests) / request_pages;
  }
  /// Nanoseconds a load.
  double chase(int64_t loads) { return chase_.walk(loads) * 1e9 / static_cast<double>(loads); }

 private:
  PagePool pool_;
  Chase chase_;
  int64_t count_, fresh_, found_ = 0;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Rounds of a small pool, a large one and their chases in turn, medians of them. Arguments: pages
/// of the large pool; whether pages are found, or are not and evict.
///
/// growth = large / small of a page; chase_growth = the same of a load; beyond_chase = the first
/// over the second. loads_more: how many of the loads that a large pool's memory costs more a page
/// costs more.
void growth(benchmark::State& state) {
  constexpr int64_t requests = 16, loads = requests * request_pages;
  // Before each turn, so that the small one is in the caches again: more than all of it.
  constexpr int64_t requests_before = 20, loads_before = 32'768;
  const bool are_found = state.range(1) != 0;
  Sized small(small_pool), large(state.range(0));
  std::vector<double> times[4];
  for (auto _ : state) {
    for (size_t i = 0; i < 2; ++i) {
      Sized& each = i == 0 ? small : large;
      const auto serve_some = [&](int64_t n) { return are_found ? each.hits(n) : each.misses(n); };
      serve_some(requests_before);
      times[i].push_back(serve_some(requests));
      if (times[i].back() < 0) return state.SkipWithError("another hit than expected");
      each.chase(loads_before);
      times[2 + i].push_back(each.chase(loads));
    }
  }
  const double page[] = {median(times[0]), median(times[1])},
               load[] = {median(times[2]), median(times[3])};
  state.counters["small_page_ns"] = page[0];
  state.counters["large_page_ns"] = page[1];
  state.counters["small_load_ns"] = load[0];
  state.counters["large_load_ns"] = load[1];
  state.counters["growth"] = page[1] / page[0];
  state.counters["chase_growth"] = load[1] / load[0];
  state.counters["beyond_chase"] = page[1] / page[0] / (load[1] / load[0]);
  state.counters["loads_more"] = (page[1] - page[0]) / (load[1] - load[0]);
}
BENCHMARK(growth)
    ->ArgNames({"pages", "found"})
    ->Args({100'000, 1})
    ->Args({1'000'000, 1})
    ->Args({10'000'000, 1})
    ->Args({100'000, 0})
    ->Args({1'000'000, 0})
    ->Args({10'000'000, 0})
    ->Iterations(101)
    ->Unit(benchmark::kMillisecond);

/// A prompt of 131,072 cached tokens and one more: 8,192 pages. Arguments: pages of the pool;
/// prompts taken in turn.
void cached_128k_prompt(benchmark::State& state) {
  constexpr int32_t parts = 16, tokens_of = parts * request_tokens;
  PoolOptions options = options_of(state.range(0));
  options.max_pages_per_sequence = parts * request_pages + 1;
  PagePool pool = make_pool(options);
  const int64_t count = state.range(1);
  const auto prompt = [](int64_t number) {
    Tokens tokens;
    for (int32_t i = 0; i < parts; ++i) {
      const Tokens part = request(number * parts + i);
      tokens.insert(tokens.end(), part.begin(), part.end());
    }
    tokens.push_back(0);
    return tokens;
  };
  CallTimes times;
  for (int64_t i = 0; i < count; ++i) serve(pool, prompt(i), times);
  times = {};
  int64_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const Tokens tokens = prompt(next++ % count);
    state.ResumeTiming();
    if (serve(pool, tokens, times) != tokens_of) return state.SkipWithError("a page was not found");
  }
  const double ms = 1e3 / static_cast<double>(state.iterations());
  state.counters["admit_ms"] = times.admit * ms;
  state.counters["served_ms"] = times.all() * ms;
}
BENCHMARK(cached_128k_prompt)
    ->ArgNames({"pages", "prompts"})
    ->Args({1 << 14, 1})
    ->Args({1 << 20, 120})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace folio::bench
