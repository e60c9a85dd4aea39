// SPDX-License-Identifier: Apache-2.0
/// bench/names_bench.cpp: what a page's name costs, in a chain of pages. Argument: tokens of one.
#include <benchmark/benchmark.h>

#include <vector>

#include "names/page_name.h"
#include "support/random.h"

namespace folio::bench {
namespace {

void name_of_a_page(benchmark::State& state) {
  test::Rng rng(1);
  std::vector<TokenId> tokens(static_cast<size_t>(state.range(0)));
  for (TokenId& token : tokens) token = rng.int_between(0, 128'000);
  names::Digest name = names::root_name({}).value();
  for (auto _ : state) {
    name = names::page_name(name, tokens).value();
    benchmark::DoNotOptimize(name);
  }
}
BENCHMARK(name_of_a_page)->ArgName("tokens")->Arg(16)->Arg(64)->Arg(256);

}  // namespace
}  // namespace folio::bench

BENCHMARK_MAIN();
