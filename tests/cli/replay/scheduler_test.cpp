// SPDX-License-Identifier: Apache-2.0
/// tests/cli/replay/scheduler_test.cpp: every request runs to its end, in order, within budget,
/// whatever the pool's size.
#include "replay/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "cli/replay/random_requests.h"
#include "load/synthetic.h"
#include "support/random.h"

namespace folio::cli {
namespace {

constexpr int32_t page_size = 16;

int64_t pages_of(const TraceRequest& request, int64_t index) {
  return (static_cast<int64_t>(history_of(request, index).size()) + page_size - 1) / page_size;
}

PagePool make_pool(int64_t pages, int32_t max_batch) {
  PoolOptions options;
  options.num_pages = static_cast<uint32_t>(pages);
  options.page_size = page_size;
  options.max_sequences = static_cast<uint32_t>(max_batch);
  return PagePool::create(options).value();
}

/// What happened to one request.
struct Life {
  int64_t first_step = -1;
  int32_t found = 0;
  int32_t computed = 0;
};

/// Runs the trace to its end and checks each step.
std::map<int64_t, Life> run(const std::vector<TraceRequest>& trace, PagePool& pool,
                            SchedulerLimits limits) {
  std::map<int64_t, Life> lives;
  Scheduler scheduler(trace, pool, limits);
  Step step;
  while (scheduler.has_work()) {
    const Status next = scheduler.next(step);
    EXPECT_TRUE(next.is_ok()) << next.message();
    if (!next.is_ok()) return lives;
    EXPECT_GE(step.tokens(), 1);
    EXPECT_LE(step.tokens(), limits.step_tokens);
    EXPECT_LE(static_cast<int32_t>(step.entries.size()), limits.max_batch);
    for (size_t i = 0; i < step.entries.size(); ++i) {
      const StepEntry& entry = step.entries[i];
      EXPECT_EQ(step.query_offsets[i + 1] - step.query_offsets[i], entry.new_tokens);
      EXPECT_EQ(step.context_lengths[i], entry.sequence->done + entry.new_tokens);
      EXPECT_TRUE(!entry.sequence->decodes() || entry.new_tokens == 1);
      EXPECT_LE(entry.new_tokens, entry.sequence->left());
      const auto [life, is_new] =
          lives.try_emplace(entry.sequence->request, Life{step.number, entry.sequence->first, 0});
      EXPECT_TRUE(!is_new || life->second.found == entry.sequence->done);
      life->second.computed += entry.new_tokens;
    }
    EXPECT_TRUE(scheduler.commit(step).is_ok());
    EXPECT_TRUE(scheduler.retire().is_ok());
    const Status sound = pool.check_invariants();
    EXPECT_TRUE(sound.is_ok()) << sound.message();
  }
  EXPECT_EQ(scheduler.finished(), static_cast<int64_t>(trace.size()));
  return lives;
}

// pages beyond those of the largest request
class EveryPool : public testing::TestWithParam<int64_t> {};

TEST_P(EveryPool, finishes_every_request_in_order) {
  std::mt19937 rng(static_cast<uint32_t>(test::test_seed()));
  for (const SchedulerLimits limits : {SchedulerLimits{1, 1000}, {4, 64}, {7, 513}, {3, 2}}) {
    const auto trace = random_requests(rng, limits.step_tokens == 2 ? 4 : 30,
                                       {.blocks = 3, .outputs = 20, .choices = 4});
    int64_t largest = 0;
    for (size_t i = 0; i < trace.size(); ++i)
      largest = std::max(largest, pages_of(trace[i], static_cast<int64_t>(i)));
    PagePool pool = make_pool(largest + GetParam(), limits.max_batch);
    const auto lives = run(trace, pool, limits);
    ASSERT_EQ(lives.size(), trace.size());
    int64_t previous = 0;
    for (const auto& [request, life] : lives) {
      EXPECT_EQ(
          life.found + life.computed,
          static_cast<int32_t>(history_of(trace[static_cast<size_t>(request)], request).size()));
      EXPECT_GE(life.first_step, previous) << "request " << request << " overtook another";
      previous = life.first_step;
    }
    EXPECT_EQ(pool.stats().used_pages, 0);
    EXPECT_EQ(pool.stats().sequences, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Scheduler, EveryPool, testing::Values(0, 1, 40, 1000));

TEST(Scheduler, decoding_comes_before_prompts_in_a_step) {
  std::vector<TraceRequest> trace(2);
  trace[0] = {
      .line = 1, .timestamp_ms = 0, .input_length = 10, .output_length = 5, .hash_ids = {0}};
  trace[1] = {
      .line = 2, .timestamp_ms = 0, .input_length = 500, .output_length = 5, .hash_ids = {1}};
  PagePool pool = make_pool(100, 2);
  Scheduler scheduler(trace, pool, {2, 64});
  Step step;
  ASSERT_TRUE(scheduler.next(step).is_ok());
  ASSERT_EQ(step.entries.size(), 2u) << "prompt and start of the next prompt";
  EXPECT_EQ(step.entries[1].new_tokens, 54);
  ASSERT_TRUE(scheduler.commit(step).is_ok());
  ASSERT_TRUE(scheduler.next(step).is_ok());
  ASSERT_EQ(step.entries.size(), 2u);
  EXPECT_EQ(step.entries[0].sequence->request, 0);
  EXPECT_EQ(step.entries[0].new_tokens, 1);
  EXPECT_EQ(step.entries[1].new_tokens, 63);
}

TEST(Scheduler, a_prefix_is_found_once_it_has_been_computed) {
  TraceRequest request{
      .line = 1, .timestamp_ms = 0, .input_length = 512, .output_length = 1, .hash_ids = {0}};
  const std::vector<TraceRequest> trace = {request, request};
  PagePool pool = make_pool(100, 2);
  const auto lives = run(trace, pool, {2, 512});
  EXPECT_EQ(lives.at(0).found, 0);
  EXPECT_EQ(lives.at(1).found, 496) << "whole pages, shorter than the prompt";
}

}  // namespace
}  // namespace folio::cli
