// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/hostile_test.cpp: callers who give a manager what it cannot use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tier/manager/manual_tier.h"
#include "tier/manager/pattern_engine.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;
constexpr int64_t most = std::numeric_limits<int64_t>::max();

class CacheManagerRefusals : public ::testing::Test {
 protected:
  std::string refusal(CacheManagerOptions options) {
    const Result<CacheManager> manager = CacheManager::create(options);
    EXPECT_FALSE(manager);
    if (manager) return {};
    EXPECT_EQ(manager.error().code(), Errc::invalid_argument);
    return std::string(manager.error().message());
  }
  CacheManagerOptions good() {
    return {.pool = &engine_.pool(), .name = engine_.names(), .planes = engine_.planes()};
  }
  std::string refusal_of(TierOfCache tier) {
    CacheManagerOptions options = good();
    options.tiers = {&tier, 1};
    return refusal(options);
  }

  ManualTier tier_;
  PatternEngine engine_{{.num_pages = 4}};
};

TEST_F(CacheManagerRefusals, name_the_pool_the_names_and_the_planes) {
  ASSERT_TRUE(CacheManager::create(good()));
  CacheManagerOptions o = good();
  o.pool = nullptr;
  EXPECT_THAT(refusal(o), HasSubstr("pool is null"));
  o = good();
  o.name.context = &o;
  EXPECT_THAT(refusal(o), HasSubstr("name is another than the pool's"));
  o.name = {};
  EXPECT_TRUE(CacheManager::create(o)) << "the pool's are enough";
  Result<PagePool> nameless = PagePool::create({.num_pages = 4, .page_size = 4, .max_io_pins = 4});
  o.pool = &*nameless;
  EXPECT_THAT(refusal(o), HasSubstr("pool is one without names"));
  o = good();
  o.planes = {};
  EXPECT_THAT(refusal(o), HasSubstr("planes is empty"));
  o.planes = {static_cast<const KVPlanes*>(nullptr), 3};
  EXPECT_THAT(refusal(o), HasSubstr("planes is empty"));
  const auto few = make_planes(PatternEngine::shape(), 3, {}).value();
  o.planes = few;
  EXPECT_THAT(refusal(o), HasSubstr("planes[0] have no page 3"));
  const GroupOptions groups[] = {{.page_bytes = 64}, {.page_bytes = 64}};
  Result<PagePool> hybrid = PagePool::create({.page_size = 4,
                                              .name = engine_.names(),
                                              .groups = groups,
                                              .arena_bytes = 1 << 12,
                                              .max_io_pins = 4});
  ASSERT_TRUE(hybrid) << hybrid.error().message();
  o = good();
  o.pool = &*hybrid;
  EXPECT_THAT(refusal(o), HasSubstr("planes are given, expected them in `groups`"));
  const PagePool taken = std::move(*hybrid);
  EXPECT_THAT(refusal(o), HasSubstr("moved from"));
}

TEST_F(CacheManagerRefusals, name_what_the_pool_lacks) {
  const auto refusal_with = [&](const PoolOptions& options) {
    PagePool pool = std::move(PagePool::create(options)).value();
    CacheManagerOptions o = good();
    o.pool = &pool;
    return refusal(o);
  };
  EXPECT_THAT(refusal_with({.num_pages = 4, .page_size = 4, .max_io_pins = 4}),
              HasSubstr("pool is one without names"));
  EXPECT_THAT(
      refusal_with({.num_pages = 4, .page_size = 4, .prefix_reuse = false, .max_io_pins = 4}),
      HasSubstr("pool is one without names"));
  EXPECT_THAT(refusal_with({.num_pages = 4, .page_size = 4, .name = engine_.names()}),
              HasSubstr("pool is one whose max_io_pins is 0"));
  CacheManagerOptions o = good();
  o.name.context = nullptr;
  EXPECT_THAT(refusal(o), HasSubstr("name is another than the pool's"));
  o = good();
  o.name.function = [](void*, const PageContent&, PageName*) noexcept { return Status(); };
  EXPECT_THAT(refusal(o), HasSubstr("name is another than the pool's"));
}

TEST_F(CacheManagerRefusals, name_planes_without_memory_of_their_own) {
  std::vector<KVPlanes> planes(engine_.planes().begin(), engine_.planes().end());
  CacheManagerOptions o = good();
  o.planes = planes;
  planes[1].key.data = nullptr;
  EXPECT_THAT(refusal(o), HasSubstr("planes[1] have no page 3"));
  planes[1] = planes[0];
  EXPECT_THAT(refusal(o), HasSubstr("page 0 of planes[0] and page 0 of planes[1] share bytes"));
  planes[1] = engine_.planes()[1];
  planes[2].key.data = static_cast<std::byte*>(planes[1].value.data) + 4;
  EXPECT_THAT(refusal(o), HasSubstr("page 0 of planes[1] and page 0 of planes[2] share bytes"));
  planes[2] = engine_.planes()[2];
  planes[0].key.page_stride_bytes += 4;
  EXPECT_THAT(refusal(o), HasSubstr("planes[0]"));
  planes[0] = engine_.planes()[0];
  EXPECT_TRUE(CacheManager::create(o)) << "layers lie in one another, page by page";
}

TEST_F(CacheManagerRefusals, name_numbers_that_are_out_of_range) {
  for (const int64_t ms : {int64_t{-1}, most, std::numeric_limits<int64_t>::min()}) {
    CacheManagerOptions o = good();
    o.load_deadline_ms = ms;
    EXPECT_THAT(refusal(o), HasSubstr("load_deadline_ms is " + std::to_string(ms)));
    o = good();
    o.store_deadline_ms = ms;
    EXPECT_THAT(refusal(o), HasSubstr("store_deadline_ms is " + std::to_string(ms)));
    o = good();
    o.close_wait_ms = ms;
    EXPECT_THAT(refusal(o), HasSubstr("close_wait_ms is " + std::to_string(ms)));
  }
  for (const int32_t pages : {0, -1, std::numeric_limits<int32_t>::min()}) {
    CacheManagerOptions o = good();
    o.min_load_pages = pages;
    EXPECT_THAT(refusal(o), HasSubstr("min_load_pages is " + std::to_string(pages)));
  }
  CacheManagerOptions o = good();
  o.load_order = static_cast<LoadOrder>(7);
  EXPECT_THAT(refusal(o), HasSubstr("load_order is none of LoadOrder"));
  o = good();
  o.clock.context = this;
  EXPECT_THAT(refusal(o), HasSubstr("clock.now_us is null"));
}

TEST_F(CacheManagerRefusals, name_what_is_wrong_with_a_tier) {
  EXPECT_THAT(refusal_of({}), HasSubstr("a tier is null"));
  EXPECT_THAT(refusal_of({.tier = &tier_, .policy = static_cast<StorePolicy>(4)}),
              HasSubstr("none of StorePolicy"));
  EXPECT_THAT(refusal_of({.tier = &tier_, .min_hits = -1}), HasSubstr("min_hits is -1"));
  EXPECT_THAT(refusal_of({.tier = &tier_, .max_store_bytes = -1}),
              HasSubstr("max_store_bytes is -1"));
  EXPECT_THAT(refusal_of({.tier = &tier_, .faults_to_rest = 0}), HasSubstr("faults_to_rest is 0"));
  EXPECT_THAT(refusal_of({.tier = &tier_, .first_rest_ms = 0}), HasSubstr("first_rest_ms is 0"));
  EXPECT_THAT(refusal_of({.tier = &tier_, .first_rest_ms = 10, .longest_rest_ms = 9}),
              HasSubstr("longest_rest_ms is 9, expected 10 .."));
  EXPECT_THAT(refusal_of({.tier = &tier_, .longest_rest_ms = most}),
              HasSubstr("longest_rest_ms is"));
  CacheManagerOptions o = good();
  o.tiers = {static_cast<const TierOfCache*>(nullptr), 1};
  EXPECT_THAT(refusal(o), HasSubstr("tiers is null"));
  const TierOfCache twice[] = {{.tier = &tier_}, {.tier = &tier_}};
  o.tiers = twice;
  EXPECT_THAT(refusal(o), HasSubstr("tiers 0 and 1 are the same"));
}

TEST(CacheManager, that_was_moved_from_refuses_every_call) {
  PatternEngine engine({.num_pages = 4});
  ASSERT_NE(engine.admit(count_from(0, 5)), nullptr);
  const SequenceId id = engine.id(0);
  CacheManager other = std::move(engine.manager());
  CacheManager& moved = engine.manager();
  const TokenId tokens[] = {1, 2};
  EXPECT_THAT(std::string(moved.admit(tokens).error().message()),
              HasSubstr("CacheManager::admit: the object was moved from"));
  EXPECT_EQ(moved.prefetch(tokens).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.resume(id, tokens).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.commit(id, tokens).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.cancel_load(id).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.preempt(id).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.release(id).code(), Errc::invalid_argument);
  EXPECT_EQ(moved.counters(0).error().code(), Errc::invalid_argument);
  EXPECT_EQ(moved.load_state(id), LoadState::none);
  EXPECT_EQ(moved.layers_ready(id), 0);
  EXPECT_EQ(moved.give_up_stores(), 0);
  EXPECT_EQ(moved.figures().asked_pages, 0);
  moved.poll();
  moved = std::move(other);
  EXPECT_TRUE(moved.release(id).is_ok());
  EXPECT_EQ(other.release(id).code(), Errc::invalid_argument);
}

TEST(CacheManager, refuses_ids_that_are_no_sequences_and_bad_prompts) {
  ManualTier tier;
  PatternEngine engine(
      {.num_pages = 4, .tiers = {{.tier = &tier, .policy = StorePolicy::write_through}}});
  CacheManager& manager = engine.manager();
  ASSERT_NE(engine.admit(count_from(0, 5)), nullptr);
  const SequenceId stale = engine.id(0);
  engine.release(0);
  const TokenId tokens[] = {1, 2};
  const std::array<SequenceId, 3> ids = {stale, SequenceId{}, SequenceId{1 << 30, 1 << 30}};
  for (const SequenceId id : ids) {
    EXPECT_EQ(manager.commit(id, tokens).code(), Errc::invalid_argument);
    EXPECT_EQ(manager.cancel_load(id).code(), Errc::invalid_argument);
    EXPECT_EQ(manager.preempt(id).code(), Errc::invalid_argument);
    EXPECT_EQ(manager.release(id).code(), Errc::invalid_argument);
    EXPECT_EQ(manager.resume(id, tokens).error().code(), Errc::invalid_argument);
    EXPECT_EQ(manager.load_state(id), LoadState::none);
    EXPECT_EQ(manager.layers_ready(id), 0);
  }
  EXPECT_EQ(manager.admit({}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(manager.prefetch({}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(manager.admit({static_cast<const TokenId*>(nullptr), 3}).error().code(),
            Errc::invalid_argument);
  const std::string salt(1000, 'x');
  EXPECT_EQ(manager.admit(tokens, {.salt = salt}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(manager.prefetch(tokens, {.salt = salt}).error().code(), Errc::invalid_argument);
  const SequenceOptions nowhere[] = {{.salt = {static_cast<const char*>(nullptr), 3}},
                                     {.spans = {static_cast<const ContentSpan*>(nullptr), 3}}};
  for (const SequenceOptions& options : nowhere) {
    EXPECT_EQ(manager.admit(tokens, options).error().code(), Errc::invalid_argument);
    EXPECT_EQ(manager.prefetch(tokens, options).error().code(), Errc::invalid_argument);
  }
  EXPECT_THAT(std::string(manager.counters(1).error().message()),
              HasSubstr("tier is 1, expected 0 .. 0"));
  EXPECT_FALSE(manager.counters(std::numeric_limits<size_t>::max()));
  ASSERT_NE(engine.admit(count_from(0, 5)), nullptr);
  EXPECT_EQ(manager.commit(engine.id(0), count_from(0, 1000)).code(), Errc::invalid_argument)
      << "no room was reserved";
  EXPECT_EQ(manager.commit(engine.id(0), {static_cast<const TokenId*>(nullptr), 3}).code(),
            Errc::invalid_argument);
  EXPECT_EQ(manager.commit(engine.id(0), tokens, static_cast<Merge>(9)).code(),
            Errc::invalid_argument);
  engine.preempt(0);
  EXPECT_EQ(manager.resume(engine.id(0), {}).error().code(), Errc::invalid_argument);
  EXPECT_EQ(manager.resume(engine.id(0), {static_cast<const TokenId*>(nullptr), 3}).error().code(),
            Errc::invalid_argument);
  engine.finish();
}

TEST(CacheManager, survives_an_engine_that_goes_round_it) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 24, .tiers = {{.tier = &tier, .min_hits = 0}}});
  ASSERT_NE(engine.admit(count_from(0, 21)), nullptr);
  ASSERT_TRUE(engine.compute(0));
  engine.release(0);
  engine.settle();
  engine.pool().clear().or_throw();
  tier.ends_at_once = false;
  CacheManager& manager = engine.manager();
  const auto admit = [&] { return manager.admit(count_from(0, 21)).value().id; };
  const SequenceId released = admit(), trimmed = admit(), preempted = admit();
  engine.pool().release(released).or_throw();
  engine.pool().trim(trimmed, 0).or_throw();
  engine.pool().preempt(preempted).or_throw();
  EXPECT_EQ(manager.cancel_load(released).code(), Errc::invalid_argument);
  tier.ends_at_once = true;
  engine.settle();
  EXPECT_EQ(engine.pool().check_invariants().message(), "");
  EXPECT_EQ(engine.pool().stats().used_pages, 0);
  EXPECT_EQ(manager.load_state(trimmed), LoadState::cut_short);
  EXPECT_EQ(manager.load_state(preempted), LoadState::cut_short);
  manager.release(trimmed).or_throw();
  manager.release(preempted).or_throw();
  for (int i = 0; i < 500; ++i) {  // states of sequences that are gone are forgotten
    const SequenceId id = admit();
    engine.settle();
    engine.pool().release(id).or_throw();
    engine.pool().clear().or_throw();
  }
  engine.finish();
}

TEST(CacheManager, bears_a_clock_that_jumps_to_either_end_of_time) {
  ManualTier tier;
  ManualClock clock;
  PatternEngine engine(
      {.num_pages = 24,
       .tiers = {{.tier = &tier, .faults_to_rest = 1, .longest_rest_ms = int64_t{1} << 40}},
       .manager = {.load_deadline_ms = int64_t{1} << 40,
                   .store_deadline_ms = int64_t{1} << 40,
                   .clock = clock.clock()}});
  tier.ends_at_once = false;
  for (const int64_t us : {std::numeric_limits<int64_t>::min(), most, int64_t{-1}, most}) {
    for (const TierOutcome outcome : {TierOutcome::done, TierOutcome::failed}) {
      clock.us = us;
      tier.load_outcome = tier.store_outcome = outcome;
      ASSERT_NE(engine.admit(count_from(0, 21)), nullptr);
      engine.manager().poll();
      clock.us = us == most ? std::numeric_limits<int64_t>::min() : most;
      while (!tier.pending.empty()) tier.end();
      engine.settle();
      ASSERT_TRUE(engine.compute(0));
      engine.release(0);
      while (!tier.pending.empty()) tier.end();
      engine.settle();
      engine.check();
    }
  }
  const TierCounters counters = engine.manager().counters(0).value();
  EXPECT_GT(counters.load_latency.count + counters.store_latency.count, 2);
  EXPECT_GE(counters.load_latency.sum_us, 0);
  EXPECT_GE(counters.store_latency.sum_us, 0);
  tier.ends_at_once = true;
  engine.finish();
}

TEST(CacheManager, has_names_and_bounds_for_whatever_it_is_asked) {
  for (const int refusal : {num_load_refusals, 255})
    EXPECT_STREQ(name(static_cast<LoadRefusal>(refusal)), "not a refusal");
  for (const int refusal : {num_store_refusals, 255})
    EXPECT_STREQ(name(static_cast<StoreRefusal>(refusal)), "not a refusal");
  for (const int reason : {num_rest_reasons, 255})
    EXPECT_STREQ(name(static_cast<RestReason>(reason)), "not a reason");
  constexpr int last = LatencyHistogram::num_buckets - 1;
  EXPECT_EQ(LatencyHistogram::bound_us(-1), 0);
  EXPECT_EQ(LatencyHistogram::bound_us(std::numeric_limits<int>::min()), 0);
  EXPECT_EQ(LatencyHistogram::bound_us(last - 1), int64_t{8} << (last - 1));
  for (const int bucket : {last, 64, std::numeric_limits<int>::max()})
    EXPECT_EQ(LatencyHistogram::bound_us(bucket), most);
}

TEST(CacheManager, reads_no_options_of_hits_that_it_cannot_reach) {
  ManualTier tier;
  PatternEngine engine({.num_pages = 12,
                        .tiers = {{.tier = &tier, .min_hits = std::numeric_limits<int32_t>::max()}},
                        .manager = {.min_load_pages = std::numeric_limits<int32_t>::max()}});
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(engine.admit(count_from(0, 21)), nullptr);
    ASSERT_TRUE(engine.compute(0));
    engine.release(0);
    engine.settle();
  }
  EXPECT_EQ(tier.stored, 0);
  engine.finish();
}

}  // namespace
}  // namespace folio::test
