// SPDX-License-Identifier: Apache-2.0
/// tests/pool/retention_limits_test.cpp: callers who ask for too much, nonsense, times, and
/// what keeping costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "pool/inspection.h"
#include "pool/pool_memory.h"
#include "pool/retention_helpers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(pool::PoolInspection::retention(pool), nullptr);
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

}  // namespace
}  // namespace folio::test
