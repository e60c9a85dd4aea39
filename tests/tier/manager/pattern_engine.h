// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/pattern_engine.h: an engine whose K/V can be foretold: each token has bytes
/// of its own in each plane of each layer, which stand for all tokens up to it, and all of them are
/// looked at all the time.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "folio/cache/copy.h"
#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/core/execution.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "support/random.h"

namespace folio::test {

/// Pages of a group that the manager holds.
inline int64_t spares_of(const std::vector<TierOfCache>& tiers,
                         const CacheManagerOptions& options) {
  for (const TierOfCache& tier : tiers)
    if (tier.policy == StorePolicy::at_eviction) return options.spare_pages;
  return 0;
}

class PatternEngine {
 public:
  using Tokens = std::vector<TokenId>;
  static constexpr int32_t page_size = 4, num_layers = 3;
  static constexpr int64_t page_bytes = num_layers * 2 * page_size * 64;

  struct Options {
    uint32_t num_pages = 0;
    std::vector<TierOfCache> tiers = {};
    uint32_t max_io_pins = 64;
    int32_t min_partial_tokens = 0;
    uint32_t max_spans = 0;
    EventFunction on_event = {};
    CacheManagerOptions manager = {};  ///< pool, name, planes and tiers are the engine's
    /// Where pages lie, and where the engine sees them; null: in memory of the engine.
    MemorySpan device = {}, seen = {};
  };

  explicit PatternEngine(const Options& options)
      : names_(Sha256Names::create().value()),
        pool_(std::move(PagePool::create({.num_pages = options.num_pages,
                                          .page_size = page_size,
                                          .max_sequences = 8,
                                          .name = names_.function(),
                                          .on_event = options.on_event,
                                          .min_partial_tokens = options.min_partial_tokens,
                                          .max_spans = options.max_spans,
                                          .max_io_pins = options.max_io_pins}))
                  .value()),
        memory_(Buffer::allocate(page_bytes * options.num_pages).value()),
        planes_(planes_in(options, options.seen)),
        spares_(spares_of(options.tiers, options.manager)),
        manager_(make_manager(options)) {}

  [[nodiscard]] CacheManager& manager() { return manager_; }
  [[nodiscard]] PagePool& pool() { return pool_; }
  [[nodiscard]] std::span<const KVPlanes> planes() const { return planes_; }
  [[nodiscard]] std::span<std::byte> memory() {
    return {memory_.data(), static_cast<size_t>(memory_.span().bytes)};
  }
  [[nodiscard]] NameFunction names() { return names_.function(); }
  [[nodiscard]] size_t living() const { return sequences_.size(); }
  [[nodiscard]] SequenceId id(size_t i) const { return sequences_[i].id; }
  [[nodiscard]] int32_t length(size_t i) const { return pool_.length(sequences_[i].id).value(); }
  [[nodiscard]] LoadState load_state(size_t i) const {
    return manager_.load_state(sequences_[i].id);
  }

  static KVShape shape() {
    return {.num_layers = num_layers,
            .num_heads = 2,
            .head_size = 8,
            .page_size = page_size,
            .dtype = DType::f32};
  }

  /// Null where the pool has no room.
  const TieredAdmission* admit(const Tokens& prompt) {
    const Result<TieredAdmission> a = manager_.admit(prompt);
    if (!a) return nullptr;
    admission_ = *a;
    EXPECT_EQ(pool_.length(a->id).value(), a->cached_tokens);
    sequences_.push_back({a->id, prompt, a->loading_tokens, a->cached_tokens});
    copy();
    return &admission_;
  }
  /// Computes what the sequence has not, if there is room for it. False while it loads.
  bool compute(size_t i) {
    Sequence& s = sequences_[i];
    if (load_state(i) == LoadState::loading) return false;
    const int32_t length = this->length(i);
    const auto rest = std::span(s.tokens).subspan(static_cast<size_t>(length));
    if (rest.empty() || !pool_.reserve(s.id, static_cast<int32_t>(rest.size())).is_ok())
      return true;
    copy();
    for_bytes(s, length, static_cast<int32_t>(s.tokens.size()), num_layers,
              [](std::byte* there, const uint64_t& word) { std::memcpy(there, &word, 8); });
    manager_.commit(s.id, rest).or_throw();
    return true;
  }
  void preempt(size_t i) { manager_.preempt(sequences_[i].id).or_throw(); }
  /// Of a sequence without pages.
  void resume(size_t i) {
    Sequence& s = sequences_[i];
    const TieredAdmission a = manager_.resume(s.id, s.tokens).value();
    s.loading = a.loading_tokens;
    s.cached = a.cached_tokens;
    copy();
  }
  /// One token more, so that sequences part.
  void extend(size_t i, TokenId token) { sequences_[i].tokens.push_back(token); }
  void release(size_t i) {
    manager_.release(sequences_[i].id).or_throw();
    sequences_.erase(sequences_.begin() + static_cast<long>(i));
  }
  /// Somebody else has released it.
  void forget(size_t i) { sequences_.erase(sequences_.begin() + static_cast<long>(i)); }
  /// Polls until nothing is under way.
  void settle() {
    while (manager_.figures().loads + manager_.figures().stores != 0) manager_.poll();
    manager_.poll();
  }

  /// Every token of every sequence has its bytes in all layers; with `is_honest` tiers, those that
  /// load have them in the layers that are said to be ready.
  void check(bool is_honest = false) {
    ASSERT_EQ(pool_.check_invariants().message(), "");
    for (size_t i = 0; i < sequences_.size(); ++i) {
      ASSERT_EQ(wrong(sequences_[i], 0, length(i), num_layers), 0) << "sequence " << i;
      const int32_t ready = is_honest && load_state(i) == LoadState::loading
                                ? manager_.layers_ready(sequences_[i].id)
                                : 0;
      if (ready == 0) continue;
      early_looks_ += 1;
      ASSERT_EQ(wrong(sequences_[i], 0, sequences_[i].cached + sequences_[i].loading, ready), 0)
          << "layers before " << ready << " of sequence " << i;
    }
  }
  [[nodiscard]] int64_t early_looks() const { return early_looks_; }

  /// Nothing is held by anybody in the end.
  void finish() {
    while (!sequences_.empty()) release(0);
    settle();
    copy();  // those that were taken last have run
    ASSERT_EQ(pool_.check_invariants().message(), "");
    const PoolStats stats = pool_.stats();
    ASSERT_EQ(stats.used_pages, spares_);
    ASSERT_EQ(stats.sequences, 0);
    ASSERT_EQ(stats.used_pages + stats.cached_pages + stats.free_pages, int64_t{pool_.num_pages()});
    ASSERT_EQ(pool_.clear().is_ok(), spares_ == 0);
  }

 private:
  struct Sequence {
    SequenceId id;
    Tokens tokens;
    int32_t loading = 0;
    int32_t cached = 0;
  };

  [[nodiscard]] std::vector<KVPlanes> planes_in(const Options& options, MemorySpan memory) const {
    return make_planes(shape(), options.num_pages, memory.data == nullptr ? memory_.span() : memory)
        .value();
  }
  CacheManager make_manager(const Options& options) {
    CacheManagerOptions all = options.manager;
    all.pool = &pool_;
    all.name = names_.function();
    const std::vector<KVPlanes> planes = planes_in(options, options.device);
    all.planes = planes;
    all.tiers = options.tiers;
    return CacheManager::create(all).value();
  }
  void copy() { copy_pages(planes_, planes_, pool_.take_copies(), serial_executor()).or_throw(); }
  int64_t wrong(const Sequence& s, int32_t first, int32_t last, int32_t layers) {
    int64_t count = 0;
    for_bytes(s, first, last, layers, [&](const std::byte* there, const uint64_t& word) {
      count += std::memcmp(there, &word, 8) == 0 ? 0 : 1;
    });
    return count;
  }
  /// Visits the words of tokens first .. last - 1, and what they are to be.
  template <class Visit>
  void for_bytes(const Sequence& s, int32_t first, int32_t last, int32_t layers, Visit visit) {
    const uint32_t* const row = pool_.table().entries + pool_.row_start(s.id).value();
    uint64_t history = 1;
    for (int32_t t = 0; t < last; ++t) {
      history = history * 0x9e3779b97f4a7c15U +
                static_cast<uint64_t>(s.tokens[static_cast<size_t>(t)]) + 1;
      if (t < first) continue;
      Rng rng(history);
      for (const KVPlanes& layer : std::span(planes_).first(static_cast<size_t>(layers)))
        for (const PagedKVView* view : {&layer.key, &layer.value}) {
          auto* const at = static_cast<std::byte*>(view->data) +
                           row[t / page_size] * view->page_stride_bytes +
                           t % page_size * view->slot_stride_bytes;
          for (int64_t b = 0; b < 64; b += 8) visit(at + b, rng.next());
        }
    }
  }

  Sha256Names names_;
  PagePool pool_;
  Buffer memory_;
  std::vector<KVPlanes> planes_;
  int64_t spares_;
  CacheManager manager_;
  std::vector<Sequence> sequences_;
  TieredAdmission admission_;
  int64_t early_looks_ = 0;
};

inline PatternEngine::Tokens count_from(TokenId first, int32_t count) {
  PatternEngine::Tokens tokens;
  for (TokenId t = first; t < first + count; ++t) tokens.push_back(t);
  return tokens;
}

}  // namespace folio::test
