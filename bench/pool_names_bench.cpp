// SPDX-License-Identifier: Apache-2.0
/// bench/pool_names_bench.cpp: what a page name costs: nanoseconds per page of 16 tokens, alone and
/// asked of a pool whose pages have none yet.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/pool/page_pool.h"
#include "support/random.h"

namespace folio::bench {
namespace {

constexpr int32_t page_size = 16, request_pages = 512;

std::vector<TokenId> request(int64_t number) {
  test::Rng rng(static_cast<uint64_t>(number));
  std::vector<TokenId> tokens(size_t{page_size} * request_pages);
  for (TokenId& token : tokens) token = rng.int_between(0, 128'000);
  return tokens;
}

/// A chain: each name is the parent of the next.
void sha256_name(benchmark::State& state) {
  Sha256Names names = Sha256Names::create().value();
  const std::vector<TokenId> tokens = request(0);
  PageName name = names.root({}, 0).value();
  size_t page = 0;
  for (auto _ : state) {
    name = names.page(name, std::span(tokens).subspan(page * page_size, page_size)).value();
    page = (page + 1) % request_pages;
  }
  benchmark::DoNotOptimize(name);
}
BENCHMARK(sha256_name);

/// The cheapest function: what the pool itself takes.
Status first_tokens(void*, const PageContent& page, PageName* name) noexcept {
  name->bytes[0] = static_cast<uint8_t>(page.tokens[0]);
  return {};
}

/// All pages of requests that evict each other's, asked for by the last one's position. Argument:
/// pages of the pool.
void name_pages(benchmark::State& state, NameFunction function) {
  const int64_t pages = state.range(0), count = pages / request_pages + 1;
  PagePool pool = PagePool::create({.num_pages = static_cast<uint32_t>(pages),
                                    .page_size = page_size,
                                    .max_sequences = 8,
                                    .max_pages_per_sequence = request_pages,
                                    .name = function})
                      .value();
  std::vector<std::vector<TokenId>> requests;
  for (int64_t i = 0; i < count; ++i) requests.push_back(request(i));
  double seconds = 0;
  size_t next = 0;
  for (auto _ : state) {
    const Admission a = pool.admit(requests[next]).value();
    if (a.cached_tokens != 0) return state.SkipWithError("an evicted page was found");
    pool.reserve(a.id, page_size * request_pages).or_throw();
    pool.commit(a.id, requests[next]).or_throw();
    const auto start = std::chrono::steady_clock::now();
    const Result<PageName> name = pool.name(a.id, request_pages - 1);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    name.or_throw();
    pool.release(a.id).or_throw();
    next = next + 1 == requests.size() ? 0 : next + 1;
  }
  state.counters["name_ns"] =
      seconds * 1e9 / static_cast<double>(state.iterations()) / request_pages;
}

void names_by_sha256(benchmark::State& state) {
  Sha256Names names = Sha256Names::create().value();
  name_pages(state, names.function());
}
void names_by_nothing(benchmark::State& state) {
  name_pages(state, {.function = first_tokens, .context = nullptr});
}
BENCHMARK(names_by_sha256)->ArgNames({"pages"})->Arg(1 << 12)->Arg(1 << 18);
BENCHMARK(names_by_nothing)->ArgNames({"pages"})->Arg(1 << 12)->Arg(1 << 18);

}  // namespace
}  // namespace folio::bench
