// SPDX-License-Identifier: Apache-2.0
/// tests/cli/replay/hybrid_scheduler_test.cpp: over groups, every request runs to its end in
/// whatever memory holds the longest one, each token is found or computed once, and no page is
/// lost.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "cli/replay/random_requests.h"
#include "load/hybrid_model.h"
#include "replay/scheduler.h"
#include "support/random.h"

namespace folio::cli {
namespace {

constexpr int32_t page_size = 16;

int64_t tokens_of(const TraceRequest& request) {
  return request.input_length + std::max(request.output_length, 1) - 1;
}

struct Totals {
  int64_t computed = 0, steps = 0;
};

/// Runs the trace to its end; the pool is sound all the way.
Totals run(PagePool& pool, Scheduler& scheduler, SchedulerLimits limits) {
  Totals totals;
  Step step;
  while (scheduler.has_work()) {
    const Status next = scheduler.next(step);
    EXPECT_TRUE(next.is_ok()) << next.message();
    if (!next.is_ok()) return totals;
    EXPECT_LE(step.tokens(), limits.step_tokens);
    EXPECT_LE(static_cast<int32_t>(step.ids.size()), limits.max_batch);
    for (uint32_t g = 0; g < pool.num_groups(); ++g) (void)pool.take_copies(g);
    const StepTicket ticket = pool.begin_step(step.ids).value();
    totals.computed += step.tokens();
    if (++totals.steps % 64 == 0) {
      const Status sound = pool.check_invariants();
      EXPECT_TRUE(sound.is_ok()) << sound.message();
    }
    EXPECT_TRUE(pool.end_step(ticket).is_ok());
    EXPECT_TRUE(scheduler.commit(step).is_ok());
    EXPECT_TRUE(scheduler.retire().is_ok());
  }
  return totals;
}

void expect_nothing_held(PagePool& pool) {
  for (uint32_t g = 0; g < pool.num_groups(); ++g) (void)pool.take_copies(g);
  for (uint32_t g = 0; g < pool.num_groups(); ++g) {
    const GroupFigures f = pool.group(g).value();
    EXPECT_EQ(f.used_pages, 0) << g;
    EXPECT_EQ(f.cached_pages + f.free_pages, f.num_pages) << g;
  }
  EXPECT_EQ(pool.stats().sequences, 0);
  EXPECT_TRUE(pool.check_invariants().is_ok());
}

class HybridSchedules : public ::testing::TestWithParam<int> {};

TEST_P(HybridSchedules, every_request_ends_and_each_token_is_found_or_computed_once) {
  const HybridModel& model = hybrid_models()[static_cast<size_t>(GetParam())];
  std::mt19937 rng(static_cast<uint32_t>(test::test_seed()));
  const GroupSizes sizes{.page_size = page_size};
  const auto groups = groups_of(model, sizes).value();
  const GroupOptions uniform = uniform_group(groups, sizes);
  for (const auto& [eviction, partial] :
       {std::pair{Eviction::lru, 0}, std::pair{Eviction::lru, 1}, std::pair{Eviction::s3_fifo, 7},
        std::pair{Eviction::lfu, 0}, std::pair{Eviction::cost, 15}}) {
    const auto trace = random_requests(rng, 40);
    int64_t longest = 0, all = 0;
    for (const TraceRequest& request : trace) {
      longest = std::max(longest, tokens_of(request));
      all += tokens_of(request);
    }
    const SchedulerLimits limits{static_cast<int32_t>(rng() % 8 + 1),
                                 static_cast<int32_t>(rng() % 700 + 1)};
    // The longest request, whatever is lost between slabs, and up to two pages more. The pool takes
    // the oldest page, wherever it lies: pages of two groups that both keep everything may have a
    // slab each, and leading ones leave no whole slab for a state.
    const bool keeps_all = groups[1].rule == GroupRule::chunked;
    const bool has_states = groups[1].rule == GroupRule::state;
    const int64_t pages =
        (keeps_all || has_states ? 2 : 1) * longest / uniform_page_size(groups, sizes) + 3 +
        static_cast<int64_t>(rng() % 3) + limits.step_tokens / page_size;
    PagePool pool = PagePool::create({.page_size = page_size,
                                      .max_sequences = static_cast<uint32_t>(limits.max_batch),
                                      .max_pages_per_sequence = 256,
                                      .eviction = eviction,
                                      .groups = groups,
                                      .arena_bytes = pages * uniform.page_bytes,
                                      .min_partial_tokens = partial})
                        .value();
    Scheduler scheduler(trace, pool, limits, nullptr, Reserve::step,
                        has_states ? sizes.checkpoint : 0);
    const Totals totals = run(pool, scheduler, limits);
    EXPECT_EQ(scheduler.finished(), std::ssize(trace));
    EXPECT_EQ(totals.computed - scheduler.again_tokens() + scheduler.hit_tokens(), all);
    EXPECT_TRUE(scheduler.preemptions() > 0 || scheduler.again_tokens() == 0);
    EXPECT_EQ(scheduler.given_back(0), 0);
    EXPECT_EQ(scheduler.given_back(1) > 0, !keeps_all);  // a chunk is longer than any request
    expect_nothing_held(pool);
  }
}
INSTANTIATE_TEST_SUITE_P(Hybrid, HybridSchedules,
                         ::testing::Range(0, static_cast<int>(hybrid_models().size())));

TEST(HybridScheduler, memory_that_does_not_hold_a_request_names_it) {
  const GroupSizes sizes{.page_size = page_size};
  const auto groups = groups_of(*find_hybrid_model("gpt-oss-20b"), sizes).value();
  TraceRequest request{.line = 7, .input_length = 1024, .hash_ids = {1, 2}};
  PagePool pool = PagePool::create({.page_size = page_size,
                                    .max_sequences = 1,
                                    .groups = groups,
                                    .arena_bytes = 70 * groups[0].page_bytes})
                      .value();
  Scheduler scheduler({&request, 1}, pool, {1, 512}, nullptr, Reserve::step);
  Step step;
  Status status = scheduler.next(step);
  while (status.is_ok() && scheduler.has_work()) {
    if (status = scheduler.commit(step); status.is_ok()) status = scheduler.retire();
    if (status.is_ok()) status = scheduler.next(step);
  }
  EXPECT_EQ(status.code(), Errc::out_of_pages);
  EXPECT_NE(status.message().find("1024 tokens of the request in line 7"), status.message().npos)
      << status.message();
}

}  // namespace
}  // namespace folio::cli
