// SPDX-License-Identifier: Apache-2.0
/// tests/cli/replay/recorder_test.cpp: samples stay bounded and lose no count; ages and positions
/// are those of the pages.
#include "replay/recorder.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>

#include "capacity/stack_distances.h"
#include "replay/replay.h"

namespace folio::cli {
namespace {

struct Sum {
  int64_t first = 0, last = 0, sum = 0;
  void merge(const Sum& later) {
    EXPECT_EQ(later.first, last + 1) << "out of order";
    last = later.last;
    sum += later.sum;
  }
};

TEST(BoundedSeries, any_number_of_values_fits_and_none_is_lost) {
  for (const int64_t count : {0, 1, 2, 7, 8, 9, 15, 16, 17, 1000, 123'457}) {
    BoundedSeries<Sum> series(8);
    for (int64_t i = 1; i <= count; ++i) series.add({i, i, i});
    const auto& samples = series.samples();
    EXPECT_LE(samples.size(), 8u);
    EXPECT_GE(samples.size(), static_cast<size_t>(std::min<int64_t>(count, 4)));
    int64_t sum = 0, next = 1;
    for (size_t i = 0; i < samples.size(); ++i) {
      EXPECT_EQ(samples[i].first, next);
      next = samples[i].last + 1;
      if (i + 1 < samples.size()) {
        EXPECT_EQ(samples[i].last - samples[i].first + 1, series.stride());
      }
      sum += samples[i].sum;
    }
    EXPECT_EQ(next, count + 1);
    EXPECT_EQ(sum, count * (count + 1) / 2);
  }
}

TEST(PositionHistogram, ranges_widen_and_keep_every_token) {
  PositionHistogram histogram;
  histogram.add(700, 512);
  EXPECT_EQ(histogram.width(), mooncake_tokens_per_block);
  ASSERT_EQ(histogram.ranges().size(), 2u);
  EXPECT_EQ(histogram.ranges()[0].found, 512);
  EXPECT_EQ(histogram.ranges()[1].tokens, 188);
  EXPECT_EQ(histogram.ranges()[1].found, 0);
  std::mt19937 rng(7);
  int64_t tokens = 700, found = 512;
  for (int i = 0; i < 1000; ++i) {
    const auto prompt = static_cast<int64_t>(1 + rng() % (i == 500 ? max_request_tokens : 100'000));
    const auto hit = static_cast<int64_t>(rng()) % prompt;
    histogram.add(prompt, hit);
    tokens += prompt;
    found += hit;
  }
  histogram.add(max_request_tokens, max_request_tokens);
  tokens += max_request_tokens;
  found += max_request_tokens;
  EXPECT_LE(histogram.ranges().size(), most_positions);
  for (const auto& range : histogram.ranges()) {
    EXPECT_GE(range.tokens, range.found);
    tokens -= range.tokens;
    found -= range.found;
  }
  EXPECT_EQ(tokens, 0);
  EXPECT_EQ(found, 0);
}

TEST(Log2Histogram, buckets_are_powers_of_two) {
  Log2Histogram histogram;
  for (const int64_t value : {0, 1, 2, 3, 4, 7, 8}) histogram.add(value);
  histogram.add(INT64_MAX);
  EXPECT_EQ(histogram.counts[0], 1);
  EXPECT_EQ(histogram.counts[1], 1);
  EXPECT_EQ(histogram.counts[2], 2);
  EXPECT_EQ(histogram.counts[3], 2);
  EXPECT_EQ(histogram.counts[4], 1);
  EXPECT_EQ(histogram.counts[63], 1);
}

TraceRequest request(std::vector<int32_t> ids, int64_t timestamp) {
  return {.line = 1,
          .timestamp_ms = timestamp,
          .input_length = static_cast<int32_t>(ids.size()) * mooncake_tokens_per_block,
          .output_length = 1,
          .hash_ids = std::move(ids)};
}

ReplayOptions block_options(int64_t pages) {
  ReplayOptions options;
  options.steps.sequential = options.steps.page_per_block = options.output.quiet = true;
  options.compute = Compute::none;
  options.cache.pages = pages;
  return options;
}

TEST(Recorder, evicted_pages_have_the_age_of_their_last_use) {
  // Three pages: block 3 evicts block 2 (the tail of request 0), which nobody found; block 4 evicts
  // block 1, which request 1 found 5 seconds before.
  const std::vector<TraceRequest> trace = {request({1, 2}, 0), request({1}, 3000),
                                           request({5}, 4000), request({3}, 7500),
                                           request({4}, 8000)};
  std::unique_ptr<PageRecorder> recorder;
  const auto figures = replay_blocks(block_options(3), trace, &recorder);
  ASSERT_TRUE(figures) << figures.error().message();
  EXPECT_EQ(figures->pool.evicted_pages, 2);
  EXPECT_EQ(recorder->idle_requests().counts[2], 2) << "3 requests after 0, and 3 after 1";
  EXPECT_EQ(recorder->idle_seconds().counts[3], 2) << "7 and 5 s";
  EXPECT_EQ(recorder->finds().counts[0], 1);
  EXPECT_EQ(recorder->finds().counts[1], 1);
  ASSERT_EQ(recorder->steps().size(), trace.size());
  EXPECT_EQ(recorder->steps()[0].groups[0].used, 2);
  EXPECT_EQ(recorder->steps()[0].free_pages, 1);
  EXPECT_EQ(recorder->steps()[1].found, 1);
  EXPECT_EQ(recorder->steps()[4].groups[0].evicted, 1);
}

std::vector<TraceRequest> random_trace(std::mt19937& rng, int requests) {
  std::vector<TraceRequest> trace;
  for (int i = 0; i < requests; ++i) {
    std::vector<int32_t> ids;
    for (int32_t depth = 0, blocks = static_cast<int32_t>(rng() % 5); depth <= blocks; ++depth)
      ids.push_back(depth * 100 + static_cast<int32_t>(rng() % (depth < 2 ? 6 : 40)));
    trace.push_back(request(std::move(ids), i * 100));
    trace.back().input_length -= static_cast<int32_t>(rng() % mooncake_tokens_per_block);
  }
  return trace;
}

int64_t total(const Log2Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), int64_t{0});
}

void expect_consistent(const PageRecorder& recorder, const ReplayFigures& figures) {
  StepSample sum{.groups = {GroupPages{}}};
  int64_t found = 0, written = 0;
  EXPECT_LE(recorder.steps().size(), most_samples);
  EXPECT_LE(recorder.heat().size(), most_heat_columns);
  for (const StepSample& sample : recorder.steps()) {
    EXPECT_EQ(sample.groups[0].used + sample.groups[0].cached + sample.free_pages, figures.pages);
    sum.found += sample.found;
    sum.asked += sample.asked;
    sum.groups[0].evicted += sample.groups[0].evicted;
    sum.end = sample.end;
  }
  for (const HeatColumn& column : recorder.heat()) {
    EXPECT_LE(column.found.size(), most_heat_rows);
    found += std::accumulate(column.found.begin(), column.found.end(), int64_t{0});
    written += std::accumulate(column.written.begin(), column.written.end(), int64_t{0});
  }
  EXPECT_EQ(sum.found, figures.pool.hit_pages);
  EXPECT_EQ(sum.asked, figures.pool.lookup_pages);
  EXPECT_EQ(sum.groups[0].evicted, figures.pool.evicted_pages);
  EXPECT_EQ(sum.end, static_cast<int64_t>(figures.step_seconds.size()));
  EXPECT_EQ(found, figures.pool.hit_pages);
  EXPECT_GE(written, figures.pool.evicted_pages);
  EXPECT_EQ(total(recorder.idle_requests()), figures.pool.evicted_pages);
  EXPECT_EQ(total(recorder.idle_seconds()), figures.pool.evicted_pages);
  EXPECT_EQ(total(recorder.finds()), figures.pool.evicted_pages);
  int64_t tokens = 0, found_tokens = 0;
  for (const auto& range : recorder.positions().ranges()) {
    tokens += range.tokens;
    found_tokens += range.found;
  }
  EXPECT_EQ(tokens, figures.prompt_tokens);
  EXPECT_EQ(found_tokens, figures.pool.hit_tokens);
}

TEST(Recorder, every_count_of_the_pool_is_in_the_samples) {
  std::mt19937 rng(11);
  for (const int requests : {1, 50, 3000}) {
    const auto trace = random_trace(rng, requests);
    for (const Eviction eviction : evictions_of({.all = true})) {
      ReplayOptions options = block_options(30);
      options.cache.policy = {eviction};
      std::unique_ptr<PageRecorder> recorder;
      const auto figures = replay_blocks(options, trace, &recorder);
      ASSERT_TRUE(figures) << figures.error().message();
      expect_consistent(*recorder, *figures);
    }
  }
}

TEST(Recorder, batches_of_requests_are_recorded_too) {
  std::mt19937 rng(12);
  const auto trace = random_trace(rng, 60);
  for (const int32_t batch : {1, 7}) {
    ReplayOptions options;
    options.output.quiet = true;
    options.compute = Compute::none;
    options.steps.max_batch = batch;
    options.steps.step_tokens = 700;
    options.cache.pages = 400;
    std::unique_ptr<PageRecorder> recorder;
    const auto figures = replay_steps(options, trace, &recorder);
    ASSERT_TRUE(figures) << figures.error().message();
    EXPECT_GT(figures->pool.evicted_pages, 0);
    expect_consistent(*recorder, *figures);
  }
}

TEST(StackDistances, every_size_finds_what_a_replay_finds) {
  std::mt19937 rng(13);
  for (int round = 0; round < 20; ++round) {
    const auto trace = random_trace(rng, 200);
    const Blocks blocks = name_blocks(trace);
    const LruCurve lru(blocks);
    for (int64_t size = blocks.longest; size <= blocks.distinct + 3;
         size += 1 + static_cast<int64_t>(rng() % 20)) {
      const auto figures = replay_blocks(block_options(size), trace);
      ASSERT_TRUE(figures) << figures.error().message();
      const PoolStats& pool = figures->pool;
      EXPECT_EQ(lru.at(size), (BlockCounts{pool.lookup_pages, pool.hit_pages, pool.hit_tokens,
                                           pool.evicted_pages, figures->saved_work}))
          << "at " << size;
    }
    const int64_t most = lru.at(blocks.distinct).hit_tokens;
    const int64_t least = lru.capacity_for(most);
    EXPECT_EQ(lru.at(least).hit_tokens, most);
    if (least > 0) {
      EXPECT_LT(lru.at(least - 1).hit_tokens, most);
    }
  }
}

}  // namespace
}  // namespace folio::cli
