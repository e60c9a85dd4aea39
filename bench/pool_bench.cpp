// SPDX-License-Identifier: Apache-2.0
/// bench/pool_bench.cpp: what the page pool costs: nanoseconds per page of each call, and of
/// replayed request loads.
///
/// The calls are timed on requests of 512 pages of 16 tokens, one call at a time, in a pool of the
/// given number of pages whose contents fill it ("hot": the same few requests, in the caches;
/// "cold": all of them in turn). A request load has the shape of a conversation trace: requests go
/// on from earlier ones, one trace id is one page.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/pool/page_pool.h"
#include "support/random.h"

namespace folio::bench {
namespace {

using Tokens = std::vector<TokenId>;

constexpr int32_t page_size = 16, request_pages = 512, request_tokens = page_size * request_pages;

Tokens request(int64_t number) {
  test::Rng rng(static_cast<uint64_t>(number));
  Tokens tokens(request_tokens);
  for (TokenId& token : tokens) token = rng.int_between(0, 128'000);
  return tokens;
}

PagePool make_pool(int64_t pages, Eviction eviction = Eviction::lru) {
  return std::move(PagePool::create({.num_pages = static_cast<uint32_t>(pages),
                                     .page_size = page_size,
                                     .max_sequences = 8,
                                     .max_pages_per_sequence = request_pages + 1,
                                     .hash_seed = 1,  // ghosts are known by 32 bits of a hash
                                     .eviction = eviction}))
      .value();
}

/// Time spent in each call, in pages of one request.
struct CallTimes {
  double admit = 0, reserve = 0, commit = 0, release = 0;
};

template <class Call>
auto timed(double& seconds, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  auto result = call();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// Serves one request; returns the tokens that were cached.
int32_t serve(PagePool& pool, std::span<const TokenId> prompt, CallTimes& times) {
  const Admission a = timed(times.admit, [&] { return pool.admit(prompt); }).value();
  const auto missing = prompt.subspan(static_cast<size_t>(a.cached_tokens));
  timed(times.reserve, [&] {
    return pool.reserve(a.id, static_cast<int32_t>(missing.size()));
  }).or_throw();
  timed(times.commit, [&] { return pool.commit(a.id, missing); }).or_throw();
  timed(times.release, [&] { return pool.release(a.id); }).or_throw();
  return a.cached_tokens;
}

void report(benchmark::State& state, const CallTimes& times) {
  const auto per_page = [&](double seconds) {
    return benchmark::Counter(seconds * 1e9 / static_cast<double>(state.iterations()) /
                              request_pages);
  };
  state.counters["admit_ns"] = per_page(times.admit);
  state.counters["reserve_ns"] = per_page(times.reserve);
  state.counters["commit_ns"] = per_page(times.commit);
  state.counters["release_ns"] = per_page(times.release);
  state.counters["page_ns"] = per_page(times.admit + times.reserve + times.commit + times.release);
}

/// Every page of every request is found. Arguments: pages of the pool, requests taken in turn.
template <Eviction Policy>
void hits_of(benchmark::State& state) {
  PagePool pool = make_pool(state.range(0), Policy);
  std::vector<Tokens> requests;
  CallTimes times;
  for (int64_t i = 0; i < state.range(1); ++i) {
    requests.push_back(request(i));
    serve(pool, requests.back(), times);
    requests.back().push_back(0);  // so that a hit may cover all pages
  }
  times = {};
  size_t next = 0;
  for (auto _ : state) {
    const int32_t hit = serve(pool, requests[next], times);
    if (hit != request_tokens) return state.SkipWithError("a page was not found");
    next = next + 1 == requests.size() ? 0 : next + 1;
  }
  report(state, times);
}
void all_hits(benchmark::State& state) { hits_of<Eviction::lru>(state); }
void s3_fifo_hits(benchmark::State& state) { hits_of<Eviction::s3_fifo>(state); }
void lfu_hits(benchmark::State& state) { hits_of<Eviction::lfu>(state); }
BENCHMARK(all_hits)
    ->ArgNames({"pages", "requests"})
    ->Args({1 << 12, 4})
    ->Args({1 << 18, 4})
    ->Args({1 << 18, 510})
    ->Args({1 << 20, 2040});
BENCHMARK(s3_fifo_hits)->ArgNames({"pages", "requests"})->Args({1 << 12, 4})->Args({1 << 18, 510});
BENCHMARK(lfu_hits)->ArgNames({"pages", "requests"})->Args({1 << 12, 4})->Args({1 << 18, 510});

/// No page is found, and each page of a request evicts one. Arguments: pages of the pool.
template <Eviction Policy>
void misses_of(benchmark::State& state) {
  PagePool pool = make_pool(state.range(0), Policy);
  // one more than fit: by its next turn a request is evicted, and is not among the ghosts, either
  const int64_t fit = state.range(0) / request_pages;
  const int64_t count = (Policy == Eviction::s3_fifo ? 3 * fit : fit) + 1;
  std::vector<Tokens> requests;
  CallTimes times;
  for (int64_t i = 0; i < count; ++i) serve(pool, requests.emplace_back(request(i)), times);
  times = {};
  size_t next = 0;
  const int64_t evicted = pool.stats().evicted_pages;
  for (auto _ : state) {
    const int32_t hit = serve(pool, requests[next], times);
    if (hit != 0) return state.SkipWithError("an evicted page was found");
    next = next + 1 == requests.size() ? 0 : next + 1;
  }
  if (pool.stats().evicted_pages - evicted !=
      int64_t{request_pages} * static_cast<int64_t>(state.iterations())) {
    state.SkipWithError("a request did not evict its number of pages");
  }
  report(state, times);
}
void all_misses(benchmark::State& state) { misses_of<Eviction::lru>(state); }
void s3_fifo_misses(benchmark::State& state) { misses_of<Eviction::s3_fifo>(state); }
void lfu_misses(benchmark::State& state) { misses_of<Eviction::lfu>(state); }
BENCHMARK(all_misses)->ArgNames({"pages"})->Arg(1 << 12)->Arg(1 << 18)->Arg(1 << 20);
BENCHMARK(s3_fifo_misses)->ArgNames({"pages"})->Arg(1 << 12)->Arg(1 << 18);
BENCHMARK(lfu_misses)->ArgNames({"pages"})->Arg(1 << 12)->Arg(1 << 18);

/// Prompts of two pages that find the first one and, if `range(1)`, 12 tokens of the second, which
/// are given by a copy. Arguments: pages of the pool, all cached; whether hits end inside a page.
/// The figures are per request.
void partial_hits(benchmark::State& state) {
  const bool is_partial = state.range(1) != 0;
  PagePool pool = std::move(PagePool::create({.num_pages = static_cast<uint32_t>(state.range(0)),
                                              .page_size = page_size,
                                              .max_sequences = 8,
                                              .hash_seed = 1,
                                              .min_partial_tokens = is_partial ? 4 : 0}))
                      .value();
  constexpr int32_t shared = page_size + 12;
  std::vector<TokenId> prompt(2 * page_size);
  const auto count = static_cast<int32_t>(state.range(0) / 2 - 4);  // and some that are free
  const auto become = [&](int32_t number, TokenId last) {
    for (size_t i = 0; i < prompt.size(); ++i)
      prompt[i] = i < shared ? number * page_size + static_cast<int32_t>(i % page_size) : last;
  };
  CallTimes times;
  for (int32_t i = 0; i < count; ++i) {
    become(i, -1);
    serve(pool, prompt, times);
  }
  times = {};
  double copies = 0;
  int32_t next = 0;
  for (auto _ : state) {
    become(next, -2);
    const Admission a = timed(times.admit, [&] { return pool.admit(prompt); }).value();
    if (a.cached_tokens != (is_partial ? shared : page_size))
      return state.SkipWithError("another hit than expected");
    timed(copies, [&] { return pool.take_copies(); });
    timed(times.release, [&] { return pool.release(a.id); }).or_throw();
    next = next + 1 == count ? 0 : next + 1;
  }
  const double per_request = 1e9 / static_cast<double>(state.iterations());
  state.counters["admit_ns"] = times.admit * per_request;
  state.counters["copies_ns"] = copies * per_request;
  state.counters["release_ns"] = times.release * per_request;
}
BENCHMARK(partial_hits)
    ->ArgNames({"pages", "partial"})
    ->Args({1 << 12, 0})
    ->Args({1 << 12, 1})
    ->Args({1 << 18, 0})
    ->Args({1 << 18, 1});

/// Decode: one token at a time in 64 sequences. The figure is per token.
void decode(benchmark::State& state) {
  constexpr int32_t batch = 64;
  PagePool pool =
      std::move(
          PagePool::create({.num_pages = 1 << 16, .page_size = page_size, .max_sequences = batch}))
          .value();
  std::vector<SequenceId> ids;
  ids.reserve(batch);
  for (int32_t i = 0; i < batch; ++i) ids.push_back(pool.admit(std::span(&i, 1)).value().id);
  TokenId token = 0;
  double seconds = 0;
  const auto step = [&] {
    ++token;
    for (const SequenceId id : ids) {
      if (pool.reserve(id, 1).is_ok()) continue;
      pool.trim(id, 0).or_throw();
      pool.reserve(id, 1).or_throw();
    }
    const StepTicket ticket = pool.begin_step(ids).value();
    for (const SequenceId id : ids) pool.commit(id, std::span(&token, 1)).or_throw();
    return pool.end_step(ticket);
  };
  for (auto _ : state) timed(seconds, step).or_throw();
  state.counters["token_ns"] = seconds * 1e9 / static_cast<double>(state.iterations()) / batch;
}
BENCHMARK(decode);

/// Requests that go on from beginnings of earlier ones, about 24 pages each; an id stands for
/// everything up to it.
std::vector<Tokens> request_load(int64_t requests) {
  test::Rng rng(1);
  std::vector<Tokens> load;
  TokenId next = 0;
  for (int64_t r = 0; r < requests; ++r) {
    Tokens ids{0};
    if (r > 0 && rng.chance(0.5))
      ids = load[static_cast<size_t>(rng.between(r > 2000 ? r - 2000 : 0, r - 1))];
    if (ids.size() > 1) ids.resize(ids.size() - 1);
    for (int64_t more = rng.between(1, 30); more > 0; --more) ids.push_back(++next);
    ids.push_back(-1);  // never reserved: a hit leaves one token
    load.push_back(std::move(ids));
  }
  return load;
}

int64_t serve_all(PagePool& pool, const std::vector<Tokens>& load) {
  for (const Tokens& ids : load) {
    const Admission a = pool.admit(ids).value();
    const auto missing =
        std::span(ids).first(ids.size() - 1).subspan(static_cast<size_t>(a.cached_tokens));
    pool.reserve(a.id, static_cast<int32_t>(missing.size())).or_throw();
    pool.commit(a.id, missing).or_throw();
    pool.release(a.id).or_throw();
  }
  return pool.stats().hit_pages;
}

/// 12,000 requests one after the other. Argument: pages of the pool.
void replay(benchmark::State& state) {
  const std::vector<Tokens> load = request_load(12'000);
  int64_t pages = 0, hits = -1;
  for (const Tokens& ids : load) pages += static_cast<int64_t>(ids.size()) - 1;
  double seconds = 0;
  for (auto _ : state) {
    PagePool pool = std::move(PagePool::create({.num_pages = static_cast<uint32_t>(state.range(0)),
                                                .page_size = 1,
                                                .max_sequences = 1,
                                                .max_pages_per_sequence = 2000}))
                        .value();
    const int64_t found = timed(seconds, [&] { return serve_all(pool, load); });
    if (hits >= 0 && hits != found) return state.SkipWithError("the same load had other hits");
    hits = found;
  }
  state.counters["page_ns"] =
      seconds * 1e9 / static_cast<double>(state.iterations()) / static_cast<double>(pages);
  state.counters["replay_ms"] = seconds * 1e3 / static_cast<double>(state.iterations());
  state.counters["hit_rate"] = static_cast<double>(hits) / static_cast<double>(pages);
}
BENCHMARK(replay)->ArgNames({"pages"})->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace folio::bench

BENCHMARK_MAIN();
