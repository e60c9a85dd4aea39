// SPDX-License-Identifier: Apache-2.0
/// bench/tier_manager_bench.cpp: what a CacheManager costs where its tiers have nothing to do: the
/// pool's calls alone, and the same through a manager.
///
/// Argument `through`: 0 the pool itself, 1 a manager without tiers, 2 one over an empty host tier
/// that is never written, 3 one over a host tier that is written when sequences end (a page that
/// it has is not stored again).
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/host_tier.h"
#include "pool_workload.h"

namespace folio::bench {
namespace {

constexpr int32_t sequences = 64, layers = 32;
constexpr uint32_t pages = 1 << 15;

/// A pool, small pages of 32 layers, and what `through` says.
class Engine {
 public:
  explicit Engine(int64_t through)
      : names_(Sha256Names::create().value()),
        pool_(std::move(PagePool::create({.num_pages = pages,
                                          .page_size = page_size,
                                          .max_sequences = sequences + 1,
                                          .max_pages_per_sequence = request_pages + 1,
                                          .hash_seed = 1,
                                          .name = names_.function(),
                                          .max_io_pins = pages}))
                  .value()) {
    if (through == 0) return;
    const KVShape shape{
        .num_layers = layers, .num_heads = 1, .head_size = 2, .page_size = page_size};
    memory_.resize(static_cast<size_t>(page_bytes(shape).value()) * pages);
    const auto planes =
        make_planes(shape, pages,
                    {.data = memory_.data(), .bytes = static_cast<int64_t>(memory_.size())})
            .value();
    tier_ = make_host_tier({.max_bytes = int64_t{1} << 30}).value();
    const TierOfCache tier{.tier = tier_.get(),
                           .policy = through == 2 ? StorePolicy::none : StorePolicy::write_back};
    manager_ = CacheManager::create({.pool = &pool_,
                                     .name = names_.function(),
                                     .planes = planes,
                                     .tiers = {&tier, through == 1 ? size_t{0} : size_t{1}}})
                   .value();
  }

  PagePool& pool() { return pool_; }
  SequenceId admit(const Tokens& prompt) {
    return manager_ ? manager_->admit(prompt)->id : pool_.admit(prompt)->id;
  }
  void commit(SequenceId id, std::span<const TokenId> tokens) {
    (manager_ ? manager_->commit(id, tokens) : pool_.commit(id, tokens)).or_throw();
  }
  void release(SequenceId id) { (manager_ ? manager_->release(id) : pool_.release(id)).or_throw(); }
  void poll() {
    if (manager_) manager_->poll();
  }
  void settle() {
    while (manager_ && manager_->figures().stores != 0) manager_->poll();
  }

 private:
  Sha256Names names_;
  PagePool pool_;
  std::vector<std::byte> memory_;
  std::unique_ptr<Tier> tier_;
  std::optional<CacheManager> manager_;
};

/// A step of 64 sequences that decode: each reserves and commits one token. Every 16th makes a page
/// full.
void decode_step(benchmark::State& state) {
  Engine engine(state.range(0));
  std::vector<SequenceId> ids;
  const auto begin = [&] {
    ids.clear();
    for (int64_t s = 0; s < sequences; ++s) {
      Tokens prompt = request(s);
      prompt.resize(1024);
      ids.push_back(engine.admit(prompt));
      const auto rest =
          std::span(prompt).subspan(static_cast<size_t>(engine.pool().length(ids.back()).value()));
      engine.pool().reserve(ids.back(), static_cast<int32_t>(rest.size())).or_throw();
      engine.commit(ids.back(), rest);
    }
  };
  begin();
  int32_t step = 0;
  for (auto _ : state) {
    for (const SequenceId id : ids) {
      engine.pool().reserve(id, 1).or_throw();
      const TokenId token = step;
      engine.commit(id, {&token, 1});
    }
    engine.poll();
    if (++step < request_tokens - 1024) continue;
    state.PauseTiming();
    for (const SequenceId id : ids) engine.release(id);
    engine.settle();
    step = 0;
    begin();
    state.ResumeTiming();
  }
}
BENCHMARK(decode_step)->ArgName("through")->DenseRange(0, 3);

/// Requests of 512 pages that memory has: admit and release, and a poll.
void warm_request(benchmark::State& state) {
  Engine engine(state.range(0));
  Tokens prompt = request(0);
  prompt.push_back(0);
  for (auto _ : state) {
    const SequenceId id = engine.admit(prompt);
    const int32_t length = engine.pool().length(id).value();
    if (length < request_tokens) {  // the first one
      const auto rest = std::span(prompt).subspan(static_cast<size_t>(length));
      engine.pool().reserve(id, static_cast<int32_t>(rest.size())).or_throw();
      engine.commit(id, rest);
    }
    engine.release(id);
    engine.poll();
  }
}
BENCHMARK(warm_request)->ArgName("through")->DenseRange(0, 3);

/// Requests of 512 pages that nobody has: admit, reserve, commit, release, and a poll. Not of a
/// tier that is written: then the tier has to do.
void cold_request(benchmark::State& state) {
  Engine engine(state.range(0));
  std::vector<Tokens> prompts;
  for (int64_t i = 0; i <= pages / request_pages; ++i) prompts.push_back(request(i));
  size_t next = 0;
  for (auto _ : state) {
    const SequenceId id = engine.admit(prompts[next]);
    engine.pool().reserve(id, request_tokens).or_throw();
    engine.commit(id, prompts[next]);
    engine.release(id);
    engine.poll();
    next = next + 1 == prompts.size() ? 0 : next + 1;
  }
}
BENCHMARK(cold_request)->ArgName("through")->DenseRange(0, 2);

}  // namespace
}  // namespace folio::bench

BENCHMARK_MAIN();
