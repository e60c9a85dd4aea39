// SPDX-License-Identifier: Apache-2.0
/// tests/pool/retention_test.cpp: how long pages are kept: levels, deadlines, pins, and callers who
/// ask for too much.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "pool/inspection.h"
#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"
#include "pool/timing_wheel.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t pinned = retention_level::pinned;
using Ranges = std::vector<RetentionRange>;

Ranges everything(int32_t level, int64_t ms = 0) { return {{.level = level, .milliseconds = ms}}; }

PagePool keeping_pool(uint32_t pages, int64_t max_ms = 1000) {
  return make_pool({.num_pages = pages, .page_size = 4, .max_retention_ms = max_ms});
}

/// Comes, is computed, and goes. The first `prompt` tokens are the prompt.
void serve(PagePool& pool, const Tokens& tokens, const Ranges& ranges = {},
           DecodeRetention decode = {}, size_t prompt = 0) {
  if (prompt == 0) prompt = tokens.size();
  const Admission a =
      pool.admit({tokens.data(), prompt}, {.retention = ranges, .decode_retention = decode})
          .value();
  feed(pool, a.id, {tokens.begin() + a.cached_tokens, tokens.end()});
  pool.release(a.id).or_throw();
  expect_sound(pool);
}

int32_t found(const PagePool& pool, const Tokens& tokens) { return pool.peek(tokens + Tokens{-1}); }

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
  const auto level = [&](uint32_t page) { return PoolInspection::record(pool, page).level; };
  EXPECT_EQ(level(0), 90);
  EXPECT_EQ(level(1), 90);
  EXPECT_EQ(level(2), 60) << "it is needed by what continues it";
  EXPECT_EQ(level(3), 60);
}

TEST(Retention, of_two_requests_with_a_page_the_higher_level_counts) {
  PagePool pool = keeping_pool(8);
  const auto level = [&] { return int{PoolInspection::record(pool, 0).level}; };
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

// ---- Callers who ask for too much

TEST(Retention, when_everything_is_pinned_reserve_and_fork_say_so_and_change_nothing) {
  PoolMemory memory;
  PagePool pool =
      make_pool(memory.hooked({.num_pages = 4, .page_size = 4, .max_retention_ms = 1000}));
  serve(pool, count_from(0, 12), everything(pinned, 7));
  const SequenceId id = prefill(pool, count_from(100, 3));
  const std::vector<std::byte> before = memory.snapshot();
  EXPECT_EQ(
      pool.reserve(id, 2).message(),
      "PagePool::reserve: 1 pages needed, 0 of 4 are free or can be evicted, 0 of these are held "
      "back, 3 others are pinned");
  EXPECT_EQ(
      pool.fork(id, 2).error().message(),
      "PagePool::fork: 1 pages needed, 0 of 4 are free or can be evicted, 0 of these are held "
      "back, 3 others are pinned");
  EXPECT_EQ(pool.reserve(id, 2).code(), Errc::out_of_pages);
  EXPECT_EQ(memory.snapshot(), before);
  pool.advance_time(0).or_throw();
  pool.advance_time(7).or_throw();
  EXPECT_TRUE(pool.reserve(id, 13).is_ok());
  expect_sound(pool);
}

TEST(Retention, a_tenant_who_pins_with_every_request_has_nothing_left_when_his_time_is_over) {
  PagePool pool =
      make_pool({.num_pages = 64, .page_size = 4, .max_namespaces = 2, .max_retention_ms = 1000});
  for (int32_t i = 0; i < 32; ++i) {  // a salt for each: most are forgotten, and not found again
    const std::string salt = std::to_string(i);
    const Ranges ranges = everything(pinned);
    const SequenceOptions options{.salt = salt, .retention = ranges};
    pool.release(prefill(pool, count_from(0, 8), options)).or_throw();
  }
  EXPECT_EQ(pool.stats().pinned_pages, 64);
  pool.advance_time(3).or_throw();
  pool.advance_time(1003).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 0);
  serve(pool, count_from(1000, 64 * 4));
  expect_sound(pool);
}

TEST(Retention, nonsense_is_refused_by_name_and_changes_nothing) {
  PoolMemory memory;
  PagePool pool =
      make_pool(memory.hooked({.num_pages = 4, .page_size = 4, .max_retention_ms = 1000}));
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  constexpr int64_t most64 = std::numeric_limits<int64_t>::max();
  const std::pair<Ranges, const char*> cases[] = {
      {{{-1, 4, 50}}, "retention range 0 is -1 .. 4, expected 0 <= begin < end"},
      {{{0, 4}, {4, 4, 50}}, "retention range 1 is 4 .. 4, expected 0 <= begin < end"},
      {{{5, 4, 50}}, "retention range 0 is 5 .. 4"},
      {{{most, most, 50}}, "retention range 0 is 2147483647 .. 2147483647"},
      {{{0, std::numeric_limits<int32_t>::min(), 50}}, "retention range 0 is 0 .. -2147483648"},
      {{{0, 4, 101}}, "level of retention range 0 is 101, expected 0 .. 100"},
      {{{0, 4, -1}}, "level of retention range 0 is -1, expected 0 .. 100"},
      {{{0, 4, 256 + 35}}, "level of retention range 0 is 291"},
      {{{0, 4, 50, -1}}, "milliseconds of retention range 0 are -1, expected 0 .. 1000"},
      {{{0, 4, 50, 1001}}, "milliseconds of retention range 0 are 1001"},
      {{{0, 4, 50, most64}}, "milliseconds of retention range 0 are 9223372036854775807"},
      {Ranges(9), "retention has 9 ranges, expected at most 8"},
  };
  const std::vector<std::byte> before = memory.snapshot();
  for (const auto& [ranges, expected] : cases) {
    const SequenceOptions options{.retention = ranges};
    for (const Status& s : {pool.admit(count_from(0, 8), options).error(),
                            pool.retain(count_from(0, 8), options).error()}) {
      EXPECT_EQ(s.code(), Errc::invalid_argument);
      EXPECT_THAT(std::string(s.message()), HasSubstr(expected));
    }
  }
  const SequenceOptions null{.retention = {static_cast<RetentionRange*>(nullptr), 2}};
  EXPECT_THAT(std::string(pool.admit(count_from(0, 8), null).error().message()),
              HasSubstr("retention is null"));
  for (const DecodeRetention decode :
       {DecodeRetention{101}, {-2}, {50, -1}, {50, 1001}, {50, most64}}) {
    EXPECT_THAT(std::string(pool.admit(Tokens{1}, {.decode_retention = decode}).error().message()),
                HasSubstr("decode_retention"));
  }
  EXPECT_EQ(memory.snapshot(), before);
  EXPECT_TRUE(pool.admit(Tokens{1}, {.retention = Ranges(8)}).has_value());
}

TEST(Retention, time_does_not_go_back) {
  PagePool pool = keeping_pool(4);
  EXPECT_EQ(pool.advance_time(-1).code(), Errc::invalid_argument);
  pool.advance_time(50).or_throw();
  pool.advance_time(50).or_throw();
  EXPECT_EQ(pool.advance_time(49).message(),
            "PagePool::advance_time: now_ms is 49, expected at least 50 (the time said last)");
  EXPECT_EQ(pool.advance_time(std::numeric_limits<int64_t>::min()).code(), Errc::invalid_argument);
  serve(pool, count_from(0, 8), everything(pinned));
  pool.advance_time(std::numeric_limits<int64_t>::max()).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 0);
  serve(pool, count_from(0, 8), everything(pinned));  // deadlines behind the end of time
  pool.advance_time(std::numeric_limits<int64_t>::max()).or_throw();
  EXPECT_EQ(pool.stats().pinned_pages, 2);
  expect_sound(pool);
}

TEST(Retention, the_longest_times_end_never_early_and_late_by_less_than_a_tick) {
  for (const int64_t max_ms :
       {int64_t{1}, int64_t{16'515'071}, int64_t{1} << 40, std::numeric_limits<int64_t>::max()}) {
    PagePool pool = keeping_pool(4, max_ms);
    const int64_t tick = max_ms / 16'515'071 + 1;
    pool.advance_time(0).or_throw();
    const int64_t start = std::min<int64_t>(tick / 3, 1000);
    pool.advance_time(start).or_throw();
    serve(pool, count_from(0, 8), everything(pinned));
    if (max_ms > std::numeric_limits<int64_t>::max() - start - 2 * tick) {
      pool.advance_time(std::numeric_limits<int64_t>::max()).or_throw();
      expect_sound(pool);
      continue;
    }
    pool.advance_time(start + max_ms - 1).or_throw();
    EXPECT_EQ(pool.stats().pinned_pages, 2) << max_ms;
    expect_sound(pool);
    pool.advance_time(start + max_ms + 2 * tick).or_throw();
    EXPECT_EQ(pool.stats().pinned_pages, 0) << max_ms;
    expect_sound(pool);
  }
}

TEST(Retention, without_the_option_nothing_may_be_asked_for_and_no_byte_is_taken) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  EXPECT_EQ(pool.admit(Tokens{1}, {.retention = everything(50)}).error().message(),
            "PagePool::admit: retention is given, expected none, as max_retention_ms is 0");
  EXPECT_EQ(pool.admit(Tokens{1}, {.decode_retention = {50}}).error().code(),
            Errc::invalid_argument);
  EXPECT_EQ(pool.retain(count_from(0, 4), {}).error().code(), Errc::invalid_argument);
  EXPECT_TRUE(pool.advance_time(5).is_ok());
  EXPECT_EQ(pool.advance_time(-5).code(), Errc::invalid_argument);
  EXPECT_EQ(PoolInspection::retention(pool), nullptr);
  for (const int64_t bad : {int64_t{-1}, std::numeric_limits<int64_t>::min()})
    EXPECT_EQ(PagePool::create({.num_pages = 4, .max_retention_ms = bad}).error().code(),
              Errc::invalid_argument);
  EXPECT_EQ(PagePool::create({.num_pages = 4, .prefix_reuse = false, .max_retention_ms = 1})
                .error()
                .code(),
            Errc::invalid_argument);
}

TEST(Retention, a_page_takes_12_bytes_more) {
  const auto bytes = [](uint32_t pages, int64_t max_ms) {
    return PagePool::required_bytes(
               {.num_pages = pages, .max_pages_per_sequence = 1, .max_retention_ms = max_ms})
        .value();
  };
  const int64_t fixed = bytes(1, 1000) - bytes(1, 0);
  for (const uint32_t pages : {1U << 16, 1'000'000U})
    EXPECT_LE(bytes(pages, 1000) - bytes(pages, 0), 12 * int64_t{pages} + fixed + 128);
}

TEST(Retention, a_moved_from_pool_has_no_time_and_keeps_nothing) {
  PagePool pool = keeping_pool(4);
  const PagePool other = std::move(pool);
  EXPECT_EQ(pool.advance_time(1).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.retain(Tokens{1}, {}).error().code(), Errc::invalid_argument);
}

// ---- The wheel

/// Pages by deadline, and of one deadline in the order in which they came.
RC_GTEST_PROP(TimingWheel, tells_of_each_page_when_its_time_comes_in_order, ()) {
  constexpr uint32_t num_pages = 40;
  std::vector<pool::TimingWheel::Entry> entries(num_pages), heads(256);
  pool::TimingWheel wheel;
  wheel.attach(pool::PerPage(entries.data()), heads.data(), num_pages);
  struct Entry {
    uint64_t deadline = 0;
    int order = 0;
    uint32_t page = 0;
  };
  std::vector<Entry> waiting;
  uint64_t now = 0;
  int clock = 0;
  const auto bits = rc::gen::inRange(0, 25);
  for (int i = 0; i < 200; ++i) {
    const uint32_t page = *rc::gen::inRange(0U, num_pages);
    const auto at = std::find_if(waiting.begin(), waiting.end(),
                                 [&](const Entry& e) { return e.page == page; });
    const uint32_t span = 1U << *bits;
    const uint32_t ticks = std::min(span + *rc::gen::inRange(0U, span), pool::TimingWheel::longest);
    if (at != waiting.end()) {
      wheel.remove(page);
      waiting.erase(at);
    } else {
      wheel.insert(page, ticks);
      waiting.push_back({now + ticks, ++clock, page});
    }
    if (i % 5 == 0) {
      const uint64_t passed = i == 100 ? uint64_t{1} << 33 : ticks - 1;
      now += passed;
      std::vector<uint32_t> told, expected;
      wheel.advance(passed, [&](uint32_t due) { told.push_back(due); });
      std::sort(waiting.begin(), waiting.end(), [](const Entry& a, const Entry& b) {
        return std::pair(a.deadline, a.order) < std::pair(b.deadline, b.order);
      });
      while (!waiting.empty() && waiting.front().deadline <= now) {
        expected.push_back(waiting.front().page);
        waiting.erase(waiting.begin());
      }
      RC_ASSERT(told == expected);
    }
    uint32_t count = 0;
    RC_ASSERT(wheel.fault(&count) == nullptr);
    RC_ASSERT(count == waiting.size());
    for (const Entry& e : waiting) RC_ASSERT(wheel.remaining(e.page) == e.deadline - now);
  }
}

}  // namespace
}  // namespace folio::test
