// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/groups_model_test.cpp: hits of hybrid models beside a naive model that knows,
/// of events alone, which page of which group is where.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "folio/tier/host_tier.h"
#include "tier/manager/group_engine.h"
#include "tier/manager/groups_rounds.h"
#include "tier/manager/wandering.h"

namespace folio::test {
namespace {

/// What memory and two tiers have, page by page.
class WhatIsWhere {
 public:
  [[nodiscard]] EventFunction pool_events() { return {.function = &hear_pool, .context = this}; }
  [[nodiscard]] TierObserver tier_events(size_t tier) {
    tiers_[tier].all = this;
    return {.function = &hear_tier, .context = &tiers_[tier]};
  }

  /// Tokens of the longest hit, with tiers or of memory alone: the first length, from above, of
  /// which a query sees nothing that is missing.
  int32_t hit(const ModelShape& model, NameFunction names, std::span<const TokenId> prompt,
              bool with_tiers) {
    const std::lock_guard lock(mutex_);
    constexpr int32_t page = GroupEngine::page_size;
    std::vector<PageName> leading;
    for (size_t end = page; end < prompt.size(); end += page) {
      PageName name;
      const PageContent content{.parent = leading.empty() ? nullptr : &leading.back(),
                                .tokens = prompt.subspan(end - page, page)};
      names.function(names.context, content, &name).or_throw();
      leading.push_back(name);
    }
    const std::vector<uint64_t> contents = contents_of(leading);
    for (auto pages = static_cast<int32_t>(leading.size()); pages > 0; --pages)
      if (serves(model, names, leading, contents, pages * page, with_tiers)) return pages * page;
    return 0;
  }
  [[nodiscard]] std::vector<PageName> names_in(size_t tier) {
    const std::lock_guard lock(mutex_);
    return {tiers_[tier].names.begin(), tiers_[tier].names.end()};
  }

 private:
  struct InTier {
    WhatIsWhere* all = nullptr;
    std::set<PageName> names;
  };

  /// Memory finds a page behind the one that it continues: whoever computes that one anew finds no
  /// more what an older one was continued by.
  std::vector<uint64_t> contents_of(const std::vector<PageName>& leading) const {
    std::vector<uint64_t> contents;
    for (const PageName& name : leading) {
      const auto found = children_.find({contents.empty() ? 0 : contents.back(), name});
      if (found == children_.end()) break;
      contents.push_back(found->second);
    }
    return contents;
  }

  bool serves(const ModelShape& model, NameFunction names, const std::vector<PageName>& leading,
              std::span<const uint64_t> contents, int32_t length, bool with_tiers) const {
    for (uint32_t g = 0; g < model.groups.size(); ++g) {
      const bool is_empty = model.groups[g].layers.empty();
      for (int32_t t = 0; t < length; ++t) {
        if (!GroupEngine::sees(model.groups[g].rule, length, t)) continue;
        const auto position = static_cast<size_t>(t / GroupEngine::page_size);
        const bool is_in_memory =
            position < contents.size() && (g == 0 || companions_.contains({contents[position], g}));
        if (is_in_memory) continue;
        PageName name = leading[position];
        if (g != 0) {
          const pool::CompanionContent content{
              .leading = name, .group = g, .options = model.groups[g].rule};
          names.companion(names.context, content, &name).or_throw();
        }
        const bool is_below = is_empty || std::ranges::any_of(tiers_, [&](const InTier& tier) {
                                return tier.names.contains(name);
                              });
        if (!with_tiers || !is_below) return false;
      }
    }
    return true;
  }

  static void hear_pool(void* self, const PoolEvent& event, std::span<const TokenId>) noexcept {
    auto& [mutex, contents, children, companions, tiers] = *static_cast<WhatIsWhere*>(self);
    const std::pair companion(event.content, event.group);
    if (event.kind == PoolEventKind::cleared) {
      contents.clear(), children.clear(), companions.clear();
    } else if (event.group != 0 && event.kind == PoolEventKind::stored) {
      ++companions[companion];
    } else if (event.group != 0) {
      if (--companions[companion] == 0) companions.erase(companion);
    } else if (event.kind == PoolEventKind::stored) {
      const std::pair place(event.position == 0 ? 0 : event.parent, event.name);
      contents[event.content] = place;
      children[place] = event.content;
    } else if (const auto found = contents.find(event.content); found != contents.end()) {
      children.erase(found->second);
      contents.erase(found);
    }
  }
  static void hear_tier(void* self, TierChange change, std::span<const PageName> names) noexcept {
    auto& tier = *static_cast<InTier*>(self);
    const std::lock_guard lock(tier.all->mutex_);
    for (const PageName& name : names) {
      if (change == TierChange::stored) {
        tier.names.insert(name);
      } else {
        tier.names.erase(name);
      }
    }
  }

  using Place = std::pair<uint64_t, PageName>;  ///< the content before, 0 of the first, and a name

  std::mutex mutex_;
  std::map<uint64_t, Place> contents_;
  std::map<Place, uint64_t> children_;
  std::map<std::pair<uint64_t, uint32_t>, int64_t> companions_;
  InTier tiers_[2];
};

struct Seen {
  int64_t further = 0;    ///< hits that tiers made longer
  int64_t in_parts = 0;   ///< of these, longer than what memory has, and shorter than the prompt
  int64_t forgotten = 0;  ///< pages that a tier was told to drop
};

class CacheManagerGroupModel : public ::testing::TestWithParam<ModelShape> {
 protected:
  void one_round(Rng& rng, Seen& seen) {
    const ModelShape& model = GetParam();
    WhatIsWhere where;
    const int64_t bytes = host_record_bytes(most_page_bytes(model)).value();
    const auto small =
        make_host_tier({.max_bytes = 24 * bytes, .on_change = where.tier_events(0)}).value();
    const auto large =
        make_host_tier({.max_bytes = 80 * bytes, .on_change = where.tier_events(1)}).value();
    std::vector<TierOfCache> tiers = {randomly(*small, rng), randomly(*large, rng)};
    for (TierOfCache& tier : tiers) tier.min_hits = 0;
    GroupEngine engine({.model = model,
                        .pages = few_pages(model) + 6,
                        .tiers = tiers,
                        .on_event = where.pool_events(),
                        .manager = {.load_deadline_ms = 0,
                                    .store_deadline_ms = 0,
                                    .load_order = LoadOrder::pages,
                                    .spare_pages = 1}});
    for (int i = 0; i < 60; ++i) {
      const GroupEngine::Tokens prompt = any_hybrid_prompt(rng);
      if (rng.chance(0.2)) seen.forgotten += forget_some(where, rng, {small.get(), large.get()});
      const int32_t alone = where.hit(model, engine.names(), prompt, false);
      const int32_t both = where.hit(model, engine.names(), prompt, true);
      ASSERT_EQ(engine.pool().peek(prompt), alone) << "call " << i;
      const TieredAdmission* const admission = engine.admit(prompt);
      ASSERT_NE(admission, nullptr);
      ASSERT_EQ(admission->cached_tokens, alone) << "call " << i;
      ASSERT_EQ(admission->cached_tokens + admission->loading_tokens, both) << "call " << i;
      engine.settle();
      ASSERT_EQ(engine.length(0), both) << "call " << i;
      ASSERT_NO_FATAL_FAILURE(engine.check());
      seen.further += both > alone ? 1 : 0;
      seen.in_parts += both > alone && both + 4 < std::ssize(prompt) ? 1 : 0;
      ASSERT_TRUE(engine.compute(0));
      engine.release(0);
      engine.settle();
    }
    engine.finish();
  }

  static int64_t forget_some(WhatIsWhere& where, Rng& rng, std::initializer_list<Tier*> tiers) {
    size_t number = 0;
    int64_t dropped = 0;
    for (Tier* const tier : tiers) {
      for (const PageName& name : where.names_in(number++)) {
        if (!rng.chance(0.2)) continue;
        tier->drop({&name, 1}).or_throw();
        ++dropped;
      }
    }
    return dropped;
  }
};

TEST_P(CacheManagerGroupModel, hits_are_those_of_pages_that_are_there) {
  Rng rng(test_seed());
  Seen seen;
  for (int round = 0; round < 8; ++round)
    ASSERT_NO_FATAL_FAILURE(one_round(rng, seen)) << "round " << round;
  EXPECT_GT(seen.further, 0);
  EXPECT_GT(seen.in_parts, 0);
  EXPECT_GT(seen.forgotten, 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CacheManagerGroupModel, ::testing::ValuesIn(model_shapes()),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace folio::test
