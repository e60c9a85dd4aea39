// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_events_test.cpp: what a pool tells of its index, when, and who hears it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "pool/event_replay.h"
#include "pool/naive_names.h"
#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using testing::HasSubstr;
using Kind = PoolEventKind;

/// Hears everything.
struct Listener {
  std::vector<PoolEvent> events;
  std::vector<Tokens> tokens;
  const PagePool* peeks = nullptr;  ///< asked from inside the function
  std::vector<int32_t> peeked;
  Tokens prompt;

  [[nodiscard]] EventFunction function() {
    return {.function =
                [](void* self, const PoolEvent& event, std::span<const TokenId> of) noexcept {
                  auto& listener = *static_cast<Listener*>(self);
                  listener.events.push_back(event);
                  listener.tokens.emplace_back(of.begin(), of.end());
                  if (listener.peeks != nullptr)
                    listener.peeked.push_back(listener.peeks->peek(listener.prompt));
                },
            .context = this};
  }
  [[nodiscard]] std::vector<std::pair<Kind, int32_t>> told() const {
    std::vector<std::pair<Kind, int32_t>> all;
    for (const PoolEvent& event : events) all.emplace_back(event.kind, event.position);
    return all;
  }
};

PoolOptions small(uint32_t pages, EventFunction on_event = {}, uint32_t capacity = 0) {
  return {.num_pages = pages,
          .page_size = 2,
          .max_sequences = 4,
          .event_capacity = capacity,
          .on_event = on_event};
}

std::vector<PoolEvent> read(const PagePool& pool, uint64_t next, size_t at_most) {
  std::vector<PoolEvent> events(at_most);
  events.resize(pool.read_events(next, events).value().count);
  return events;
}

// Acceptance D4: page 2, 5 tokens: events carry the tokens of a page, a chain of parents, and what
// is removed has the name that it was stored with.
TEST(PoolEvents, a_chain_is_stored_page_by_page_and_removed_by_the_same_names) {
  Listener heard;
  NaiveNames names;
  PoolOptions options = small(3, heard.function(), 16);
  options.name = names.function();
  PagePool pool = make_pool(options);
  const SequenceId id = prefill(pool, {1, 2, 3, 4, 5}, {.salt = "tenant", .adapter = 7});
  ASSERT_EQ(heard.events.size(), 2U);
  const PageName first = NaiveNames::of(nullptr, Tokens{1, 2}, "tenant", 7);
  const PageName second = NaiveNames::of(&first, Tokens{3, 4}, "tenant", 7);
  const PoolEvent a = heard.events[0];
  const PoolEvent b = heard.events[1];
  EXPECT_EQ(heard.tokens, (std::vector<Tokens>{{1, 2}, {3, 4}}));
  EXPECT_EQ(a.name, first);
  EXPECT_FALSE(a.has_parent_name);
  EXPECT_EQ(b.name, second);
  EXPECT_TRUE(b.has_parent_name);
  EXPECT_EQ(b.parent_name, first);
  EXPECT_EQ(b.parent, a.content);
  EXPECT_NE(a.parent, 0U);
  for (const PoolEvent& e : heard.events) {
    EXPECT_TRUE(e.has_name);
    EXPECT_EQ(e.kind, Kind::stored);
    EXPECT_EQ(e.adapter, 7U);
    EXPECT_EQ(e.group, 0U);
    EXPECT_EQ(e.num_tokens, 2);
  }
  pool.release(id).or_throw();
  EXPECT_EQ(heard.events.size(), 2U) << "a cached page is stored still";
  prefill(pool, {9, 9, 9, 9, 9});
  ASSERT_EQ(heard.events.size(), 6U);
  EXPECT_EQ(heard.told(), (std::vector<std::pair<Kind, int32_t>>{{Kind::stored, 0},
                                                                 {Kind::stored, 1},
                                                                 {Kind::removed, -1},
                                                                 {Kind::removed, -1},
                                                                 {Kind::stored, 0},
                                                                 {Kind::stored, 1}}));
  EXPECT_EQ(heard.events[2].name, second) << "the tail goes first";
  EXPECT_EQ(heard.events[2].content, b.content);
  EXPECT_EQ(heard.events[2].parent, b.parent);
  EXPECT_EQ(heard.events[3].name, first);
  EXPECT_TRUE(heard.tokens[2].empty());
  EXPECT_EQ(read(pool, 1, 16), heard.events);
  for (size_t i = 0; i < heard.events.size(); ++i) EXPECT_EQ(heard.events[i].number, i + 1);
  expect_sound(pool);
}

TEST(PoolEvents, hits_and_pages_that_take_over_from_their_twins_tell_nothing) {
  Listener heard;
  PagePool pool = make_pool(small(8, heard.function()));
  const SequenceId a = pool.admit(Tokens{1, 2, 3}).value().id;
  const SequenceId b = pool.admit(Tokens{1, 2, 3}).value().id;
  feed(pool, a, {1, 2, 3});
  feed(pool, b, {1, 2, 3});  // a twin
  EXPECT_EQ(heard.events.size(), 1U);
  pool.release(a).or_throw();  // b answers
  EXPECT_EQ(heard.events.size(), 1U);
  pool.release(b).or_throw();
  EXPECT_EQ(prefill(pool, {1, 2, 3}).generation, 2U);  // a hit
  EXPECT_EQ(heard.events.size(), 1U);
  EXPECT_FALSE(heard.events[0].has_name) << "no function gives names";
  expect_sound(pool);
}

TEST(PoolEvents, content_that_its_last_page_loses_to_a_new_token_is_removed) {
  Listener heard;
  PagePool pool = make_pool(small(1, heard.function()));
  const SequenceId id = prefill(pool, {1, 2});
  pool.trim(id, 1).or_throw();
  feed(pool, id, {3});  // no page for a copy: the content goes
  EXPECT_EQ(heard.told(), (std::vector<std::pair<Kind, int32_t>>{
                              {Kind::stored, 0}, {Kind::removed, -1}, {Kind::stored, 0}}));
  EXPECT_EQ(heard.events[1].content, heard.events[0].content);
  expect_sound(pool);
}

TEST(PoolEvents, a_reader_that_is_overtaken_is_told_so_and_healed_by_a_snapshot) {
  PagePool pool =
      make_pool({.num_pages = 1000, .page_size = 1, .max_sequences = 1, .event_capacity = 100});
  EventReplay replay;
  const SequenceId id = prefill(pool, count_from(0, 1000));
  std::vector<PoolEvent> events(1000);
  EventRead got = pool.read_events(replay.next(), events).value();
  EXPECT_TRUE(got.lost);
  EXPECT_EQ(got.count, 0U);
  EXPECT_EQ(got.next, 1001U);
  EXPECT_TRUE(pool.read_events(900, events).value().lost) << "the first that was overwritten";
  got = pool.read_events(901, events).value();
  EXPECT_FALSE(got.lost);
  EXPECT_EQ(got.count, 100U);
  EXPECT_EQ(events[0].position, 900);
  replay.heal(pool);
  EXPECT_EQ(replay.next(), 1001U);
  EXPECT_EQ(replay.contents(), EventReplay::of(pool));
  EXPECT_EQ(replay.contents().size(), 1000U);
  pool.release(id).or_throw();
  prefill(pool, {-1, -2});
  got = pool.read_events(replay.next(), events).value();
  ASSERT_EQ(got.count, 4U);
  for (size_t i = 0; i < got.count; ++i) replay.take(events[i]);
  EXPECT_EQ(replay.contents(), EventReplay::of(pool));
  expect_sound(pool);
}

TEST(PoolEvents, the_ring_is_read_in_parts_and_from_numbers_that_it_never_had) {
  PagePool pool = make_pool(small(8, {}, 3));
  prefill(pool, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read(pool, 0, 2).size(), 2U);
  EXPECT_EQ(read(pool, 3, 2).size(), 1U);
  for (const uint64_t next : {uint64_t{4}, uint64_t{5}, std::numeric_limits<uint64_t>::max()}) {
    std::vector<PoolEvent> events(2);
    const EventRead got = pool.read_events(next, events).value();
    EXPECT_EQ(got.count, 0U);
    EXPECT_EQ(got.next, next);
    EXPECT_FALSE(got.lost);
  }
  EXPECT_EQ(pool.read_events(1, {}).value().next, 1U);
}

TEST(PoolEvents, a_ring_of_one_event_keeps_the_last) {
  PagePool pool = make_pool(small(8, {}, 1));
  EXPECT_TRUE(read(pool, 1, 4).empty());
  prefill(pool, {1, 2, 3, 4});
  std::vector<PoolEvent> events(4);
  EXPECT_TRUE(pool.read_events(1, events).value().lost);
  EXPECT_EQ(read(pool, 2, 4).at(0).position, 1);
}

TEST(PoolEvents, the_function_may_look_at_the_pool) {
  Listener heard;
  PagePool pool = make_pool(small(4, heard.function()));
  heard.peeks = &pool;
  heard.prompt = {1, 2, 3, 4, 5};
  const SequenceId id = prefill(pool, {1, 2, 3, 4});
  pool.release(id).or_throw();
  prefill(pool, {9, 9, 9, 9, 9, 9, 9, 9});
  EXPECT_EQ(heard.peeked, (std::vector<int32_t>{2, 4, 2, 0, 0, 0, 0, 0}));
}

// Acceptance A13, D4.
TEST(PoolEvents, clearing_tells_once_of_everything_and_nothing_is_found_then) {
  Listener heard;
  PagePool pool = make_pool(small(4, heard.function(), 8));
  pool.release(prefill(pool, {1, 2, 3, 4, 5})).or_throw();
  heard.peeks = &pool;
  heard.prompt = {1, 2, 3};
  EXPECT_EQ(pool.stats().cached_pages, 2);
  pool.clear().or_throw();
  EXPECT_EQ(heard.told(), (std::vector<std::pair<Kind, int32_t>>{
                              {Kind::stored, 0}, {Kind::stored, 1}, {Kind::cleared, -1}}));
  EXPECT_EQ(heard.peeked, (std::vector<int32_t>{0}));
  EXPECT_EQ(heard.events.back().content, 0U);
  EXPECT_EQ(EventReplay::of(pool), EventReplay::Contents());
  EXPECT_EQ(read(pool, 3, 2).at(0), heard.events.back());
  const SequenceId id = prefill(pool, {1, 2});
  EXPECT_EQ(pool.clear().code(), Errc::busy);
  EXPECT_EQ(heard.events.size(), 4U) << "what is refused tells nothing";
  EXPECT_GT(heard.events[3].content, heard.events[1].content);
  pool.release(id).or_throw();
  prefill(pool, {9, 9, 9, 9, 9, 9, 9, 9});
  EXPECT_EQ(heard.events[4].kind, Kind::removed) << "pages tell again what happens to them";
  expect_sound(pool);
}

TEST(PoolEvents, tails_copies_and_merged_pages_tell_nothing) {
  Listener heard;
  PoolOptions options = small(8, heard.function());
  options.page_size = 4;
  options.min_partial_tokens = 1;
  PagePool pool = make_pool(options);
  pool.release(prefill(pool, count_from(0, 7))).or_throw();  // a page and a tail
  EXPECT_EQ(heard.events.size(), 1U);
  const Admission a = pool.admit(count_from(0, 8)).value();
  EXPECT_EQ(a.cached_tokens, 7);
  static_cast<void>(pool.take_copies());
  feed(pool, a.id, {7});
  EXPECT_EQ(heard.events.size(), 2U) << "the copy has become full";
  EXPECT_EQ(heard.events[1].position, 1);
  const SequenceId b = pool.admit(Tokens{100}).value().id, c = pool.admit(Tokens{100}).value().id;
  feed(pool, b, count_from(100, 4));
  pool.reserve(c, 4).or_throw();
  pool.commit(c, count_from(100, 4), Merge::allowed).or_throw();
  EXPECT_EQ(heard.events.size(), 3U);
  EXPECT_EQ(row(pool, b, 1), row(pool, c, 1));
  expect_sound(pool);
}

TEST(PoolEvents, a_function_of_names_that_fails_leaves_events_without_names) {
  Listener heard;
  NaiveNames names{.fail_at = 1};
  PoolOptions options = small(8, heard.function());
  options.name = names.function();
  PagePool pool = make_pool(options);
  const SequenceId id = prefill(pool, {1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_EQ(heard.events.size(), 4U);
  EXPECT_TRUE(heard.events[0].has_name);
  EXPECT_FALSE(heard.events[1].has_name);
  EXPECT_TRUE(heard.events[1].has_parent_name);
  EXPECT_FALSE(heard.events[2].has_name);
  EXPECT_FALSE(heard.events[2].has_parent_name);
  EXPECT_EQ(names.calls, 2) << "a page behind one without a name is not tried";
  EXPECT_TRUE(pool.name(id, 3).has_value());
  expect_sound(pool);
}

TEST(PoolEvents, forgotten_namespaces_can_store_a_name_twice) {
  Listener heard;
  NaiveNames names;
  PoolOptions options = small(8, heard.function());
  options.name = names.function();
  options.max_namespaces = 0;
  options.max_sequences = 1;
  PagePool pool = make_pool(options);
  pool.release(prefill(pool, {1, 2, 3})).or_throw();
  pool.release(prefill(pool, {1, 2, 3}, {.salt = "other"})).or_throw();
  pool.release(prefill(pool, {1, 2, 3})).or_throw();
  ASSERT_EQ(heard.events.size(), 3U);
  EXPECT_EQ(heard.events[0].name, heard.events[2].name);
  EXPECT_NE(heard.events[0].content, heard.events[2].content);
}

TEST(PoolEvents, what_is_off_takes_no_memory_and_tells_nothing) {
  const int64_t off = PagePool::required_bytes(small(8)).value();
  const int64_t on = PagePool::required_bytes(small(8, {}, 8)).value();
  EXPECT_EQ(on - off, 8 * 48);
  EXPECT_EQ(PagePool::required_bytes(small(8, Listener().function())).value(), off);
  NaiveNames names;
  PoolOptions named = small(8);
  named.name = names.function();
  const int64_t silent = PagePool::required_bytes(named).value();
  named.event_capacity = 8;
  EXPECT_EQ(PagePool::required_bytes(named).value() - silent, 8 * 120);
  PagePool pool = make_pool(small(8));
  std::vector<PoolEvent> events(1);
  EXPECT_THAT(pool.read_events(1, events).error().message(),
              HasSubstr("read_events: the pool has no events, expected event_capacity"));
  EXPECT_THAT(pool.snapshot(Listener().function()).error().message(),
              HasSubstr("snapshot: the pool has no events"));
}

TEST(PoolEvents, moving_a_pool_takes_its_events_along) {
  PagePool pool = make_pool(small(8, {}, 8));
  prefill(pool, {1, 2});
  PagePool moved = std::move(pool);
  prefill(moved, {3, 4});
  EXPECT_EQ(read(moved, 1, 8).size(), 2U);
  // NOLINTBEGIN(bugprone-use-after-move): what is tested
  EXPECT_EQ(pool.read_events(1, {}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(pool.snapshot(Listener().function()).error().code(), Errc::invalid_argument);
  // NOLINTEND(bugprone-use-after-move)
}

TEST(PoolEvents, bad_options_and_arguments_are_refused) {
  const auto refused = [](const PoolOptions& options) {
    return std::string(PagePool::create(options).error().message());
  };
  Listener heard;
  EXPECT_THAT(refused(small(8, {}, 0xffffffffU)), HasSubstr("event_capacity is 4294967295"));
  EXPECT_THAT(refused(small(8, {.context = &heard})), HasSubstr("on_event.function is null"));
  PoolOptions options = small(8, heard.function());
  options.prefix_reuse = false;
  EXPECT_THAT(refused(options), HasSubstr("on_event.function is given, expected none"));
  options = small(8, {}, 1);
  options.prefix_reuse = false;
  EXPECT_THAT(refused(options), HasSubstr("event_capacity is given, expected none"));
  PagePool pool = make_pool(small(8, {}, 1));
  const auto* null = static_cast<PoolEvent*>(nullptr);
  EXPECT_THAT(pool.read_events(1, {const_cast<PoolEvent*>(null), 2}).error().message(),
              HasSubstr("events is null"));
  EXPECT_THAT(pool.snapshot({}).error().message(), HasSubstr("visit.function is null"));
}

}  // namespace
}  // namespace folio::test
