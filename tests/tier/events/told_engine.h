// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/told_engine.h: a small pool over two small tiers, all of which tell a
/// publisher what they have.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/buffer.h"
#include "folio/names/sha256_names.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/disk_tier.h"
#include "folio/tier/event_publisher.h"
#include "folio/tier/host_tier.h"
#include "support/random.h"
#include "tier/events/event_helpers.h"

namespace folio::test {

class ToldEngine {
 public:
  static constexpr int32_t page_size = 2;
  static constexpr int64_t page_room = 3 * 1024;

  ToldEngine(EventPublisher& publisher, const std::string& folder)
      : names_(std::move(Sha256Names::create()).value()),
        pool_(std::move(PagePool::create({.num_pages = pages,
                                          .page_size = page_size,
                                          .max_sequences = 4,
                                          .name = names_.function(),
                                          .on_event = publisher.add_pool().value(),
                                          .max_io_pins = 64}))
                  .value()),
        host_(make_host_tier({.max_bytes = 10 * page_room,
                              .on_change = publisher.add_tier(medium_cpu).value()})
                  .value()),
        disk_(make_disk_tier(
                  folder,
                  {.max_bytes = 2 << 20, .on_change = publisher.add_tier(medium_storage).value()},
                  {.segment_bytes = 1 << 20})
                  .value()),
        memory_(Buffer::allocate(page_bytes(shape()).value() * pages).value()),
        planes_(make_planes(shape(), pages, memory_.span()).value()) {
    const TierOfCache tiers[] = {{host_.get(), StorePolicy::write_through},
                                 {disk_.get(), StorePolicy::write_back}};
    manager_.emplace(
        CacheManager::create(
            {.pool = &pool_, .name = names_.function(), .planes = planes_, .tiers = tiers})
            .value());
  }

  /// A random call of an engine.
  void step(Rng& rng) {
    const int64_t what = rng.between(0, 99);
    if (what < 40 && sequences_.size() < 4) {
      admit(rng);
    } else if (what < 60 && !sequences_.empty()) {
      release(static_cast<size_t>(rng.between(0, std::ssize(sequences_) - 1)));
    } else if (what < 61 && sequences_.empty()) {
      static_cast<void>(pool_.clear());
    } else if (what < 63) {
      if (!told_.empty()) static_cast<void>(host_->drop({&rng.pick(told_), 1}));
    } else {
      manager_->poll();
    }
  }
  void finish() {
    while (!sequences_.empty()) release(0);
    while (manager_->figures().loads + manager_->figures().stores != 0) manager_->poll();
  }

  void tell_again(EventPublisher& publisher) {
    publisher.tell_again(pool_).or_throw();
    publisher.tell_again(*host_, medium_cpu).or_throw();
    publisher.tell_again(*disk_, medium_storage).or_throw();
  }

  [[nodiscard]] PagePool& pool() { return pool_; }
  /// What it has, by its own word: the pool's snapshot, and tiers asked for every name there ever
  /// was.
  [[nodiscard]] Contents contents() {
    Contents contents;
    const Result<uint64_t> last = pool_.snapshot(
        {.function =
             [](void* to, const PoolEvent& event, std::span<const TokenId>) noexcept {
               (*static_cast<Contents*>(to))[event.name].insert("GPU");
             },
         .context = &contents});
    last.or_throw();
    for (const PageName& name : told_) {
      if (host_->find({&name, 1}) == 1) contents[name].insert("CPU");
      if (disk_->find({&name, 1}) == 1) contents[name].insert("STORAGE");
    }
    return contents;
  }

 private:
  static constexpr uint32_t pages = 24;
  struct Sequence {
    SequenceId id;
    std::vector<TokenId> tokens;
  };

  static KVShape shape() {
    return {.num_layers = 3,
            .num_heads = 2,
            .head_size = 8,
            .page_size = page_size,
            .dtype = DType::f32};
  }
  void admit(Rng& rng) {
    Sequence sequence;
    for (int64_t t = rng.between(1, 10); t >= 0; --t)
      sequence.tokens.push_back(t % 2 == 0 ? rng.int_between(0, 2) : 7);
    const Result<TieredAdmission> a = manager_->admit(sequence.tokens);
    if (!a) return;
    sequence.id = a->id;
    while (manager_->load_state(a->id) == LoadState::loading) manager_->poll();
    const auto length = static_cast<size_t>(pool_.length(a->id).value());
    const auto rest = std::span<const TokenId>(sequence.tokens).subspan(length);
    sequences_.push_back(sequence);
    if (rest.empty() || !pool_.reserve(a->id, static_cast<int32_t>(rest.size())).is_ok()) return;
    manager_->commit(a->id, rest).or_throw();
    const int32_t full = static_cast<int32_t>(sequence.tokens.size()) / page_size;
    for (int32_t p = 0; p < full; ++p) told_.push_back(pool_.name(a->id, p).value());
  }
  void release(size_t i) {
    manager_->release(sequences_[i].id).or_throw();
    sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  Sha256Names names_;
  PagePool pool_;
  std::unique_ptr<Tier> host_, disk_;
  Buffer memory_;
  std::vector<KVPlanes> planes_;
  std::optional<CacheManager> manager_;
  std::vector<Sequence> sequences_;
  std::vector<PageName> told_;
};

}  // namespace folio::test
