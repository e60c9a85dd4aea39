// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_replay_test.cpp: request traces through the pool, one trace id per page,
/// against a naive LRU cache.
///
/// The rule: requests one after the other; hit = longest leading run of cached ids; then all ids of
/// the request are cached; the ids of a request age tail first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pool/pool_helpers.h"
#include "support/random.h"

namespace folio::test {
namespace {

struct Counts {
  int64_t lookups = 0, hits = 0, evictions = 0;
  bool operator==(const Counts&) const = default;
};

/// Requests that go on from beginnings of earlier ones. As in real traces an id stands for
/// everything up to it.
std::vector<Tokens> random_trace(Rng& rng, int32_t requests, int32_t longest) {
  std::vector<Tokens> trace;
  TokenId next = 0;
  for (int32_t r = 0; r < requests; ++r) {
    Tokens request;
    if (!trace.empty() && rng.chance(0.7)) {
      const Tokens& earlier = trace[static_cast<size_t>(rng.between(std::max(0, r - 30), r - 1))];
      request.assign(earlier.begin(),
                     earlier.begin() + rng.between(0, static_cast<int64_t>(earlier.size())));
    }
    const int64_t length = rng.between(1, longest);
    while (static_cast<int64_t>(request.size()) < length) request.push_back(next++);
    trace.push_back(std::move(request));
  }
  return trace;
}

Counts naive_replay(const std::vector<Tokens>& trace, size_t capacity) {
  Counts counts;
  Tokens cached;  // the next to go comes first
  for (const Tokens& request : trace) {
    size_t hit = 0;
    while (hit < request.size() &&
           std::find(cached.begin(), cached.end(), request[hit]) != cached.end())
      ++hit;
    for (const TokenId id : request) std::erase(cached, id);
    while (cached.size() + request.size() > capacity) {
      cached.erase(cached.begin());
      ++counts.evictions;
    }
    cached.insert(cached.end(), request.rbegin(), request.rend());
    counts.lookups += static_cast<int64_t>(request.size());
    counts.hits += static_cast<int64_t>(hit);
  }
  return counts;
}

Counts pool_replay(const std::vector<Tokens>& trace, size_t capacity) {
  PagePool pool =
      make_pool({.num_pages = static_cast<uint32_t>(capacity), .page_size = 1, .max_sequences = 1});
  for (const Tokens& request : trace) {
    // the token that a hit must leave: never reserved, never committed
    const Tokens prompt = request + Tokens{-1};
    const Admission a = pool.admit(prompt).value();
    feed(pool, a.id, {request.begin() + a.cached_tokens, request.end()});
    pool.release(a.id).or_throw();
  }
  expect_sound(pool);
  return {pool.stats().lookup_pages, pool.stats().hit_pages, pool.stats().evicted_pages};
}

TEST(PagePoolReplay, a_trace_in_page_per_block_mode_hits_and_evicts_what_an_lru_cache_does) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    const std::vector<Tokens> trace = random_trace(rng, 300, 25);
    for (const size_t capacity : {25U, 40U, 100U, 700U, 10000U}) {
      const Counts expected = naive_replay(trace, capacity), counts = pool_replay(trace, capacity);
      EXPECT_EQ(counts.lookups, expected.lookups) << "round " << round << ", capacity " << capacity;
      EXPECT_EQ(counts.hits, expected.hits) << "round " << round << ", capacity " << capacity;
      EXPECT_EQ(counts.evictions, expected.evictions)
          << "round " << round << ", capacity " << capacity;
    }
  }
}

TEST(PagePoolReplay, a_pool_as_large_as_the_longest_request_is_enough) {
  EXPECT_EQ(pool_replay({{1, 2, 3}, {1, 2, 4}, {5}}, 3), (Counts{7, 2, 2}));
}

TEST(PagePoolReplay, a_pool_smaller_than_a_request_is_out_of_pages_and_goes_on) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 1, .max_pages_per_sequence = 9});
  pool.release(prefill(pool, {1, 2})).or_throw();
  const Admission a = pool.admit(Tokens{1, 2, 3, 4, -1}).value();
  EXPECT_EQ(a.cached_tokens, 2);
  EXPECT_EQ(pool.reserve(a.id, 2).code(), Errc::out_of_pages);
  pool.release(a.id).or_throw();
  EXPECT_EQ(pool.peek(Tokens{1, 2, -1}), 2);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
