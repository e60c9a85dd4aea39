// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_events_test.cpp: what a pool tells of its index, when, and who hears it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "pool/event_listener.h"
#include "pool/event_replay.h"
#include "pool/naive_names.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using Kind = PoolEventKind;

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

}  // namespace
}  // namespace folio::test
