// SPDX-License-Identifier: Apache-2.0
/// bench/pool_workload.h: what the benchmarks of the page pool share: requests of 512 pages of 16
/// tokens, pools that are full of them, and the time that each call takes.
#pragma once

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::bench {

using Tokens = std::vector<TokenId>;

inline constexpr int32_t page_size = 16, request_pages = 512;
inline constexpr int32_t request_tokens = page_size * request_pages;
/// Of requests that are served side by side when a pool is filled "scattered".
inline constexpr int32_t most_side_by_side = 256;

/// The tokens of request `number`: random, the same for every call. No two begin alike.
Tokens request(int64_t number);

/// With room for requests of one token more; LRU and nothing else on.
PoolOptions options_of(int64_t pages);
PagePool make_pool(const PoolOptions& options);

/// Seconds spent in each call.
struct CallTimes {
  double admit = 0, reserve = 0, commit = 0, release = 0;
  [[nodiscard]] double all() const { return admit + reserve + commit + release; }
};

template <class Call>
auto timed(double& seconds, const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  auto result = call();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

/// Serves one request; returns the tokens that were cached.
int32_t serve(PagePool& pool, std::span<const TokenId> prompt, CallTimes& times,
              const SequenceOptions& options = {});

/// Serves requests 0 .. count - 1 in a pool that has room for them all. In order, a request has
/// pages that lie behind one another; `scattered`, up to 256 requests grow side by side, a page at
/// a time and in a random order, as they do in an engine that decodes.
void fill(PagePool& pool, int64_t count, bool scattered, const SequenceOptions& options = {});

/// The counters of `requests` requests of 512 pages: nanoseconds a page, of each call and of all.
void report(benchmark::State& state, const CallTimes& times, int64_t requests);

}  // namespace folio::bench
