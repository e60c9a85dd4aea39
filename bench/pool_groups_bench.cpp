// SPDX-License-Identifier: Apache-2.0
/// bench/pool_groups_bench.cpp: what groups of a hybrid model cost: nanoseconds a page of the
/// leading group, with all that the other groups do for its 16 tokens.
///
/// Arenas have room for 512 requests of 512 pages each (2^18 leading pages) if every group kept
/// all; a pool without groups has as many pages. Requests are admitted whole and computed in steps
/// of 2,048 tokens, so that windows move and pages behind them are given back.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pool_workload.h"

namespace folio::bench {
namespace {

constexpr int32_t step_tokens = 2048;
constexpr int64_t requests_kept = 512;

struct Shape {
  const char* name;
  std::vector<GroupOptions> groups;
};

constexpr int64_t layer_bytes = 65'536;  // of a page: K and V of 8 heads of 128, 2 bytes each
constexpr GroupOptions full(int64_t layers) { return {.page_bytes = layers * layer_bytes}; }
constexpr GroupOptions window(int64_t layers, int32_t tokens) {
  return {.rule = GroupRule::window, .page_bytes = layers * layer_bytes, .window = tokens};
}

const Shape shapes[] = {
    {"no_groups", {}},
    {"full_alone", {full(32)}},
    {"full_and_window_128", {full(12), window(12, 128)}},
    {"full_and_window_1024", {full(8), window(40, 1024)}},
    {"full_and_chunked_8192",
     {full(12), {.rule = GroupRule::chunked, .page_bytes = 36 * layer_bytes, .chunk = 8192}}},
    {"full_and_states_512",
     {full(4), {.rule = GroupRule::state, .page_bytes = 28 * layer_bytes, .checkpoint = 512}}},
};

int64_t bytes_of_request(const Shape& shape) {
  int64_t bytes = 0;
  for (const GroupOptions& group : shape.groups) {
    const int32_t tokens = group.rule == GroupRule::state ? group.checkpoint : page_size;
    bytes += group.page_bytes * (request_tokens / tokens + 1);
  }
  return bytes;
}

PagePool pool_of(const Shape& shape) {
  if (shape.groups.empty()) return make_pool(options_of(requests_kept * (request_pages + 1)));
  PoolOptions options = options_of(0);
  options.groups = shape.groups;
  options.arena_bytes = requests_kept * bytes_of_request(shape);
  return make_pool(options);
}

/// As `serve`, in steps.
int32_t serve_in_steps(PagePool& pool, std::span<const TokenId> prompt, CallTimes& times) {
  const Admission a = timed(times.admit, [&] { return pool.admit(prompt); }).value();
  auto missing = prompt.subspan(static_cast<size_t>(a.cached_tokens));
  while (!missing.empty()) {
    const auto step = missing.first(std::min(missing.size(), size_t{step_tokens}));
    timed(times.reserve, [&] {
      return pool.reserve(a.id, static_cast<int32_t>(step.size()));
    }).or_throw();
    timed(times.commit, [&] { return pool.commit(a.id, step); }).or_throw();
    missing = missing.subspan(step.size());
  }
  timed(times.release, [&] { return pool.release(a.id); }).or_throw();
  return a.cached_tokens;
}

/// All of each request is found.
void group_hits(benchmark::State& state, const Shape& shape) {
  PagePool pool = pool_of(shape);
  CallTimes times;
  constexpr int64_t count = requests_kept - 2;
  for (int64_t i = 0; i < count; ++i) serve_in_steps(pool, request(i), times);
  times = {};
  int64_t next = 0;
  for (auto _ : state) {
    Tokens tokens = request(next++ % count);
    tokens.push_back(0);  // so that a hit may cover all pages
    if (serve_in_steps(pool, tokens, times) != request_tokens)
      return state.SkipWithError("a page was not found");
  }
  report(state, times, state.iterations());
}

/// Nothing is found in a pool that is full: `evicted` pages, of all groups, go for each request.
void group_misses(benchmark::State& state, const Shape& shape) {
  PagePool pool = pool_of(shape);
  CallTimes times;
  const auto evicted = [&] {
    int64_t sum = 0;
    for (uint32_t g = 0; g < pool.num_groups(); ++g) sum += pool.group(g).value().evicted_pages;
    return sum;
  };
  int64_t next = 0;
  while (next < 4 * requests_kept) serve_in_steps(pool, request(next++), times);
  times = {};
  const int64_t before = evicted();
  for (auto _ : state) {
    if (serve_in_steps(pool, request(next++), times) != 0)
      return state.SkipWithError("a page of another request was found");
  }
  report(state, times, state.iterations());
  state.counters["evicted"] =
      static_cast<double>(evicted() - before) / static_cast<double>(state.iterations());
}

const bool registered = [] {
  for (const Shape& shape : shapes)
    for (const auto& [what, function] :
         {std::pair("group_hits", &group_hits), std::pair("group_misses", &group_misses)})
      benchmark::RegisterBenchmark((std::string(what) + "/" + shape.name).c_str(), function, shape)
          ->Iterations(512);
  return true;
}();

}  // namespace
}  // namespace folio::bench
