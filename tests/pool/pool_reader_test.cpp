// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_reader_test.cpp: readers in other threads, beside a scheduler that works. Under
/// ThreadSanitizer, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "folio/pool/reader.h"
#include "pool/event_replay.h"
#include "pool/pool_helpers.h"
#include "support/random.h"

namespace folio::test {
namespace {

using testing::HasSubstr;

constexpr int num_readers = 3, rounds = 2000;

PoolOptions small(uint32_t pages, Eviction eviction = Eviction::lru) {
  return {.num_pages = pages,
          .page_size = 2,
          .max_sequences = 8,
          .max_namespaces = 2,
          .eviction = eviction,
          .readers = true};
}

Tokens random_prompt(Rng& rng, int32_t at_most) {
  Tokens prompt(static_cast<size_t>(rng.int_between(1, at_most)));
  for (TokenId& token : prompt) token = rng.int_between(0, 1);
  return prompt;
}

/// Runs `read` in several threads, again and again, until `work` has ended, and once after it.
void beside_readers(const std::function<void()>& work, const std::function<void(Rng&)>& read) {
  std::atomic<bool> done = false;
  std::atomic<int> reading = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < num_readers; ++i) {
    threads.emplace_back([&, i] {
      Rng rng(static_cast<uint64_t>(i));
      read(rng);
      ++reading;
      while (!done) read(rng);
      read(rng);
    });
  }
  while (reading != num_readers) std::this_thread::yield();
  work();
  done = true;
  for (std::thread& thread : threads) thread.join();
}

/// Requests of all kinds that are served and given up, in a pool that they overflow.
void work_at_random(PagePool& pool, uint64_t seed, int32_t prompt_tokens) {
  Rng rng(seed);
  std::vector<SequenceId> alive;
  for (int round = 0; round < rounds; ++round) {
    if (round % 32 == 0) std::this_thread::yield();  // readers have a turn on small machines, too
    const Tokens prompt = random_prompt(rng, prompt_tokens);
    const SequenceOptions options{.adapter = static_cast<uint64_t>(rng.int_between(0, 5))};
    if (alive.size() == 4 || rng.chance(0.3)) {
      while (!alive.empty()) {
        pool.release(alive.back()).or_throw();
        alive.pop_back();
      }
    }
    const Admission a = pool.admit(prompt, options).value();
    alive.push_back(a.id);
    const Tokens rest(prompt.begin() + a.cached_tokens, prompt.end());
    if (!pool.reserve(a.id, static_cast<int32_t>(rest.size())).is_ok()) continue;
    static_cast<void>(pool.take_copies());
    const bool merges = rng.chance(0.5);  // not in a step
    const StepTicket step = pool.begin_step(alive).value();
    if (!merges) pool.commit(a.id, rest).or_throw();
    pool.end_step(step).or_throw();
    if (merges) pool.commit(a.id, rest, Merge::allowed).or_throw();
  }
  for (const SequenceId id : alive) pool.release(id).or_throw();
}

class PoolReaders : public testing::TestWithParam<Eviction> {};

TEST_P(PoolReaders, say_what_the_pool_says_when_nobody_works) {
  PagePool pool = make_pool(small(24, GetParam()));
  const PoolReader reader = PoolReader::of(pool).value();
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const Tokens prompt = random_prompt(rng, 14);
    const SequenceOptions options{.salt = i % 2 == 0 ? "" : "salt",
                                  .adapter = static_cast<uint64_t>(i % 3)};
    EXPECT_EQ(reader.peek(prompt, options), pool.peek(prompt, options));
    pool.release(prefill(pool, prompt, options)).or_throw();
    EXPECT_EQ(reader.peek(prompt, options), pool.peek(prompt, options));
    EXPECT_EQ(reader.stats().value(), pool.stats());
  }
  EXPECT_GT(pool.stats().evicted_pages, 0);
  EXPECT_GT(pool.stats().hit_pages, 0);
}

TEST_P(PoolReaders, find_what_stays_exactly_while_everything_else_changes) {
  PagePool pool = make_pool(small(24, GetParam()));
  const Tokens kept{7, 7, 0, 1, 0, 1, 7, 7};
  prefill(pool, kept, {.salt = "kept"});
  const PoolReader reader = PoolReader::of(pool).value();
  std::atomic<int64_t> asked = 0, wrong = 0;
  beside_readers([&] { work_at_random(pool, 1, 14); },
                 [&](Rng& rng) {
                   wrong += reader.peek(kept + Tokens{1}, {.salt = "kept"}) != 8;
                   wrong += reader.peek(kept, {.salt = "kept"}) != 6;  // one token short
                   wrong += reader.peek(kept + Tokens{1}, {.salt = "never"}) != 0;
                   const Tokens other = random_prompt(rng, 14);
                   const int32_t found = reader.peek(other, {.adapter = 1});
                   wrong +=
                       found < 0 || found % 2 != 0 || found >= static_cast<int32_t>(other.size());
                   ++asked;
                 });
  EXPECT_EQ(wrong, 0) << "of " << asked;
  expect_sound(pool);
}

TEST_P(PoolReaders, see_statistics_of_one_moment) {
  PagePool pool = make_pool(small(24, GetParam()));
  const PoolReader reader = PoolReader::of(pool).value();
  std::atomic<int64_t> wrong = 0;
  beside_readers([&] { work_at_random(pool, 2, 14); },
                 [&](Rng&) {
                   thread_local int64_t looked_up = 0;
                   const Result<PoolStats> read = reader.stats();
                   if (!read) return;  // busy
                   const PoolStats& s = *read;
                   wrong += s.used_pages + s.cached_pages + s.free_pages != 24;
                   wrong += s.hit_tokens != 2 * s.hit_pages || s.hit_pages > s.lookup_pages;
                   wrong += s.lookup_pages < looked_up;  // never back
                   wrong += s.unfinished_steps < 0 || s.unfinished_steps > 1;
                   looked_up = s.lookup_pages;
                 });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(reader.stats().value(), pool.stats());
}

INSTANTIATE_TEST_SUITE_P(Policies, PoolReaders,
                         testing::Values(Eviction::lru, Eviction::s3_fifo, Eviction::lfu));

// The page of the content changes all the time, the content does not.
TEST(PoolReader, finds_content_whose_pages_take_over_from_each_other) {
  PagePool pool = make_pool(small(24));
  const Tokens kept{7, 7, 0, 1, 0, 1, 7, 7};
  SequenceId holder = prefill(pool, kept);
  const PoolReader reader = PoolReader::of(pool).value();
  std::atomic<int64_t> wrong = 0;
  beside_readers(
      [&] {
        for (int i = 0; i < rounds; ++i) {
          if (i % 32 == 0) std::this_thread::yield();
          const SequenceId next = pool.admit(Tokens{7}).value().id;
          feed(pool, next, kept);  // pages of its own: twins
          pool.release(holder).or_throw();
          holder = next;
        }
      },
      [&](Rng&) { wrong += reader.peek(kept + Tokens{1}) != 8; });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.stats().evicted_pages, 0);
  expect_sound(pool);
}

TEST(PoolReader, finds_whole_pages_where_the_pool_finds_tokens_too) {
  PoolOptions options = small(24);
  options.page_size = 4;
  options.min_partial_tokens = 1;
  PagePool pool = make_pool(options);
  const Tokens kept{7, 7, 0, 1, 0, 1, 7, 7};
  prefill(pool, kept);
  const PoolReader reader = PoolReader::of(pool).value();
  EXPECT_EQ(pool.peek(kept), 7);
  std::atomic<int64_t> wrong = 0;
  beside_readers([&] { work_at_random(pool, 5, 14); },
                 [&](Rng& rng) {
                   wrong += reader.peek(kept + Tokens{1}) != 8;
                   wrong += reader.peek(kept) != 4;
                   wrong += reader.peek(random_prompt(rng, 14), {.adapter = 1}) % 4 != 0;
                 });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(pool.stats().hit_tokens_partial, 0);
  EXPECT_GT(pool.stats().evicted_pages, 0);
  expect_sound(pool);
}

/// Names whose words are all the same: a torn one is seen.
Status one_word(void* counter, const PageContent&, PageName* name) noexcept {
  const uint64_t word = ++*static_cast<uint64_t*>(counter);
  for (size_t i = 0; i < name->bytes.size(); i += sizeof word)
    std::memcpy(&name->bytes[i], &word, sizeof word);
  return {};
}

bool is_torn(const PageName& name) {
  return std::memcmp(name.bytes.data(), &name.bytes[8], name.bytes.size() - 8) != 0;
}

TEST(PoolReader, reads_events_whole_and_in_order_or_is_told_what_it_lost) {
  uint64_t names = 0;
  PoolOptions options = small(24);
  options.event_capacity = 64;
  options.name = {.function = one_word, .context = &names};
  PagePool pool = make_pool(options);
  const PoolReader reader = PoolReader::of(pool).value();
  std::atomic<int64_t> wrong = 0, got = 0;
  const auto work = [&] {
    do work_at_random(pool, 3, 14);
    while (got == 0);  // readers may have had no turn yet
  };
  beside_readers(work, [&](Rng& rng) {
    thread_local uint64_t next = 1;
    std::vector<PoolEvent> events(static_cast<size_t>(rng.int_between(1, 90)));
    const EventRead read = reader.read_events(next, events).value();
    wrong += read.lost ? read.count != 0 || read.next <= next : read.next != next + read.count;
    for (size_t i = 0; i < read.count; ++i) {
      const PoolEvent& event = events[i];
      wrong += event.number != next + i || !event.has_name || event.content == 0;
      wrong += is_torn(event.name) || is_torn(event.parent_name);
      wrong += event.has_parent_name != (event.position > 0);
    }
    next = read.next;
    got += static_cast<int64_t>(read.count);
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(got, 0);
}

// One that follows has the index at the end, whatever it lost on the way.
TEST(PoolReader, that_follows_all_events_has_the_index) {
  PoolOptions options = small(24);
  options.event_capacity = 1 << 19;
  PagePool pool = make_pool(options);
  const PoolReader reader = PoolReader::of(pool).value();
  EventReplay replay;
  std::mutex one;  // of the readers
  beside_readers([&] { work_at_random(pool, 4, 14); },
                 [&](Rng&) {
                   const std::lock_guard lock(one);
                   std::vector<PoolEvent> events(1000);
                   for (;;) {
                     const EventRead read = reader.read_events(replay.next(), events).value();
                     ASSERT_FALSE(read.lost);
                     for (size_t i = 0; i < read.count; ++i) replay.take(events[i]);
                     if (read.count < events.size()) break;
                   }
                 });
  EXPECT_EQ(replay.contents(), EventReplay::of(pool));
  EXPECT_GT(replay.next(), 1000U);
}

TEST(PoolReader, stays_with_a_pool_that_moves) {
  PagePool pool = make_pool(small(8));
  const PoolReader reader = PoolReader::of(pool).value();
  PagePool moved = std::move(pool);
  prefill(moved, {1, 2, 3});
  EXPECT_EQ(reader.peek(Tokens{1, 2, 3}), 2);
  EXPECT_EQ(reader.stats().value(), moved.stats());
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  EXPECT_THAT(PoolReader::of(pool).error().message(), HasSubstr("moved from"));
}

TEST(PoolReader, refuses_what_it_cannot_read) {
  PoolOptions options = small(8);
  options.readers = false;
  const PagePool without = make_pool(options);
  EXPECT_THAT(PoolReader::of(without).error().message(),
              HasSubstr("the pool has no readers, expected PoolOptions::readers"));
  const PagePool pool = make_pool(small(8));
  const PoolReader reader = PoolReader::of(pool).value();
  EXPECT_EQ(reader.peek({}), 0);
  EXPECT_EQ(reader.peek({static_cast<const TokenId*>(nullptr), 5}), 0);
  const std::string salt(PagePool::max_salt_bytes + 1, 's');
  EXPECT_EQ(reader.peek(Tokens{1, 2, 3}, {.salt = salt}), 0);
  EXPECT_EQ(reader.read_events(1, {}).error().code(), Errc::invalid_argument);
}

TEST(PoolReader, of_a_pool_without_reuse_finds_nothing_and_has_statistics) {
  PoolOptions options = small(8);
  options.prefix_reuse = false;
  PagePool pool = make_pool(options);
  const PoolReader reader = PoolReader::of(pool).value();
  prefill(pool, {1, 2, 3});
  EXPECT_EQ(reader.peek(Tokens{1, 2, 3}), 0);
  EXPECT_EQ(reader.stats().value().used_pages, 2);
}

}  // namespace
}  // namespace folio::test
