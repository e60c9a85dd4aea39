// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_histograms_test.cpp: ages of pages and kinds of hits. The naive model compares
/// them after random calls; here are the ones that can be counted by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folio/pool/reader.h"
#include "pool/outside/page_ages.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

PoolOptions small(uint32_t pages) {
  return {
      .num_pages = pages, .page_size = 2, .max_sequences = 4, .readers = true, .histograms = true};
}

/// Bucket -> count, of those that are not 0.
std::vector<std::pair<int, int64_t>> counts(const PoolHistogram& histogram) {
  std::vector<std::pair<int, int64_t>> some;
  for (int b = 0; b < PoolHistogram::num_buckets; ++b) {
    if (histogram.counts[b] != 0) some.emplace_back(b, histogram.counts[b]);
  }
  return some;
}

using Counts = std::vector<std::pair<int, int64_t>>;

TEST(PageTimes, know_how_long_ago_they_were_up_to_48_bits) {
  constexpr uint64_t start = (uint64_t{7} << 48) - 5, later = start + (uint64_t{3} << 40) + 2;
  pool::PageTimes times;
  times.store(start);
  EXPECT_EQ(times.since_used(later), later - start);
  times.use(later);
  const uint64_t end = later + (uint64_t{1} << 33);
  EXPECT_EQ(times.since_stored(end), end - start);
  EXPECT_EQ(times.since_used(end), end - later);
}

TEST(PoolHistograms, ages_are_counted_in_pages_taken) {
  PagePool pool = make_pool(small(4));
  pool.release(prefill(pool, {1, 2})).or_throw();                   // stored and given up at 1
  pool.release(prefill(pool, {3, 4, 5, 6, 7, 8})).or_throw();       // 2 .. 4: all stored at 4
  EXPECT_EQ(pool.admit(Tokens{1, 2, 0}).value().cached_tokens, 2);  // found after 3 pages
  PoolHistograms h = pool.histograms().value();
  EXPECT_EQ(counts(h.reuse), (Counts{{2, 1}}));
  EXPECT_EQ(h.reuse.sum, 3);
  prefill(pool, {9, 9, 9, 9});  // evicts {7, 8} at 4 and {5, 6} at 5
  h = pool.histograms().value();
  EXPECT_EQ(counts(h.lifetime), (Counts{{0, 1}, {1, 1}}));
  EXPECT_EQ(counts(h.idle), (Counts{{0, 1}, {1, 1}}));
  EXPECT_EQ(h.idle.sum, 1);
  EXPECT_EQ(PoolReader::of(pool).value().histograms().value(), h);
  expect_sound(pool);
}

TEST(PoolHistograms, hits_are_of_cached_and_of_used_pages) {
  PagePool pool = make_pool(small(8));
  const SequenceId a = prefill(pool, {1, 2, 3, 4, 5, 6});
  pool.trim(a, 2).or_throw();  // two of three are cached
  pool.release(pool.admit(Tokens{1, 2, 3, 4, 5, 6, 7}).value().id).or_throw();
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.hit_tokens, 6);
  EXPECT_EQ(stats.hit_tokens_used, 2);
  EXPECT_EQ(stats.hit_tokens_cached, 4);
  EXPECT_EQ(stats.hit_tokens_partial, 0);
}

TEST(PoolHistograms, a_hit_inside_a_page_uses_the_page_that_it_is_copied_from) {
  PoolOptions options = small(8);
  options.page_size = 4;
  options.min_partial_tokens = 1;
  PagePool pool = make_pool(options);
  pool.release(prefill(pool, count_from(0, 8))).or_throw();  // two pages, given up at 2
  pool.release(prefill(pool, {9})).or_throw();               // a tail, stored at 3
  EXPECT_EQ(pool.admit(count_from(0, 7)).value().cached_tokens, 6);
  const PoolStats stats = pool.stats();
  EXPECT_EQ(stats.hit_pages, 1);
  EXPECT_EQ(stats.hit_tokens, 6);
  EXPECT_EQ(stats.hit_tokens_cached, 4);
  EXPECT_EQ(stats.hit_tokens_used, 0);
  EXPECT_EQ(stats.hit_tokens_partial, 2);
  EXPECT_EQ(counts(pool.histograms().value().reuse), (Counts{{1, 2}})) << "both after one page";
  prefill(pool, count_from(100, 20));  // four pages are free: the tail goes
  EXPECT_EQ(counts(pool.histograms().value().lifetime), (Counts{{3, 1}}));
  expect_sound(pool);
}

TEST(PoolHistograms, are_off_unless_asked_for) {
  PoolOptions options = small(64);
  const int64_t on = PagePool::required_bytes(options).value();
  options.histograms = false;
  EXPECT_EQ(on - PagePool::required_bytes(options).value(), 64 * 12);
  PagePool pool = make_pool(options);
  EXPECT_THAT(
      pool.histograms().error().message(),
      testing::HasSubstr("histograms: the pool has none, expected PoolOptions::histograms"));
  EXPECT_FALSE(PoolReader::of(pool).value().histograms().has_value());
  const PagePool moved = std::move(pool);
  // NOLINTNEXTLINE(bugprone-use-after-move): what is tested
  EXPECT_EQ(pool.histograms().error().code(), Errc::invalid_argument);
}

}  // namespace
}  // namespace folio::test
