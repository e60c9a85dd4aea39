// SPDX-License-Identifier: Apache-2.0
/// tests/tier/queued_tier_test.cpp: the queue before every medium: each page ends once, in time or
/// not.
#include "tier/queued_tier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "support/random.h"
#include "tier/checks.h"
#include "tier/held_medium.h"
#include "tier/tier_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

struct Held {
  explicit Held(
      TierOptions options = {},
      void (*prepare)(HeldMedium::Control& control) = [](HeldMedium::Control&) {}) {
    prepare(control);
    options.max_bytes = 1 << 20;
    options.threads = 1;
    tier = tier::QueuedTier::create(std::make_unique<HeldMedium>(control), options).value();
  }
  ~Held() {
    control.allow(std::numeric_limits<int32_t>::max());
    tier.reset();
  }
  HeldMedium::Control control;
  std::unique_ptr<Tier> tier;
};

TEST(QueuedTier, ends_each_page_once_in_order) {
  Held held;
  PageMemory a({10}), b({20}), c({30});
  const TierPage pages[] = {{name_of(1), a.extents()}, {name_of(2), b.extents()}};
  const TierPage more[] = {{name_of(3), c.extents()}};
  const TierTicket first = held.tier->store(pages).value();
  const TierTicket second = held.tier->load(more, 0).value();
  EXPECT_NE(first, second);
  EXPECT_EQ(held.tier->figures().queued_bytes, 60);
  held.control.allow(3);
  const auto ended = wait_for(*held.tier, 3);
  EXPECT_EQ(ended[0].ticket, first);
  EXPECT_EQ(ended[0].page, 0U);
  EXPECT_EQ(ended[1].ticket, first);
  EXPECT_EQ(ended[1].page, 1U);
  EXPECT_EQ(ended[2].ticket, second);
  TierCompletion none[1];
  EXPECT_EQ(held.tier->poll(none), 0U);
  const TierFigures figures = held.tier->figures();
  EXPECT_EQ(figures.stored_bytes, 30);
  EXPECT_EQ(figures.loaded_bytes, 30);
  EXPECT_EQ(figures.queued_pages, 0);
}

TEST(QueuedTier, refuses_what_its_queue_has_no_room_for) {
  Held held({.max_queued_bytes = 100, .max_queued_pages = 2});
  PageMemory large({101}), half({50});
  const TierPage one[] = {{name_of(1), large.extents()}};
  EXPECT_EQ(held.tier->store(one).error().code(), Errc::busy);
  const TierPage two[] = {{name_of(1), half.extents()}, {name_of(2), half.extents()}};
  const TierTicket ticket = held.tier->store(two).value();
  PageMemory little({1});
  const TierPage last[] = {{name_of(3), little.extents()}};
  EXPECT_THAT(held.tier->store(last).error().message(), HasSubstr("2 of 100 bytes are queued"));
  EXPECT_EQ(held.tier->figures().refused_calls, 2);
  held.tier->cancel(ticket);
  held.control.allow(1);
  wait_for(*held.tier, 2);
  EXPECT_TRUE(held.tier->store(last)) << "there is room when ends have been polled";
}

TEST(QueuedTier, cancels_what_waits_at_once_and_what_runs_when_it_ends) {
  Held held;
  PageMemory a({10}), b({20});
  const TierPage pages[] = {{name_of(1), a.extents()}, {name_of(2), b.extents()}};
  const TierTicket ticket = held.tier->load(pages, 0).value();
  held.control.wait_for_begun(1);
  held.tier->cancel(ticket);
  const auto waited = wait_for(*held.tier, 1);
  EXPECT_EQ(waited[0].page, 1U);
  EXPECT_EQ(waited[0].outcome, TierOutcome::cancelled);
  TierCompletion none[1];
  EXPECT_EQ(held.tier->poll(none), 0U) << "its bytes may still be written";
  held.control.allow(1);
  EXPECT_EQ(wait_for(*held.tier, 1)[0].outcome, TierOutcome::cancelled);
  held.tier->cancel(ticket);
  held.tier->cancel(TierTicket{});
  held.tier->cancel(TierTicket{std::numeric_limits<uint64_t>::max()});
  EXPECT_EQ(held.tier->poll(none), 0U);
}

TEST(QueuedTier, ends_what_waits_beyond_its_deadline_though_the_medium_hangs) {
  Held held;
  PageMemory a({10}), b({20}), c({30});
  const TierPage first[] = {{name_of(1), a.extents()}};
  static_cast<void>(held.tier->load(first, 0).value());
  held.control.wait_for_begun(1);
  const TierPage later[] = {{name_of(2), b.extents()}};
  const TierTicket ticket = held.tier->load(later, 1).value();
  const auto ended = wait_for(*held.tier, 1);
  EXPECT_EQ(ended[0].ticket, ticket);
  EXPECT_EQ(ended[0].outcome, TierOutcome::late);
  EXPECT_EQ(held.tier->figures().load_outcomes[static_cast<size_t>(TierOutcome::late)], 1);
}

TEST(QueuedTier, hands_a_medium_as_many_pages_of_a_kind_as_it_likes) {
  Held held({}, [](HeldMedium::Control& control) { control.batch = 3; });
  PageMemory page({10});
  const TierPage one[] = {{name_of(0), page.extents()}};
  static_cast<void>(held.tier->load(one, 0).value());
  held.control.wait_for_begun(1);
  const TierPage four[] = {{name_of(1), page.extents()},
                           {name_of(2), page.extents()},
                           {name_of(3), page.extents()},
                           {name_of(4), page.extents()}};
  static_cast<void>(held.tier->store(four).value());
  held.control.allow(1);
  held.control.wait_for_begun(4);
  held.control.allow(3);
  held.control.wait_for_begun(5);
  held.control.allow(1);
  EXPECT_EQ(wait_for(*held.tier, 5).size(), 5U);
}

TEST(QueuedTier, hands_over_all_pages_of_a_load_in_order_and_no_others) {
  Held held({}, [](HeldMedium::Control& control) { control.in_order = true; });
  PageMemory a({10}), b({10}), c({10}), d({10});
  const TierPage two[] = {{name_of(1), a.extents()}, {name_of(2), b.extents()}};
  const TierPage one[] = {{name_of(3), c.extents()}};
  const TierPage plain[] = {{name_of(4), d.extents()}};
  static_cast<void>(held.tier->load(two, 0, LoadOrder::extents).value());
  static_cast<void>(held.tier->load(one, 0, LoadOrder::extents).value());
  static_cast<void>(held.tier->load(plain, 0).value());
  for (const size_t pages : {2U, 1U, 1U}) {
    held.control.wait_for_begun(1);
    EXPECT_EQ(held.control.take_begun(), static_cast<int64_t>(pages));
    held.control.allow(static_cast<int64_t>(pages));
    wait_for(*held.tier, pages);
  }
}

TEST(QueuedTier, tells_how_many_leading_extents_all_pages_have) {
  Held held({}, [](HeldMedium::Control& control) { control.in_order = true; });
  PageMemory a({10, 10, 10}), b({10, 10, 10}), c({10});
  const TierPage pages[] = {
      {name_of(1), a.extents()}, {name_of(2), b.extents()}, {name_of(3), c.extents()}};
  const TierTicket ticket = held.tier->load(pages, 0, LoadOrder::extents).value();
  held.control.wait_for_begun(3);
  const std::vector<tier::Job*> running = held.control.running;
  EXPECT_EQ(held.tier->landed(ticket), 0U);
  running[0]->landed = 2;
  running[2]->landed = 1;
  EXPECT_EQ(held.tier->landed(ticket), 0U);
  running[1]->landed = 1;
  EXPECT_EQ(held.tier->landed(ticket), 1U);
  running[1]->landed = 3;
  EXPECT_EQ(held.tier->landed(ticket), 2U) << "the third page has no more";
  running[0]->landed = 3;
  EXPECT_EQ(held.tier->landed(ticket), 3U);
  EXPECT_EQ(held.tier->landed({ticket.value + 1}), 0U) << "a page, but no call";
  held.tier->cancel(ticket);
  EXPECT_EQ(held.tier->landed(ticket), 0U);
  held.control.allow(3);
  wait_for(*held.tier, 3);
  EXPECT_EQ(held.tier->landed(ticket), 0U);
}

TEST(QueuedTier, has_no_extents_of_a_load_of_which_a_page_has_failed) {
  Held held;
  PageMemory a({10}), b({10});
  held.control.outcome = TierOutcome::corrupt;
  const TierPage pages[] = {{name_of(1), a.extents()}, {name_of(2), b.extents()}};
  const TierTicket ticket = held.tier->load(pages, 0, LoadOrder::extents).value();
  held.control.allow(1);
  wait_for(*held.tier, 1);
  held.control.wait_for_begun(2);
  held.control.running[0]->landed = 1;
  EXPECT_EQ(held.tier->landed(ticket), 0U);
  held.control.allow(1);
  wait_for(*held.tier, 1);
}

TEST(QueuedTier, refuses_pages_that_cannot_be) {
  Held held;
  std::byte bytes[16];
  const auto refusal = [&](std::vector<TierPage> pages) {
    return std::string(held.tier->load(pages, 0).error().message());
  };
  const Extent whole{bytes, 16}, front{bytes, 9}, back{bytes + 8, 8}, null{nullptr, 4},
      none{bytes, 0}, negative{bytes, -1}, huge{bytes, std::numeric_limits<int64_t>::max()};
  EXPECT_THAT(refusal({}), HasSubstr("pages are 0, expected 1 or more"));
  EXPECT_THAT(refusal({{name_of(1), {}}}), HasSubstr("page 0 has no extents"));
  EXPECT_THAT(refusal({{name_of(1), {&whole, 1}}, {name_of(2), {&null, 1}}}),
              HasSubstr("extent 0 of page 1 is null"));
  for (const Extent& e : {none, negative, huge})
    EXPECT_THAT(refusal({{name_of(1), {&e, 1}}}), HasSubstr("expected 1 .. 1099511627776"));
  EXPECT_THAT(refusal({{name_of(1), {&front, 1}}, {name_of(2), {&back, 1}}}),
              HasSubstr("pages 0 and 1 share bytes"));
  const TierPage one[] = {{name_of(1), {&whole, 1}}};
  for (const int64_t deadline : {int64_t{-1}, std::numeric_limits<int64_t>::max()})
    EXPECT_THAT(held.tier->load(one, deadline).error().message(), HasSubstr("deadline_ms is"));
  EXPECT_THAT(held.tier->load(one, 0, static_cast<LoadOrder>(2)).error().message(),
              HasSubstr("order is 2, expected pages or extents"));
  EXPECT_EQ(held.tier->figures().queued_pages, 0);
}

/// Few bytes and many extents, in the layouts of pools and in none.
TEST(QueuedTier, refuses_pages_that_share_bytes_wherever_they_lie) {
  Rng rng(test_seed());
  std::vector<std::byte> memory(4096);
  std::map<bool, int> seen;
  for (int round = 0; round < 500; ++round) {
    const int pages = rng.int_between(1, 6), layers = rng.int_between(1, 6);
    const int layout = rng.int_between(0, 2), bytes = rng.int_between(1, 20);
    std::vector<std::vector<Extent>> extents(static_cast<size_t>(pages));
    for (int p = 0; p < pages; ++p) {
      for (int e = 0; e < layers; ++e) {
        const int at = layout == 0   ? 20 * (p * 6 + e)
                       : layout == 1 ? 20 * (e * 6 + 5 - p)
                                     : rng.int_between(0, 4000);
        extents[static_cast<size_t>(p)].push_back(
            {memory.data() + at, rng.int_between(0, 60) == 0 ? bytes + 20 : bytes});
      }
      if (rng.int_between(0, 3) == 0) extents[static_cast<size_t>(p)].pop_back();
      if (extents[static_cast<size_t>(p)].empty())
        extents[static_cast<size_t>(p)].push_back({memory.data() + 4000 + p, 1});
    }
    std::vector<int> users(memory.size());
    std::vector<TierPage> of;
    for (const auto& some : extents) {
      of.push_back({name_of(1), some});
      for (const Extent& e : some)
        for (std::byte* at = e.data; at < e.data + e.bytes; ++at)
          ++users[static_cast<size_t>(at - memory.data())];
    }
    const bool is_apart = std::ranges::max(users) == 1;
    ++seen[is_apart];
    EXPECT_EQ(tier::check_pages("Tier::load", of, true).is_ok(), is_apart) << "round " << round;
    EXPECT_TRUE(tier::check_pages("Tier::store", of, false).is_ok());
  }
  EXPECT_GT(std::min(seen[true], seen[false]), 30);
}

TEST(QueuedTier, refuses_options_that_cannot_be) {
  HeldMedium::Control control;
  const auto refusal = [&](TierOptions options) {
    return std::string(
        tier::QueuedTier::create(std::make_unique<HeldMedium>(control), options).error().message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("max_bytes is 0"));
  EXPECT_THAT(refusal({.max_queued_bytes = 0, .max_bytes = 1}), HasSubstr("max_queued_bytes is 0"));
  EXPECT_THAT(refusal({.max_queued_pages = 0, .max_bytes = 1}), HasSubstr("max_queued_pages is 0"));
  EXPECT_THAT(refusal({.threads = 0, .max_bytes = 1}), HasSubstr("threads is 0"));
  EXPECT_THAT(refusal({.threads = 257, .max_bytes = 1}), HasSubstr("threads is 257"));
  EXPECT_THAT(refusal({.max_bytes = 1, .context = &control}), HasSubstr("on_completion is null"));
  EXPECT_THAT(refusal({.max_bytes = 1, .on_change = {.context = &control}}),
              HasSubstr("on_change.function is null"));
}

}  // namespace
}  // namespace folio::test
