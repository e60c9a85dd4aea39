// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_event_ring_test.cpp: events that are read later: the ring that holds the last of
/// them, and its options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "pool/event_listener.h"
#include "pool/event_replay.h"
#include "pool/group_helpers.h"
#include "pool/naive_names.h"

namespace folio::test {
namespace {

using testing::HasSubstr;

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

/// Names of companions are asked for while a snapshot looks at the pool's pages.
TEST(PoolEvents, no_call_of_the_pool_runs_within_the_names_of_a_snapshot) {
  struct Caller {
    PagePool* pool = nullptr;
    Status last = {};
    int32_t asked = 0;
  } caller;
  const NameFunction names{
      .function = [](void*, const PageContent& page, PageName* name) noexcept -> Status {
        name->bytes[0] = static_cast<uint8_t>(page.tokens.front());
        return {};
      },
      .context = &caller,
      .companion = [](void* self, const pool::CompanionContent& content,
                      PageName* name) noexcept -> Status {
        auto& of = *static_cast<Caller*>(self);
        *name = content.leading;
        ++of.asked;
        if (of.pool != nullptr) of.last = of.pool->clear();
        return {};
      }};
  PagePool pool = make_hybrid({full(64), window(64, 6)}, 16 * 64, 4,
                              {.max_pages_per_sequence = 8, .name = names, .event_capacity = 8});
  const SequenceId id = prefill(pool, count_from(0, 8));
  pool.release(id).or_throw();
  caller.pool = &pool;
  caller.asked = 0;
  Listener listener;
  ASSERT_TRUE(pool.snapshot(listener.function()));
  EXPECT_EQ(caller.asked, 2);
  EXPECT_EQ(caller.last.code(), Errc::busy);
  caller.pool = nullptr;
  EXPECT_EQ(pool.peek(count_from(0, 9)), 8) << "nothing has changed";
  EXPECT_TRUE(pool.clear().is_ok()) << "and calls run again";
}

}  // namespace
}  // namespace folio::test
