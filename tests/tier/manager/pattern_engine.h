// SPDX-License-Identifier: Apache-2.0
/// tests/tier/pattern_engine.h: an engine whose K/V can be foretold: each full page has bytes that
/// stand for all tokens up to its end, and all of them are looked at all the time.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "support/random.h"

namespace folio::test {

class PatternEngine {
 public:
  using Tokens = std::vector<TokenId>;
  static constexpr int32_t page_size = 4;

  PatternEngine(uint32_t num_pages, std::vector<TierOfCache> tiers, uint32_t max_io_pins = 64)
      : names_(Sha256Names::create().value()),
        pool_(std::move(PagePool::create({.num_pages = num_pages,
                                          .page_size = page_size,
                                          .max_sequences = 8,
                                          .name = names_.function(),
                                          .max_io_pins = max_io_pins}))
                  .value()),
        memory_(Buffer::allocate(page_bytes(shape()).value() * num_pages).value()),
        planes_(make_planes(shape(), num_pages, memory_.span()).value()),
        manager_(CacheManager::create(
                     {.pool = &pool_, .name = names_.function(), .planes = planes_, .tiers = tiers})
                     .value()) {}

  [[nodiscard]] CacheManager& manager() { return manager_; }
  [[nodiscard]] PagePool& pool() { return pool_; }
  [[nodiscard]] size_t living() const { return sequences_.size(); }

  static KVShape shape() {
    return {.num_layers = 3,
            .num_heads = 2,
            .head_size = 8,
            .page_size = page_size,
            .dtype = DType::f32};
  }

  /// False where the pool has no room.
  bool admit(const Tokens& prompt) {
    const Result<TieredAdmission> a = manager_.admit(prompt);
    if (!a) return false;
    sequences_.push_back({a->id, prompt});
    return true;
  }
  /// Computes what the sequence has not, or as much as there is room for. False while it loads.
  bool compute(size_t i) {
    Sequence& s = sequences_[i];
    if (manager_.load_state(s.id) == LoadState::loading) return false;
    const auto length = static_cast<size_t>(pool_.length(s.id).value());
    const auto rest = std::span(s.tokens).subspan(length);
    if (rest.empty() || !pool_.reserve(s.id, static_cast<int32_t>(rest.size())).is_ok())
      return true;
    for (size_t p = length / page_size; (p + 1) * page_size <= s.tokens.size(); ++p) {
      const Tokens history(s.tokens.begin(),
                           s.tokens.begin() + static_cast<long>((p + 1) * page_size));
      for_bytes(page_at(s, p), history, [](std::byte& there, std::byte b) { there = b; });
    }
    manager_.commit(s.id, rest).or_throw();
    return true;
  }
  void release(size_t i) {
    manager_.release(sequences_[i].id).or_throw();
    sequences_.erase(sequences_.begin() + static_cast<long>(i));
  }

  /// Every full page of every sequence has its bytes.
  void check() {
    ASSERT_EQ(pool_.check_invariants().message(), "");
    for (const Sequence& s : sequences_) {
      const auto length = static_cast<size_t>(pool_.length(s.id).value());
      for (size_t p = 0; (p + 1) * page_size <= length; ++p) {
        const Tokens history(s.tokens.begin(),
                             s.tokens.begin() + static_cast<long>((p + 1) * page_size));
        int64_t wrong = 0;
        for_bytes(page_at(s, p), history,
                  [&](const std::byte& there, std::byte b) { wrong += there == b ? 0 : 1; });
        ASSERT_EQ(wrong, 0) << "page " << p;
      }
    }
  }
  void finish() {
    while (!sequences_.empty()) release(0);
    while (manager_.figures().loads + manager_.figures().stores != 0) manager_.poll();
    ASSERT_EQ(pool_.check_invariants().message(), "");
    ASSERT_EQ(pool_.stats().used_pages, 0);
  }

 private:
  struct Sequence {
    SequenceId id;
    Tokens tokens;
  };

  [[nodiscard]] uint32_t page_at(const Sequence& s, size_t position) const {
    return pool_.table().entries[pool_.row_start(s.id).value() + static_cast<int64_t>(position)];
  }
  template <class Visit>
  void for_bytes(uint32_t page, const Tokens& history, Visit visit) {
    uint64_t seed = 1;
    for (const TokenId token : history)
      seed = seed * 0x9e3779b97f4a7c15U + static_cast<uint64_t>(token) + 1;
    Rng rng(seed);
    const std::vector<Extent> extents = page_extents(planes_, page).value();
    for (const Extent& e : extents)
      for (int64_t i = 0; i < e.bytes; ++i)
        visit(e.data[i], static_cast<std::byte>(rng.between(0, 255)));
  }

  Sha256Names names_;
  PagePool pool_;
  Buffer memory_;
  std::vector<KVPlanes> planes_;
  CacheManager manager_;
  std::vector<Sequence> sequences_;
};

}  // namespace folio::test
