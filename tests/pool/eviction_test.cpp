// SPDX-License-Identifier: Apache-2.0
/// tests/pool/eviction_test.cpp: what each policy means for a pool, streams of requests too long
/// for arbitrary calls, and a policy of the test's own.
#include "pool/eviction/eviction.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "pool/inspection.h"
#include "pool/pool_helpers.h"
#include "pool/pool_model.h"
#include "support/random.h"

namespace folio::test {
namespace {

PoolOptions pool_of(Eviction eviction, uint32_t num_pages) {
  return {.num_pages = num_pages, .page_size = 1, .max_sequences = 4, .eviction = eviction};
}

/// The request comes, finds what it finds, and goes. A hit leaves one token: it is not committed.
void serve(PagePool& pool, const Tokens& ids) {
  const Admission a = pool.admit(ids + Tokens{-1}).value();
  feed(pool, a.id, {ids.begin() + a.cached_tokens, ids.end()});
  pool.release(a.id).or_throw();
  expect_sound(pool);
}

bool has(const PagePool& pool, TokenId id) { return pool.peek(Tokens{id, -1}) == 1; }

// ---- What the policies mean

TEST(Eviction, s3_fifo_keeps_what_was_found_again_through_a_flood_of_new_pages) {
  for (const Eviction eviction : {Eviction::lru, Eviction::s3_fifo}) {
    PagePool pool = make_pool(pool_of(eviction, 8));
    serve(pool, {1});
    serve(pool, {1});
    for (TokenId id = 100; id < 150; ++id) serve(pool, {id});
    EXPECT_EQ(has(pool, 1), eviction == Eviction::s3_fifo);
  }
}

TEST(Eviction, s3_fifo_takes_what_comes_back_soon_after_it_was_evicted_for_old) {
  PagePool pool = make_pool(pool_of(Eviction::s3_fifo, 8));
  for (TokenId id = 1; id <= 9; ++id) serve(pool, {id});
  EXPECT_FALSE(has(pool, 1));
  serve(pool, {1});  // remembered: into the main queue, though it was never found
  for (TokenId id = 100; id < 150; ++id) serve(pool, {id});
  EXPECT_TRUE(has(pool, 1));
  EXPECT_FALSE(has(pool, 2));
}

TEST(Eviction, s3_fifo_gives_up_what_was_found_often_when_others_are_found) {
  PagePool pool = make_pool(pool_of(Eviction::s3_fifo, 8));
  for (int i = 0; i < 100; ++i) serve(pool, {1});  // three rounds at most
  for (TokenId id = 100; id < 200; ++id) serve(pool, {id});
  EXPECT_TRUE(has(pool, 1)) << "nothing was found that could take its place";
  for (TokenId id = 200; id < 400; ++id) serve(pool, {id - id % 2});
  EXPECT_FALSE(has(pool, 1));
}

TEST(Eviction, lfu_keeps_what_is_found_often) {
  for (const Eviction eviction : {Eviction::lru, Eviction::lfu}) {
    PagePool pool = make_pool(pool_of(eviction, 8));
    for (int i = 0; i < 4; ++i) serve(pool, {1});
    for (TokenId id = 100; id < 115; ++id) serve(pool, {id});
    EXPECT_EQ(has(pool, 1), eviction == Eviction::lfu);
  }
}

TEST(Eviction, lfu_forgets_old_fame) {
  PagePool pool = make_pool(pool_of(Eviction::lfu, 8));
  for (int i = 0; i < 1000; ++i) serve(pool, {1});  // counts as 62 times
  TokenId id = 100;
  for (int i = 0; i < 7 * 62; ++i) serve(pool, {id++});
  EXPECT_TRUE(has(pool, 1));
  for (int i = 0; i < 7 * 2; ++i) serve(pool, {id++});
  EXPECT_FALSE(has(pool, 1));
}

/// A pool of 16 pages, sequences of at most 8: one of 8, then ones of a page.
TEST(Eviction, cost_keeps_a_long_prefix_through_a_flood_of_short_ones_until_it_fades) {
  for (const Eviction eviction : {Eviction::lru, Eviction::lfu, Eviction::cost}) {
    PoolOptions options = pool_of(eviction, 16);
    options.max_pages_per_sequence = 8;
    PagePool pool = make_pool(options);
    const Tokens long_one = {1, 2, 3, 4, 5, 6, 7, 8};
    serve(pool, long_one);
    TokenId id = 100;
    for (int i = 0; i < 30; ++i) serve(pool, {id++});
    EXPECT_EQ(pool.peek(long_one + Tokens{-1}), eviction == Eviction::cost ? 8 : 0);
    for (int i = 0; i < 20 * 16; ++i) serve(pool, {id++});
    EXPECT_EQ(pool.peek(long_one + Tokens{-1}), 0);
  }
}

/// What `trim` cuts off counts as short, and a shorter sequence takes nothing from a longer one.
TEST(Eviction, cost_evicts_no_page_before_what_continues_it_whoever_gives_it_up_how) {
  PoolOptions options = pool_of(Eviction::cost, 16);
  options.max_pages_per_sequence = 8;
  PagePool pool = make_pool(options);
  const SequenceId id = prefill(pool, {1, 2, 3, 4, 5, 6, 7, 8});
  const SequenceId fork = pool.fork(id, 2).value();
  pool.trim(id, 6).or_throw();
  pool.trim(id, 4).or_throw();
  pool.release(id).or_throw();
  pool.release(fork).or_throw();
  serve(pool, {1});
  int32_t left = 8;
  for (TokenId token = 100; token < 500; ++token) {
    serve(pool, {token});
    const int32_t now = pool.peek({{1, 2, 3, 4, 5, 6, 7, 8, -1}});
    EXPECT_LE(now, left);
    EXPECT_GE(now, left - 1) << "several pages at once: one that was continued has gone";
    left = now;
  }
  EXPECT_EQ(left, 0);
}

TEST(Eviction, s3_fifo_alone_asks_for_memory_and_for_at_most_16_bytes_a_page) {
  for (const uint32_t pages : {1U << 16, (1U << 16) + 1, 1'000'000U}) {
    const auto bytes = [&](Eviction eviction) {
      return PagePool::required_bytes(pool_of(eviction, pages)).value();
    };
    EXPECT_EQ(bytes(Eviction::lfu), bytes(Eviction::lru));
    EXPECT_EQ(bytes(Eviction::cost), bytes(Eviction::lru));
    EXPECT_LE(bytes(Eviction::s3_fifo) - bytes(Eviction::lru), 16 * int64_t{pages} + 128);
  }
}

TEST(Eviction, a_page_takes_at_most_96_bytes_beside_its_tokens) {
  const auto bytes = [](Eviction eviction, uint32_t pages) {
    PoolOptions options = pool_of(eviction, pages);
    options.max_pages_per_sequence = 1;
    return PagePool::required_bytes(options).value() - int64_t{pages} * 4;
  };
  for (const Eviction eviction :
       {Eviction::lru, Eviction::s3_fifo, Eviction::lfu, Eviction::cost}) {
    const int64_t fixed = bytes(eviction, 1);
    for (const uint32_t pages : {1U << 20, (1U << 20) + 1, 1'500'000U})
      EXPECT_LE(bytes(eviction, pages) - fixed, 96 * int64_t{pages}) << static_cast<int>(eviction);
  }
}

// ---- Long streams

/// Requests that go on from beginnings of a few popular ones, or are new.
class Stream {
 public:
  explicit Stream(uint64_t seed) : rng_(seed) {
    for (TokenId i = 0; i < 5; ++i) popular_.push_back(count_from(100 * i, 6));
  }
  Tokens next() {
    Tokens ids;
    if (rng_.chance(0.7)) {
      ids = rng_.chance(0.5) ? popular_[0] : rng_.pick(popular_);
      ids.resize(static_cast<size_t>(rng_.between(0, 6)));
    }
    if (ids.empty() || rng_.chance(0.4)) ids.push_back(1000 + rng_.int_between(0, 60));
    if (rng_.chance(0.002)) rng_.pick(popular_)[1] = ++fresh_;
    return ids;
  }

 private:
  Rng rng_;
  std::vector<Tokens> popular_;
  TokenId fresh_ = 100'000;
};

void long_stream(Eviction eviction) {
  Stream stream(*rc::gen::arbitrary<uint64_t>());
  PoolModel model(pool_of(eviction, static_cast<uint32_t>(*rc::gen::inRange(8, 30))));
  for (int i = 0; i < 300; ++i) {
    const Tokens ids = stream.next();
    model.admit(ids + Tokens{-1}, {});
    const size_t s = model.num_sequences() - 1;
    const Tokens rest(ids.begin() + static_cast<std::ptrdiff_t>(model.tokens(s).size()), ids.end());
    model.reserve(s, static_cast<int32_t>(rest.size()));
    model.commit(s, rest);
    model.release(s);
  }
  RC_ASSERT(model.stats().evicted_pages > 0);
}

RC_GTEST_PROP(EvictionStream, evicts_what_naive_s3_fifo_does, ()) {
  long_stream(Eviction::s3_fifo);
}
RC_GTEST_PROP(EvictionStream, evicts_what_naive_lfu_does, ()) { long_stream(Eviction::lfu); }

RC_GTEST_PROP(EvictionStream, evicts_what_naive_cost_does, ()) { long_stream(Eviction::cost); }

RC_GTEST_PROP(EvictionStream, lru_lfu_and_cost_never_leave_a_page_behind_that_no_prefix_reaches,
              ()) {
  const Eviction eviction = *rc::gen::element(Eviction::lru, Eviction::lfu, Eviction::cost);
  Stream stream(*rc::gen::arbitrary<uint64_t>());
  PoolOptions options = pool_of(eviction, static_cast<uint32_t>(*rc::gen::inRange(8, 30)));
  options.max_pages_per_sequence = 8;
  PagePool pool = make_pool(options);
  for (int i = 0; i < 300; ++i) {
    serve(pool, stream.next());
    for (uint32_t page = 0; page < pool.num_pages(); ++page) {
      const pool::PageRecord& record = pool::PoolInspection::record(pool, page);
      if (!pool::is_cached(record.list)) continue;
      bool reached = record.parent == pool::PoolInspection::namespaces(pool)[0].content;
      for (uint32_t other = 0; other < pool.num_pages(); ++other)
        reached = reached || pool::PoolInspection::record(pool, other).content == record.parent;
      RC_ASSERT(reached);
    }
  }
}

// ---- Ghosts

RC_GTEST_PROP(Ghosts, remember_the_last_marks_and_no_others, ()) {
  const auto capacity = static_cast<uint32_t>(*rc::gen::inRange(1, 12));
  std::vector<pool::Ghosts::Ghost> ring(capacity);
  std::vector<uint32_t> buckets(static_cast<size_t>(pool::Ghosts::num_buckets(capacity)));
  pool::Ghosts ghosts;
  ghosts.attach(ring.data(), buckets.data(), capacity);
  std::vector<uint32_t> all;
  for (const int mark : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 20))) {
    ghosts.remember(static_cast<uint32_t>(mark));
    all.push_back(static_cast<uint32_t>(mark));
    const auto last =
        all.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(all.size(), capacity));
    for (uint32_t asked = 0; asked < 20; ++asked)
      RC_ASSERT(ghosts.remembers(asked) == (std::find(last, all.end(), asked) != all.end()));
  }
}

// ---- A policy of one's own

/// The page that was given up last goes first.
class Mru final : public pool::EvictionPolicy {
 public:
  explicit Mru(pool::PageLists* lists) : lists_(lists) {}
  void add(uint32_t page) noexcept override { lists_->push_front(pool::queue(5), page); }
  void found(uint32_t) noexcept override { ++finds; }
  uint32_t take() noexcept override { return lists_->front(pool::queue(5)); }
  const char* fault() const noexcept override { return complaint; }

  int finds = 0;
  const char* complaint = nullptr;

 private:
  pool::PageLists* lists_;
};

TEST(Eviction, a_pool_evicts_what_a_policy_of_the_tests_says) {
  PagePool pool = make_pool(pool_of(Eviction::lru, 4));
  Mru mru(pool::PoolInspection::lists(pool));
  pool::PoolInspection::use_policy(pool, &mru);
  for (TokenId id = 1; id <= 9; ++id) serve(pool, {id});
  for (TokenId id = 1; id <= 9; ++id) EXPECT_EQ(has(pool, id), id <= 3 || id == 9) << id;
  EXPECT_EQ(mru.finds, 0);
  serve(pool, {1});
  EXPECT_EQ(mru.finds, 1);
  mru.complaint = "the queues are upside down";
  EXPECT_EQ(pool.check_invariants().code(), Errc::internal);
  EXPECT_NE(pool.check_invariants().message().find(mru.complaint), std::string::npos);
}

TEST(Eviction, an_unknown_policy_is_refused_by_name) {
  for (const int value : {4, 5, 127, 128, 255}) {
    const PoolOptions options = pool_of(static_cast<Eviction>(value), 4);
    const Result<PagePool> pool = PagePool::create(options);
    EXPECT_EQ(pool.error().code(), Errc::invalid_argument);
    EXPECT_EQ(pool.error().message(), "PagePool::create: eviction is " + std::to_string(value) +
                                          ", expected lru, s3_fifo, lfu or cost (0 .. 3)");
    EXPECT_EQ(PagePool::required_bytes(options).error().message(), pool.error().message());
  }
}

}  // namespace
}  // namespace folio::test
