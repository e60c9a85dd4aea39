// SPDX-License-Identifier: Apache-2.0
/// bench/pool_workload.cpp: requests, and pools full of them.
#include "pool_workload.h"

#include <algorithm>
#include <utility>

#include "support/random.h"

namespace folio::bench {
namespace {

/// Requests first .. first + count - 1, alive at once, a page at a time.
void grow_side_by_side(PagePool& pool, int64_t first, int64_t count,
                       const SequenceOptions& options) {
  struct Growing {
    SequenceId id;
    Tokens tokens;
  };
  std::vector<Growing> growing;
  for (int64_t i = 0; i < count; ++i) {
    Tokens tokens = request(first + i);
    const Admission a = pool.admit(tokens, options).value();
    growing.push_back({a.id, std::move(tokens)});
  }
  test::Rng rng(static_cast<uint64_t>(first));
  for (size_t page = 0; page < request_pages; ++page) {
    rng.shuffle(growing);
    for (const Growing& each : growing) {
      pool.reserve(each.id, page_size).or_throw();
      pool.commit(each.id, std::span(each.tokens).subspan(page * page_size, page_size)).or_throw();
    }
  }
  for (const Growing& each : growing) pool.release(each.id).or_throw();
}

}  // namespace

Tokens request(int64_t number) {
  test::Rng rng(static_cast<uint64_t>(number));
  Tokens tokens(request_tokens);
  for (TokenId& token : tokens) token = rng.int_between(0, 128'000);
  return tokens;
}

PoolOptions options_of(int64_t pages) {
  return {.num_pages = static_cast<uint32_t>(pages),
          .page_size = page_size,
          .max_sequences = most_side_by_side,
          .max_pages_per_sequence = request_pages + 1,
          .hash_seed = 1};  // ghosts are known by 32 bits of a hash
}

PagePool make_pool(const PoolOptions& options) {
  return std::move(PagePool::create(options)).value();
}

int32_t serve(PagePool& pool, std::span<const TokenId> prompt, CallTimes& times,
              const SequenceOptions& options) {
  const Admission a = timed(times.admit, [&] { return pool.admit(prompt, options); }).value();
  const auto missing = prompt.subspan(static_cast<size_t>(a.cached_tokens));
  timed(times.reserve, [&] {
    return pool.reserve(a.id, static_cast<int32_t>(missing.size()));
  }).or_throw();
  timed(times.commit, [&] { return pool.commit(a.id, missing); }).or_throw();
  timed(times.release, [&] { return pool.release(a.id); }).or_throw();
  return a.cached_tokens;
}

void fill(PagePool& pool, int64_t count, bool scattered, const SequenceOptions& options) {
  const int64_t step = scattered ? most_side_by_side : 1;
  CallTimes times;
  for (int64_t i = 0; i < count; i += step) {
    if (scattered)
      grow_side_by_side(pool, i, std::min(step, count - i), options);
    else
      serve(pool, request(i), times, options);
  }
}

void report(benchmark::State& state, const CallTimes& times, int64_t requests) {
  const auto per_page = [&](double seconds) {
    return benchmark::Counter(seconds * 1e9 / static_cast<double>(requests) / request_pages);
  };
  state.counters["admit_ns"] = per_page(times.admit);
  state.counters["reserve_ns"] = per_page(times.reserve);
  state.counters["commit_ns"] = per_page(times.commit);
  state.counters["release_ns"] = per_page(times.release);
  state.counters["page_ns"] = per_page(times.all());
}

}  // namespace folio::bench
