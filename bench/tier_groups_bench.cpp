// SPDX-License-Identifier: Apache-2.0
/// bench/tier_groups_bench.cpp: what pools of several groups cost below memory: a prompt of 8,192
/// tokens that a host tier has, and memory has not.
///
/// `admit_below`: the manager's admit alone, over pages of a few hundred bytes. `load_below`: from
/// admit until all is there, pages of at least 64 KiB, beside `load_of_tier`: the tier loads the
/// same pages without pool and manager. Bytes per second are of what was loaded.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/host_tier.h"
#include "pool_workload.h"

namespace folio::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Layers of each group; the first one leads and is full.
struct Shape {
  const char* name;
  struct Layers {
    int32_t layers;
    GroupOptions rule = {};
  };
  std::vector<Layers> groups;
};
const Shape shapes[] = {
    {"no_groups", {{6}}},
    {"full_and_window_128", {{3}, {3, {.rule = GroupRule::window, .window = 128}}}},
    {"full_and_window_1024", {{1}, {5, {.rule = GroupRule::window, .window = 1024}}}},
    {"full_and_chunked_8192", {{2}, {4, {.rule = GroupRule::chunked, .chunk = 8192}}}},
    {"full_and_states_512", {{2}, {4, {.rule = GroupRule::state, .checkpoint = 512}}}},
};

/// A pool whose arena has room for two requests, over a host tier that has room for all.
class Engine {
 public:
  Engine(const Shape& shape, int32_t head_size) : names_(Sha256Names::create().value()) {
    int64_t slab = 1, request_bytes = 0;
    for (const Shape::Layers& of : shape.groups) {
      groups_.push_back(of.rule);
      groups_.back().page_bytes = page_bytes(kv_shape(of.layers, head_size)).value();
      slab = std::lcm(slab, groups_.back().page_bytes);
      const bool is_state = of.rule.rule == GroupRule::state;
      request_bytes += groups_.back().page_bytes *
                       (request_tokens / (is_state ? of.rule.checkpoint : page_size) + 2);
    }
    const int64_t arena = (2 * request_bytes + slab - 1) / slab * slab;
    arena_ = Buffer::allocate(arena).value();
    std::memset(arena_.span().data, 1, static_cast<size_t>(arena));  // no first touch is timed
    PoolOptions options = options_of(0);
    options.groups = groups_;
    options.arena_bytes = arena;
    options.name = names_.function();
    options.max_io_pins = 1 << 14;
    if (groups_.size() == 1) {
      options.groups = {};
      options.arena_bytes = 0;
      options.num_pages = static_cast<uint32_t>(arena / groups_[0].page_bytes);
    }
    pool_ = std::make_unique<PagePool>(std::move(PagePool::create(options)).value());
    tier_ = make_host_tier({.max_bytes = 4 * arena + (int64_t{64} << 20)}).value();
    add_layers(shape, head_size);
    const TierOfCache tier{.tier = tier_.get(), .policy = StorePolicy::write_through};
    manager_ = std::make_unique<CacheManager>(
        std::move(CacheManager::create({.pool = pool_.get(),
                                        .name = names_.function(),
                                        .planes = groups_.size() == 1 ? planes_[0] : no_planes,
                                        .groups = of_cache_,
                                        .tiers = {&tier, 1},
                                        .load_deadline_ms = 0}))
            .value());
  }

  /// Computed once, so that the tier has it; then memory has nothing.
  void put_below(const Tokens& prompt) {
    const SequenceId id = manager_->admit(prompt)->id;
    std::span<const TokenId> rest = prompt;
    while (rest.size() > 1) {
      const auto step = rest.first(std::min<size_t>(rest.size() - 1, 512));
      pool_->reserve(id, static_cast<int32_t>(step.size())).or_throw();
      manager_->commit(id, step).or_throw();
      rest = rest.subspan(step.size());
      settle();
    }
    forget(id);
  }
  void forget(SequenceId id) {
    manager_->release(id).or_throw();
    settle();
    pool_->clear().or_throw();
  }
  SequenceId admit(const Tokens& prompt) { return manager_->admit(prompt)->id; }
  void wait(SequenceId id) {
    while (manager_->load_state(id) == LoadState::loading) manager_->poll();
    if (pool_->length(id).value() != request_tokens) throw std::runtime_error("a load was cut");
  }
  [[nodiscard]] int64_t loaded_bytes() const { return tier_->figures().loaded_bytes; }

  /// What a hit of the whole prompt needs, each page somewhere in its group's part of the arena.
  [[nodiscard]] std::vector<TierPage> pages_of(const Tokens& prompt, std::vector<Extent>& runs) {
    std::vector<PageName> leading;
    PageName parent = names_.root({}, 0).value();
    for (int32_t p = 0; p < request_pages; ++p) {
      const auto tokens = std::span(prompt).subspan(static_cast<size_t>(p) * page_size, page_size);
      leading.push_back(parent = names_.page(parent, tokens).value());
    }
    std::vector<PageName> names = leading;
    std::vector<int64_t> bytes(leading.size(), groups_[0].page_bytes);
    for (uint32_t g = 1; g < groups_.size(); ++g) {
      const auto first = static_cast<size_t>(first_needed_token(groups_[g], request_tokens));
      for (size_t p = first / page_size; p < leading.size(); ++p) {
        names.push_back(names_.companion(leading[p], g, groups_[g]).value());
        bytes.push_back(groups_[g].page_bytes);
      }
    }
    runs.clear();
    int64_t at = 0;
    for (const int64_t size : bytes) {
      runs.push_back({static_cast<std::byte*>(arena_.span().data) + at, size});
      at += size;
    }
    std::vector<TierPage> pages;
    for (size_t i = 0; i < names.size(); ++i) pages.push_back({names[i], {&runs[i], 1}});
    return pages;
  }
  [[nodiscard]] Tier& tier() { return *tier_; }

 private:
  static KVShape kv_shape(int32_t layers, int32_t head_size) {
    return {.num_layers = layers, .num_heads = 1, .head_size = head_size, .page_size = page_size};
  }
  void add_layers(const Shape& shape, int32_t head_size) {
    int32_t layer = 0;
    planes_.resize(groups_.size());
    numbers_.resize(groups_.size());
    states_.resize(groups_.size());
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      const int32_t layers = shape.groups[g].layers;
      for (int32_t i = 0; i < layers; ++i) numbers_[g].push_back(layer++);
      const GroupFigures f = pool_->group(g).value();
      if (groups_[g].rule == GroupRule::state) {
        const int64_t bytes = groups_[g].page_bytes / layers;
        for (int32_t i = 0; i < layers; ++i)
          states_[g].push_back(
              {static_cast<std::byte*>(arena_.span().data) + i * bytes, f.page_bytes, bytes});
      } else {
        KVShape of = kv_shape(layers, head_size);
        of.page_stride_bytes = f.page_bytes;
        planes_[g] = make_planes(of, f.num_pages, arena_.span()).value();
      }
      if (groups_.size() != 1)
        of_cache_.push_back({.planes = planes_[g], .states = states_[g], .layers = numbers_[g]});
    }
  }
  void settle() {
    while (manager_->figures().stores != 0) manager_->poll();
  }

  static constexpr std::span<const KVPlanes> no_planes = {};
  Sha256Names names_;
  std::vector<GroupOptions> groups_;
  Buffer arena_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Tier> tier_;
  std::vector<std::vector<KVPlanes>> planes_;
  std::vector<std::vector<tier::StatePages>> states_;
  std::vector<std::vector<int32_t>> numbers_;
  std::vector<tier::GroupOfCache> of_cache_;
  std::unique_ptr<CacheManager> manager_;
};

/// A token behind the last page: a hit leaves it.
Tokens prompt_below() {
  Tokens prompt = request(0);
  prompt.push_back(0);
  return prompt;
}

void admit_below(benchmark::State& state, const Shape& shape) {
  Engine engine(shape, 2);
  const Tokens prompt = prompt_below();
  engine.put_below(prompt);
  for (auto _ : state) {
    double seconds = 0;
    const SequenceId id = timed(seconds, [&] { return engine.admit(prompt); });
    engine.wait(id);
    engine.forget(id);
    state.SetIterationTime(seconds);
  }
}

constexpr int32_t large_head = 1024;  // pages of 64 KiB a layer, K and V of 16 tokens of bf16

void load_below(benchmark::State& state, const Shape& shape) {
  Engine engine(shape, large_head);
  const Tokens prompt = prompt_below();
  engine.put_below(prompt);
  const int64_t before = engine.loaded_bytes();
  for (auto _ : state) {
    const auto begin = Clock::now();
    const SequenceId id = engine.admit(prompt);
    engine.wait(id);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    engine.forget(id);
  }
  state.SetBytesProcessed(engine.loaded_bytes() - before);
}

void load_of_tier(benchmark::State& state, const Shape& shape) {
  Engine engine(shape, large_head);
  const Tokens prompt = prompt_below();
  engine.put_below(prompt);
  std::vector<Extent> runs;
  const std::vector<TierPage> pages = engine.pages_of(prompt, runs);
  std::vector<TierCompletion> done(pages.size());
  const int64_t before = engine.loaded_bytes();
  for (auto _ : state) {
    const auto begin = Clock::now();
    engine.tier().load(pages, 0).error().or_throw();
    for (size_t ended = 0; ended < pages.size();) {
      const size_t more = engine.tier().poll(done);
      for (size_t i = 0; i < more; ++i)
        if (done[i].outcome != TierOutcome::done) throw std::runtime_error("a page was lost");
      ended += more;
    }
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  state.SetBytesProcessed(engine.loaded_bytes() - before);
}

void add(const char* name, void (*bench)(benchmark::State&, const Shape&)) {
  for (const Shape& shape : shapes)
    benchmark::RegisterBenchmark((std::string(name) + "/" + shape.name).c_str(), bench, shape)
        ->UseManualTime();
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  using namespace folio::bench;  // NOLINT(google-build-using-namespace)
  add("admit_below", admit_below);
  add("load_below", load_below);
  add("load_of_tier", load_of_tier);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
