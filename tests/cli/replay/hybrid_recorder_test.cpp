// SPDX-License-Identifier: Apache-2.0
/// tests/cli/replay/hybrid_recorder_test.cpp: over groups, samples stay bounded and lose no count,
/// and pages lie where the arena has them.
#include "replay/hybrid.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "cli/replay/random_requests.h"
#include "support/random.h"

namespace folio::cli {
namespace {

ReplayOptions options_of(const std::string& model) {
  ReplayOptions options;
  options.model.name = model;
  options.output.quiet = true;
  options.compute = Compute::none;
  options.output.report = "page.html";  // asks for a recorder
  options.model.checkpoint =
      find_hybrid_model(model)->kinds.back().rule == GroupRule::state ? 512 : 0;
  return options;
}

HybridFigures replay(const ReplayOptions& options, std::span<const TraceRequest> trace,
                     int64_t pages) {
  const auto tasks = tasks_of(options, *find_hybrid_model(options.model.name), trace).value();
  const int64_t memory = pages * tasks.uniform.groups.front().page_bytes;
  auto figures = run_both(options, trace, tasks, memory);
  EXPECT_TRUE(figures) << figures.error().message();
  return std::move(*figures);
}

template <class Count>
int64_t sum(const std::vector<Count>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

void expect_consistent(const HybridFigures& figures) {
  const PoolRun& run = figures.groups;
  const GroupRecorder& recorder = *run.recorder;
  StepSample all;
  all.groups.resize(run.groups.size());
  EXPECT_LE(recorder.steps().size(), most_samples);
  for (const StepSample& sample : recorder.steps()) {
    int64_t bytes = 0;
    for (size_t g = 0; g < run.groups.size(); ++g) {
      all.groups[g].evicted += sample.groups[g].evicted;
      bytes += (sample.groups[g].used + sample.groups[g].cached) * run.groups[g].page_bytes;
      EXPECT_LE(sample.groups[g].used, run.groups[g].peak_pages);
    }
    EXPECT_LE(bytes, figures.memory_bytes);
    EXPECT_LE(sample.everything_bytes, run.everything.peak);
    all.asked += sample.asked;
    all.found += sample.found;
    all.end = sample.end;
  }
  EXPECT_EQ(all.end, run.steps);
  EXPECT_EQ(all.asked, figures.demand.prompt_tokens);
  EXPECT_EQ(all.found, run.hit_tokens);
  for (size_t g = 0; g < run.groups.size(); ++g)
    EXPECT_EQ(all.groups[g].evicted, run.groups[g].evicted_pages) << g;
  int64_t tokens = 0, found = 0;
  for (const auto& range : recorder.positions().ranges()) {
    tokens += range.tokens;
    found += range.found;
  }
  EXPECT_EQ(tokens, figures.demand.prompt_tokens);
  EXPECT_EQ(found, run.hit_tokens);
}

class HybridRecorders : public ::testing::TestWithParam<int> {};

TEST_P(HybridRecorders, every_count_is_in_the_samples) {
  const HybridModel& model = hybrid_models()[static_cast<size_t>(GetParam())];
  std::mt19937 rng(static_cast<uint32_t>(test::test_seed()));
  const auto trace = random_requests(rng, 60);
  ReplayOptions options = options_of(std::string(model.name));
  options.steps.max_batch = static_cast<int32_t>(rng() % 8 + 1);
  options.steps.step_tokens = static_cast<int32_t>(rng() % 700 + 1);
  options.cache.partial = static_cast<int32_t>(rng() % 16);
  const int64_t pages = model.kinds.back().rule == GroupRule::state ? 12 : 400;
  for (const Eviction eviction : evictions_of({.all = true})) {
    options.cache.policy = {eviction};
    const HybridFigures figures = replay(options, trace, pages);
    EXPECT_GT(figures.groups.groups[0].evicted_pages + figures.groups.groups[1].evicted_pages, 0);
    expect_consistent(figures);
  }
}
INSTANTIATE_TEST_SUITE_P(Hybrid, HybridRecorders,
                         ::testing::Range(0, static_cast<int>(hybrid_models().size())));

TEST(HybridRecorder, pages_are_counted_in_their_group_and_where_they_lie) {
  // 64 pages written in two steps of 32 in each group, then 63 found in the leading one and the
  // eight of its window, and one written. Both have 384 KiB: a slab is a page.
  TraceRequest request{.line = 1, .input_length = 1024, .output_length = 1, .hash_ids = {1, 2}};
  const std::vector<TraceRequest> trace = {request, request};
  ReplayOptions options = options_of("gpt-oss-20b");
  options.steps.max_batch = 1;
  const HybridFigures figures = replay(options, trace, 100);  // 200 slabs
  const GroupRecorder& recorder = *figures.groups.recorder;
  EXPECT_EQ(recorder.slab_bytes(), figures.groups.groups[0].page_bytes);
  EXPECT_EQ(recorder.places_per_row(), 5);
  EXPECT_EQ(recorder.heat_rows(), 40u);
  ASSERT_EQ(recorder.heat().size(), 3u);
  const int64_t found[][2] = {{0, 0}, {0, 0}, {63, 8}}, written[][2] = {{32, 32}, {32, 32}, {1, 1}};
  for (size_t step = 0; step < 3; ++step) {
    const HeatColumn& column = recorder.heat()[step];
    ASSERT_EQ(column.found.size(), 80u);
    for (size_t g = 0; g < 2; ++g) {
      const auto first = static_cast<std::ptrdiff_t>(g * 40);
      const auto of_group = [&](const std::vector<uint32_t>& counts) {
        return sum(std::vector<uint32_t>(counts.begin() + first, counts.begin() + first + 40));
      };
      EXPECT_EQ(of_group(column.found), found[step][g]) << step << g;
      EXPECT_EQ(of_group(column.written), written[step][g]) << step << g;
    }
    // A slab belongs to one group: each row has at most five pages of both.
    for (size_t row = 0; row < 40; ++row)
      EXPECT_LE(column.written[row] + column.written[40 + row], 5u) << step << row;
  }
  EXPECT_EQ(recorder.steps()[2].found, 1008);
  EXPECT_EQ(recorder.steps()[2].asked, 1024);
  EXPECT_EQ(recorder.steps()[1].groups[1].used, 40);
  EXPECT_EQ(recorder.steps()[1].groups[1].cached, 24);
}

TEST(HybridRecorder, a_page_inside_which_a_hit_ends_is_written) {
  // 999 of 1,000 tokens: 62 pages, those of the last 120 tokens in the window, and a copy.
  TraceRequest request{.line = 1, .input_length = 1000, .output_length = 1, .hash_ids = {1, 2}};
  ReplayOptions options = options_of("gpt-oss-20b");
  options.steps.max_batch = 1;
  options.cache.partial = 1;
  const HybridFigures figures = replay(options, std::vector{request, request}, 100);
  const auto& heat = figures.groups.recorder->heat();
  ASSERT_EQ(heat.size(), 3u);
  EXPECT_EQ(sum(heat[1].written), 31 + 31);
  EXPECT_EQ(sum(heat[2].found), 62 + 8);
  EXPECT_EQ(sum(heat[2].written), 1 + 1);
  EXPECT_EQ(figures.groups.recorder->steps()[2].found, 999);
}

TEST(HybridRecorder, a_state_inside_whose_page_a_hit_ends_is_found) {
  const std::vector<TraceRequest> trace = {
      {.line = 1, .input_length = 520, .output_length = 1, .hash_ids = {1, 2}},
      {.line = 2, .input_length = 1024, .output_length = 1, .hash_ids = {1, 2}}};
  ReplayOptions options = options_of("jamba-1.5-mini");
  options.steps.max_batch = 1;
  options.cache.partial = 1;
  const HybridFigures figures = replay(options, trace, 100);
  const GroupRecorder& recorder = *figures.groups.recorder;
  const HeatColumn& last = recorder.heat().back();
  const auto states = static_cast<std::ptrdiff_t>(recorder.heat_rows());
  EXPECT_EQ(recorder.steps().back().found, 520);
  EXPECT_EQ(std::accumulate(last.found.begin() + states, last.found.end(), 0u), 1u);
  EXPECT_EQ(std::accumulate(last.written.begin(), last.written.begin() + states, 0u), 32u);
}

TEST(PositionHistogram, what_is_found_later_lies_where_it_is) {
  PositionHistogram histogram;
  histogram.add(1500, 100);
  histogram.add_found(500, 1100);
  ASSERT_EQ(histogram.ranges().size(), 3u);
  EXPECT_EQ(histogram.ranges()[0].found, 112);
  EXPECT_EQ(histogram.ranges()[1].found, 512);
  EXPECT_EQ(histogram.ranges()[2].found, 76);
  histogram.add_found(1100, 1000);  // nothing
  EXPECT_EQ(histogram.ranges()[2].found, 76);
}

}  // namespace
}  // namespace folio::cli
