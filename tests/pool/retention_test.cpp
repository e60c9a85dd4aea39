// SPDX-License-Identifier: Apache-2.0
/// tests/pool/retention_test.cpp: how long pages are kept: levels, deadlines, pins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "pool/inspection.h"
#include "pool/retention_helpers.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;

// ---- Scripts of TensorRT-LLM

TEST(Acceptance, what_continues_a_prompt_goes_before_it_whatever_their_priorities) {  // B3
  PagePool pool = keeping_pool(8);
  const Tokens first = count_from(0, 16), second = count_from(100, 16);
  const Admission a =
      pool.admit({first.data(), 12}, {.retention = everything(5), .decode_retention = {90}})
          .value();
  feed(pool, a.id, first);
  const Admission b =
      pool.admit({second.data(), 12}, {.retention = Ranges{{0, 12, 90}}, .decode_retention = {5}})
          .value();
  feed(pool, b.id, second);
  EXPECT_THAT(row(pool, a.id, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(row(pool, b.id, 4), ElementsAre(4, 5, 6, 7));
  pool.release(a.id).or_throw();
  pool.release(b.id).or_throw();
  expect_sound(pool);
  const SequenceId c = prefill(pool, count_from(200, 12));
  EXPECT_THAT(row(pool, c, 3), ElementsAre(7, 3, 2));
  EXPECT_EQ(found(pool, first), 8);
  expect_sound(pool);
}

TEST(Acceptance, a_priority_that_has_expired_protects_no_more) {  // B4
  PagePool pool = keeping_pool(6);
  const Tokens first = count_from(0, 12), second = count_from(100, 12);
  serve(pool, first, everything(80, 10));
  serve(pool, second, everything(50));
  pool.advance_time(1'000'000).or_throw();  // sets the clock
  EXPECT_EQ(found(pool, first), 12);
  pool.advance_time(1'000'050).or_throw();
  expect_sound(pool);
  serve(pool, count_from(200, 12));
  EXPECT_EQ(found(pool, first), 0);
  EXPECT_EQ(found(pool, second), 12);
}

TEST(Acceptance, decoded_tokens_are_kept_at_most_as_long_as_was_asked_for) {  // B5
  PagePool pool = keeping_pool(4);
  const Tokens tokens = count_from(0, 16);
  serve(pool, tokens, {}, {pinned, 20}, 8);
  EXPECT_EQ(pool.stats().pinned_pages, 4) << "without the prompt nobody finds what continues it";
  const SequenceId other = pool.admit(count_from(100, 8)).value().id;
  EXPECT_EQ(pool.reserve(other, 8).code(), Errc::out_of_pages);
  pool.advance_time(0).or_throw();
  pool.advance_time(50).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 0);
  feed(pool, other, count_from(100, 8));
  EXPECT_EQ(found(pool, tokens), 8);
  expect_sound(pool);
}

// ---- Levels

TEST(Retention, lower_levels_go_first_then_the_policys_pages_then_higher_levels) {
  for (const Eviction eviction : {Eviction::lru, Eviction::s3_fifo, Eviction::lfu}) {
    PagePool pool =
        make_pool({.num_pages = 5, .page_size = 4, .eviction = eviction, .max_retention_ms = 1000});
    const int32_t levels[] = {64, 35, 0, 99, 34};
    for (int32_t i = 0; i < 5; ++i) serve(pool, count_from(100 * i, 4), everything(levels[i]));
    for (const int32_t gone : {2, 4, 1, 0, 3}) {
      EXPECT_EQ(found(pool, count_from(100 * gone, 4)), 4) << levels[gone];
      const SequenceId id = pool.admit(Tokens{-1}).value().id;  // held, so that it takes a page
      pool.reserve(id, 4).or_throw();
      EXPECT_EQ(found(pool, count_from(100 * gone, 4)), 0) << levels[gone];
      expect_sound(pool);
    }
  }
}

TEST(Retention, the_highest_of_overlapping_ranges_counts_and_of_a_page_in_part_all) {
  PagePool pool = keeping_pool(8);
  const Ranges ranges = {{0, 16, 10}, {3, 5, 90}, {15, 16, 60}};
  serve(pool, count_from(0, 16), ranges);
  const auto level = [&](uint32_t page) { return pool::PoolInspection::record(pool, page).level; };
  EXPECT_EQ(level(0), 90);
  EXPECT_EQ(level(1), 90);
  EXPECT_EQ(level(2), 60) << "it is needed by what continues it";
  EXPECT_EQ(level(3), 60);
}

TEST(Retention, of_two_requests_with_a_page_the_higher_level_counts) {
  PagePool pool = keeping_pool(8);
  const auto level = [&] { return int{pool::PoolInspection::record(pool, 0).level}; };
  serve(pool, count_from(0, 4), everything(20));
  EXPECT_EQ(level(), 20);
  serve(pool, count_from(0, 5), everything(90, 10));
  EXPECT_EQ(level(), 90);
  serve(pool, count_from(0, 5), everything(0, 1000));
  EXPECT_EQ(level(), 90) << "a stranger takes nothing away";
  serve(pool, count_from(0, 5));
  EXPECT_EQ(level(), 90);
  pool.advance_time(1).or_throw();
  pool.advance_time(11).or_throw();
  EXPECT_EQ(level(), 35);
}

TEST(Retention, a_lease_lasts_from_the_release_and_a_later_one_prolongs_it) {
  PagePool pool = keeping_pool(4);
  pool.advance_time(500).or_throw();
  const Tokens turn = count_from(0, 8);
  const Admission a = pool.admit(turn, {.retention = everything(pinned, 100)}).value();
  feed(pool, a.id, turn);
  pool.advance_time(5000).or_throw();  // a long step
  pool.release(a.id).or_throw();
  pool.advance_time(5099).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 2);
  serve(pool, turn + count_from(50, 4), everything(pinned, 100));
  pool.advance_time(5198).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 3);
  pool.advance_time(5199).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 0);
  EXPECT_EQ(pool.stats().cached_pages, 3);
  expect_sound(pool);
}

TEST(Retention, retain_pins_and_unpins_what_is_cached) {
  PagePool pool = keeping_pool(4);
  const Tokens tokens = count_from(0, 12);
  serve(pool, tokens);
  EXPECT_EQ(pool.retain(tokens, {.retention = Ranges{{0, 8, pinned}}}).value(), 12);
  EXPECT_EQ(pool.stats().pinned_pages, 2);
  serve(pool, count_from(100, 8));
  EXPECT_EQ(found(pool, tokens), 8);
  EXPECT_EQ(pool.retain(tokens, {.retention = everything(retention_level::normal)}).value(), 8);
  EXPECT_EQ(pool.stats().pinned_pages, 0);
  EXPECT_EQ(pool.retain(count_from(900, 12), {.retention = everything(pinned)}).value(), 0);
  EXPECT_EQ(pool.retain(tokens, {.salt = "other", .retention = everything(pinned)}).value(), 0);
  EXPECT_EQ(pool.retain(tokens, {}).value(), 8) << "says nothing, changes nothing";
  expect_sound(pool);
}

TEST(Retention, forks_ask_for_what_their_parent_asked_for) {
  PagePool pool = keeping_pool(8);
  const Tokens tokens = count_from(0, 8);
  const Admission a = pool.admit(tokens, {.retention = everything(pinned)}).value();
  feed(pool, a.id, tokens);
  const SequenceId child = pool.fork(a.id, 8).value();
  feed(pool, child, count_from(50, 4));
  pool.release(child).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 1) << "the parent holds the others";
  pool.release(a.id).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 3);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
