// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/hybrid_events_test.cpp: what a router finds of a hybrid model is what the pool
/// itself would hit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/names/sha256_names.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/event_publisher.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include "tier/events/event_helpers.h"

namespace folio::test {
namespace {

using testing::HasSubstr;
using Tokens = std::vector<TokenId>;

constexpr int32_t page_size = 2;
const std::vector<GroupOptions> groups_of_all_rules = {
    {.page_bytes = 8},
    {.rule = GroupRule::window, .page_bytes = 4, .window = 5},
    {.rule = GroupRule::state, .page_bytes = 8, .checkpoint = 2},
};

/// A hybrid pool that tells a publisher, and a router that listens.
class HybridEvents : public testing::Test {
 protected:
  HybridEvents()
      : names_(std::move(Sha256Names::create()).value()),
        publisher_(EventPublisher::create({.endpoint = socket_in(folder_, "pub"),
                                           .replay_endpoint = socket_in(folder_, "replay"),
                                           .interval_ms = 1,
                                           .names = NameForm::bytes})
                       .value()),
        pool_(PagePool::create(
                  {.page_size = page_size,
                   .max_sequences = 2,
                   .max_pages_per_sequence = 16,
                   .name = names_.function(),
                   .groups = groups_of_all_rules,
                   .arena_bytes = 8 * 40,
                   .on_event = publisher_.add_pool(medium_gpu, groups_of_all_rules).value()})
                  .value()),
        router_(EventSubscriber::create({.endpoint = publisher_.endpoint(),
                                         .replay_endpoint = publisher_.replay_endpoint(),
                                         .idle_check_ms = 5})
                    .value()) {}

  /// As an engine does, one prompt after the other.
  void serve(const Tokens& prompt) {
    const SequenceId id = pool_.admit(prompt).value().id;
    const auto found = static_cast<size_t>(pool_.length(id).value());
    const std::span<const TokenId> rest = std::span(prompt).subspan(found);
    for (size_t at = 0; at < rest.size(); at += page_size) {  // each page's state is kept
      const auto piece = rest.subspan(at, std::min<size_t>(page_size, rest.size() - at));
      pool_.reserve(id, static_cast<int32_t>(piece.size())).or_throw();
      pool_.commit(id, piece).or_throw();
    }
    pool_.release(id).or_throw();
  }
  [[nodiscard]] std::vector<PageName> chain(const Tokens& prompt) {
    std::vector<PageName> chain;
    PageName parent = names_.root({}, 0).value();
    for (size_t at = 0; at + page_size < prompt.size(); at += page_size) {
      parent = names_.page(parent, std::span(prompt).subspan(at, page_size)).value();
      chain.push_back(parent);
    }
    return chain;
  }
  [[nodiscard]] std::vector<PageName> companions(const std::vector<PageName>& leading,
                                                 uint32_t group) {
    std::vector<PageName> own;
    for (const PageName& name : leading)
      own.push_back(names_.companion(name, group, groups_of_all_rules[group]).value());
    return own;
  }
  /// The same whatever the other groups have.
  [[nodiscard]] int32_t has_leading(const Tokens& prompt) {
    std::set<PageName> leading;
    router_.index().visit(
        [](void* to, const IndexedName& n) noexcept {
          if (n.group == 0) static_cast<std::set<PageName>*>(to)->insert(n.name);
        },
        &leading);
    int32_t length = 0;
    for (const PageName& name : chain(prompt)) {
      if (!leading.contains(name)) break;
      ++length;
    }
    return length;
  }
  template <class Condition>
  [[nodiscard]] bool hears(Condition condition) {
    return comes_true([&] {
      publisher_.flush();
      router_.poll(1).or_throw();
      return router_.is_current() && condition();
    });
  }
  [[nodiscard]] int32_t found(const Tokens& prompt, std::string_view medium = medium_gpu) {
    return router_.index().find(chain(prompt), medium);
  }

  TemporaryFolder folder_;
  Sha256Names names_;
  EventPublisher publisher_;
  PagePool pool_;
  EventSubscriber router_;
};

Tokens any_prompt(Rng& rng) {
  Tokens prompt;
  for (int64_t t = rng.between(1, 24); t > 0; --t)
    prompt.push_back(t % 4 == 0 ? rng.int_between(0, 1) : 7);
  return prompt;
}

TEST_F(HybridEvents, a_router_finds_what_the_pool_hits) {
  Rng rng(test_seed());
  std::vector<Tokens> prompts;
  int64_t shorter = 0, hits = 0;
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 12; ++i) {
      prompts.push_back(any_prompt(rng));
      serve(prompts.back());
    }
    if (round == 6) pool_.clear().or_throw();
    if (round == 9) publisher_.tell_again(pool_).or_throw();
    EXPECT_TRUE(hears([&] {
      return std::ranges::all_of(prompts, [&](const Tokens& prompt) {
        return found(prompt) == pool_.peek(prompt) / page_size;
      });
    })) << "round "
        << round;
    for (const Tokens& prompt : prompts) {
      shorter += has_leading(prompt) > found(prompt) ? 1 : 0;
      hits += found(prompt);
    }
  }
  EXPECT_GT(hits, 0);
  EXPECT_GT(shorter, 0) << "no hit was shorter than what the leading group has";
}

TEST_F(HybridEvents, names_of_companions_in_tiers_are_told_by_their_leading_pages) {
  const TierObserver tier = publisher_.add_tier(medium_cpu).value();
  const auto tell = [&](TierChange change, const std::vector<PageName>& names) {
    tier.function(tier.context, change, names);
  };
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<PageName> leading = chain(prompt), windows = companions(leading, 1),
                              states = companions(leading, 2);
  tell(TierChange::stored, {leading[0], windows[0]});  // nobody knows yet what the second is
  serve(prompt);
  EXPECT_TRUE(hears([&] { return found(prompt) == 3; }));
  EXPECT_EQ(found(prompt, medium_cpu), 0) << "a state lacks";
  tell(TierChange::stored, states);
  EXPECT_TRUE(hears([&] { return found(prompt, medium_cpu) == 1; }));
  tell(TierChange::stored, {leading[1], windows[1], leading[2], windows[2]});
  EXPECT_TRUE(hears([&] { return found(prompt, medium_cpu) == 3; }));
  tell(TierChange::removed, {windows[2]});
  EXPECT_TRUE(hears([&] { return found(prompt, medium_cpu) == 2; }));
  tell(TierChange::removed, {windows[0]});
  EXPECT_TRUE(hears([&] { return found(prompt, medium_cpu) == 0; }));
  EXPECT_EQ(found(prompt), 3) << "the pool's own are there";
  EXPECT_EQ(publisher_.figures().unnamed_events, 0);
}

TEST_F(HybridEvents, a_companion_whose_leading_page_was_not_told_of_is_of_its_group_in_tiers) {
  const EventFunction pool = publisher_.add_pool("other", groups_of_all_rules).value();
  const TierObserver tier = publisher_.add_tier(medium_cpu).value();
  const Tokens prompt = {1, 2, 3};
  const std::vector<PageName> leading = chain(prompt), windows = companions(leading, 1);
  PoolEvent event{.number = 2, .content = 1, .num_tokens = page_size};  // the first was dropped
  event.group = 1;
  event.has_name = event.has_parent_name = true;
  event.name = windows[0];
  event.parent_name = leading[0];
  pool.function(pool.context, event, std::span(prompt).first(page_size));
  tier.function(tier.context, TierChange::stored, windows);
  std::vector<int32_t> told;  // one for each medium
  EXPECT_TRUE(hears([&] {
    told.clear();
    router_.index().visit(
        [](void* to, const IndexedName& n) noexcept {
          auto& groups = *static_cast<std::vector<int32_t>*>(to);
          groups.insert(groups.end(), static_cast<size_t>(std::popcount(n.media)), n.group);
        },
        &told);
    return told.size() == 2;
  }));
  EXPECT_THAT(told, testing::Each(1));
}

TEST_F(HybridEvents, a_group_of_which_nobody_has_said_the_rule_is_of_no_known_kind) {
  EventPublisher publisher = EventPublisher::create({.endpoint = socket_in(folder_, "pub2"),
                                                     .replay_endpoint = socket_in(folder_, "rep2"),
                                                     .interval_ms = 1})
                                 .value();
  pool_ = PagePool::create({.page_size = page_size,
                            .max_sequences = 1,
                            .max_pages_per_sequence = 16,
                            .name = names_.function(),
                            .groups = groups_of_all_rules,
                            .arena_bytes = 8 * 40,
                            .on_event = publisher.add_pool().value()})
              .value();
  EventSubscriber router = EventSubscriber::create({.endpoint = publisher.endpoint(),
                                                    .replay_endpoint = publisher.replay_endpoint()})
                               .value();
  serve({1, 2, 3, 4, 5});
  EXPECT_TRUE(comes_true([&] {
    publisher.flush();
    router.poll(1).or_throw();
    return router.index().num_groups() == 3;
  }));
  EXPECT_FALSE(router.index().group(1).has_rule);
}

TEST_F(HybridEvents, groups_that_no_pool_has_are_refused) {
  const auto refusal = [&](std::span<const GroupOptions> groups) {
    return std::string(publisher_.add_pool("other", groups).error().message());
  };
  const GroupOptions no_window[] = {{}, {.rule = GroupRule::window}};
  EXPECT_THAT(refusal(no_window), HasSubstr("groups[1].window is 0, expected 1 or more"));
  const GroupOptions no_rule[] = {{}, {.rule = static_cast<GroupRule>(9)}};
  EXPECT_THAT(refusal(no_rule), HasSubstr("groups[1].rule is 9, expected 0 .. 3"));
  const GroupOptions no_leading[] = {{.rule = GroupRule::state}};
  EXPECT_THAT(refusal(no_leading), HasSubstr("groups[0].rule is 3, expected full (0)"));
  EXPECT_THAT(refusal({static_cast<const GroupOptions*>(nullptr), 2}), HasSubstr("groups"));
}

}  // namespace
}  // namespace folio::test
