// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/groups_loads_test.cpp: which pages of a hybrid model go down, and which hits
/// come of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/disk_tier.h"
#include "support/temporary_folder.h"
#include "tier/manager/filled_tier.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

// ---- What goes down

TEST(GroupLoads, a_window_stores_what_likely_hits_need) {
  Filled filled("gemma", 140);  // longer than the slack in front of a prompt's end
  EXPECT_EQ(filled.stored(0).size(), 140U);
  const std::vector<int32_t> window = filled.stored(1);
  ASSERT_FALSE(window.empty());
  EXPECT_EQ(window.back(), 139);
  EXPECT_EQ(window.size(), 130U) << "512 tokens before the prompt's end and a window of 9";
}

TEST(GroupLoads, states_go_down_at_checkpoints) {
  Filled filled("jamba", 8);
  EXPECT_EQ(filled.stored(0).size(), 8U);
  EXPECT_EQ(filled.stored(1), (std::vector<int32_t>{1, 3, 5, 7}));
}

TEST(GroupLoads, states_between_checkpoints_stay_in_memory) {
  ManualTier tier;
  GroupEngine engine({.model = shape("jamba"),
                      .pages = 320,
                      .tiers = {{.tier = &tier, .policy = StorePolicy::write_through}},
                      .max_io_pins = 512});
  engine.admit(tokens(140 * GroupEngine::page_size));
  for (TokenId output = 0; output < 6 * GroupEngine::page_size; ++output) {
    EXPECT_TRUE(engine.compute(0));
    engine.extend(0, output);
  }
  EXPECT_TRUE(engine.compute(0));
  engine.settle();
  std::vector<int32_t> below;
  for (int32_t p = 140; p < 146; ++p)
    if (tier.pages.contains(engine.pool().name(engine.id(0), p, 1).value())) below.push_back(p);
  EXPECT_EQ(below, (std::vector<int32_t>{141, 143, 145}))
      << "each page of outputs had a state at its end for a while";
  engine.finish();
}

/// Of a long prompt: pages of group 1 in front of those that likely hits need.
std::vector<int32_t> stored_behind(const std::string& model, int32_t hit_interval,
                                   StorePolicy policy, int32_t likely_from) {
  std::vector<int32_t> pages = Filled(model, 140, hit_interval, policy).stored(1);
  std::erase_if(pages, [&](int32_t p) { return p >= likely_from; });
  return pages;
}

TEST(GroupLoads, what_hits_at_an_interval_need_goes_down) {
  using Pages = std::vector<int32_t>;
  for (const StorePolicy policy : {StorePolicy::write_through, StorePolicy::write_back}) {
    SCOPED_TRACE(static_cast<int>(policy));
    // A window of 9 tokens: the 8 before the hit's end, 2 pages of 4
    EXPECT_EQ(stored_behind("gemma", 0, policy, 10), Pages());
    EXPECT_EQ(stored_behind("gemma", 16, policy, 10), Pages({2, 3, 6, 7}));
    EXPECT_EQ(stored_behind("gemma", 32, policy, 10), Pages({6, 7}));
    EXPECT_EQ(stored_behind("gemma", 4, policy, 10), Pages({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    // A chunk of 12: hits of 8, 16, 24 (the end of a chunk: nothing), 32 and 40 tokens
    EXPECT_EQ(stored_behind("llama_4", 0, policy, 12), Pages());
    EXPECT_EQ(stored_behind("llama_4", 8, policy, 12), Pages({0, 1, 3, 6, 7, 9}));
    EXPECT_EQ(stored_behind("llama_4", 12, policy, 12), Pages()) << "hits of whole chunks";
  }
}

TEST(GroupLoads, sinks_go_down_wherever_the_prompt_ends) {
  for (const StorePolicy policy : {StorePolicy::write_through, StorePolicy::write_back}) {
    Filled filled("two_windows_and_a_state", 140, 0, policy);
    EXPECT_EQ(filled.stored(1).front(), 0) << "its first 2 tokens are sinks";
    GroupEngine::Options options = filled.reader();
    options.pages = 300;
    options.max_io_pins = 512;
    GroupEngine engine(options);
    EXPECT_EQ(loaded(engine, 140), 140);
    engine.finish();
  }
}

TEST(GroupLoads, a_companion_continues_its_leading_page) {
  Filled filled("jamba", 4);
  EXPECT_EQ(filled.tier.parents[filled.name(1, 3)], filled.name(0, 3));
  EXPECT_EQ(filled.tier.parents[filled.name(0, 3)], filled.name(0, 2));
}

// ---- What comes back

TEST(GroupLoads, an_empty_pool_finds_all_that_went_down) {
  for (const ModelShape& model : model_shapes()) {
    SCOPED_TRACE(model.name);
    Filled filled(model.name, 8);
    GroupEngine engine(filled.reader());
    EXPECT_EQ(loaded(engine, 8), 8);
    EXPECT_EQ(engine.load_state(0), LoadState::loaded);
    EXPECT_EQ(filled.tier.finds_of_each, 1);
    engine.finish();
  }
}

TEST(GroupLoads, a_branch_in_the_middle_finds_the_last_multiple_of_the_interval) {
  for (const StorePolicy policy : {StorePolicy::write_through, StorePolicy::write_back}) {
    const auto found = [&](const std::string& model, int32_t hit_interval, int32_t pages) {
      Filled filled(model, 140, hit_interval, policy);
      GroupEngine engine(filled.reader());
      const int32_t there = loaded(engine, pages);  // and looks at every byte
      EXPECT_EQ(engine.manager().figures().lost_pages, 0);
      EXPECT_TRUE(engine.compute(0));
      engine.check();
      engine.finish();
      return there;
    };
    EXPECT_EQ(found("gemma", 0, 9), 0);
    EXPECT_EQ(found("gemma", 16, 9), 8);
    EXPECT_EQ(found("gemma", 16, 7), 4);
    EXPECT_EQ(found("gemma", 16, 3), 0);
    EXPECT_EQ(found("gemma", 4, 9), 9);
    EXPECT_EQ(found("two_windows_and_a_state", 16, 9), 8);
    // In a chunk of three pages only its first ones are needed; where one ends, nothing is.
    EXPECT_EQ(found("llama_4", 0, 11), 9);
    EXPECT_EQ(found("llama_4", 8, 11), 10);
  }
}

TEST(GroupLoads, a_branch_that_comes_twice_is_found_below_the_third_time) {
  for (const StorePolicy policy : {StorePolicy::write_through, StorePolicy::write_back}) {
    Filled filled("gemma", 140);
    GroupEngine::Options options = filled.reader();
    options.tiers[0].policy = policy;
    options.pages = 300;
    options.max_io_pins = 512;
    for (const TokenId branch : {1, 2}) {
      GroupEngine engine(options);  // memory knows nothing
      GroupEngine::Tokens prompt = tokens(140 * GroupEngine::page_size + 1);
      for (size_t t = 9 * GroupEngine::page_size; t < prompt.size(); ++t)
        prompt[t] += 1000 * branch;
      engine.admit(prompt);
      engine.settle();
      EXPECT_EQ(engine.length(0), branch == 1 ? 0 : 9 * GroupEngine::page_size);
      EXPECT_TRUE(engine.compute(0));
      engine.check();
      engine.finish();
    }
  }
}

TEST(GroupLoads, a_window_loads_no_more_than_its_hit_needs) {
  Filled filled("gemma", 8);
  GroupEngine engine(filled.reader());
  EXPECT_EQ(loaded(engine, 8), 8);
  // 8 leading pages, and those of the last 8 tokens before the next one
  EXPECT_EQ(engine.manager().counters(0)->loaded_pages, 8 + 2);
  EXPECT_EQ(engine.manager().counters(0)->loaded_tokens, 8 * GroupEngine::page_size);
}

TEST(GroupLoads, a_state_of_a_tier_lets_a_hit_go_further_than_memory) {
  Filled filled("jamba", 8);
  GroupEngine engine(filled.reader());
  EXPECT_EQ(loaded(engine, 4), 4);
  engine.release(0);
  const int64_t before = engine.manager().counters(0)->loaded_pages;
  EXPECT_EQ(loaded(engine, 8), 8);
  EXPECT_EQ(engine.manager().counters(0)->loaded_pages - before, 4 + 1) << "pages and a state";
}

TEST(GroupLoads, leading_pages_in_memory_need_only_what_the_other_groups_lack) {
  Filled filled("jamba", 8);
  GroupEngine engine(filled.reader());
  EXPECT_EQ(loaded(engine, 8), 8);
  engine.release(0);
  // states go first, as the leading pages are held by one that has them without room for states
  const PageName state = filled.name(1, 5);
  filled.tier.pages.erase(state);
  EXPECT_EQ(loaded(engine, 6), 2 * 2) << "the state behind page 5 is neither here nor there";
}

TEST(GroupLoads, a_hit_ends_where_a_group_has_nothing) {
  Filled filled("gemma", 8);
  filled.tier.pages.erase(filled.name(1, 6));
  GroupEngine engine(filled.reader());
  EXPECT_EQ(loaded(engine, 8), 6);
  EXPECT_EQ(engine.load_state(0), LoadState::loaded) << "it knew";
}

TEST(GroupLoads, a_prompt_that_nobody_knows_costs_one_question) {
  Filled filled("gemma", 4);
  GroupEngine engine(filled.reader());
  GroupEngine::Tokens other = tokens(40);
  other[0] = 99;
  engine.admit(other);
  EXPECT_EQ(filled.tier.finds, 1);
  EXPECT_EQ(filled.tier.finds_of_each, 0);
}

// ---- What does not come

TEST(GroupLoads, a_lost_companion_shortens_the_hit_to_what_all_groups_have) {
  Filled filled("jamba", 8);
  filled.tier.ends_at_once = false;
  GroupEngine engine(filled.reader());
  engine.admit(tokens(8 * GroupEngine::page_size + 1));
  ASSERT_EQ(engine.load_state(0), LoadState::loading);
  filled.tier.pages.erase(filled.name(1, 7));
  filled.tier.ends_at_once = true;
  engine.settle();
  engine.check();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine.length(0), 6 * GroupEngine::page_size) << "the state before was loaded then";
  EXPECT_EQ(filled.tier.load_calls, 2);
  EXPECT_EQ(engine.manager().counters(0)->load_outcomes[static_cast<int>(TierOutcome::missing)], 1);
  EXPECT_TRUE(engine.compute(0));
  engine.check();
  engine.finish();
}

TEST(GroupLoads, where_no_shorter_hit_is_there_the_sequence_is_as_before) {
  Filled filled("jamba", 8);
  GroupEngine engine(filled.reader());
  EXPECT_EQ(loaded(engine, 2), 2);
  engine.release(0);
  for (const int32_t page : {3, 5, 7}) {
    filled.tier.hopes.insert(filled.name(1, page));
    filled.tier.pages.erase(filled.name(1, page));
  }
  engine.admit(tokens(8 * GroupEngine::page_size + 1));
  engine.settle();
  engine.check();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine.length(0), 2 * GroupEngine::page_size);
  EXPECT_TRUE(engine.compute(0));
  engine.check();
  engine.finish();
}

TEST(GroupLoads, a_load_that_is_given_up_leaves_the_prompt_its_items) {
  Filled filled("jamba", 8);
  GroupEngine::Options options = filled.reader();
  options.max_spans = 4;
  GroupEngine engine(options);
  EXPECT_EQ(loaded(engine, 2), 2);
  engine.release(0);
  const std::array<ContentSpan, 1> image = {{{.offset = 18, .length = 6, .hash = {{1}}}}};
  const std::array<ContentSpan, 1> other = {{{.offset = 18, .length = 6, .hash = {{2}}}}};
  const GroupEngine::Tokens prompt = tokens(33);
  const TieredAdmission a = engine.manager().admit(prompt, {.spans = image}).value();
  EXPECT_EQ(a.cached_tokens, 8);
  ASSERT_EQ(a.loading_tokens, 8) << "the pages before it";
  engine.manager().cancel_load(a.id).or_throw();
  engine.settle();
  EXPECT_EQ(engine.pool().length(a.id).value(), 8);
  engine.pool().reserve(a.id, 24).or_throw();
  engine.manager().commit(a.id, std::span(prompt).subspan(8, 24)).or_throw();
  EXPECT_EQ(engine.pool().peek(prompt, {.spans = image}), 32);
  EXPECT_LE(engine.pool().peek(prompt, {.spans = other}), 16) << "another image";
  EXPECT_LE(engine.pool().peek(prompt), 16) << "none";
  engine.manager().release(a.id).or_throw();
  engine.finish();
}

TEST(GroupLoads, a_load_takes_the_place_of_a_hit_within_a_page) {
  Filled filled("gemma", 8);
  GroupEngine::Options options = filled.reader();
  options.min_partial_tokens = 1;
  GroupEngine engine(options);
  GroupEngine::Tokens cut = tokens(2);
  engine.admit(cut);
  EXPECT_TRUE(engine.compute(0));
  engine.release(0);
  engine.admit(tokens(8 * GroupEngine::page_size + 1));
  EXPECT_EQ(engine.load_state(0), LoadState::loading);
  engine.settle();
  engine.check();
  EXPECT_EQ(engine.length(0), 8 * GroupEngine::page_size);
  engine.finish();
}

TEST(GroupLoads, a_late_load_keeps_what_has_come) {
  Filled filled("gemma", 8);
  ManualClock clock;
  GroupEngine::Options options = filled.reader();
  options.manager.load_deadline_ms = 10;
  options.manager.clock = clock.clock();
  GroupEngine engine(options);
  filled.tier.ends_at_once = false;
  engine.admit(tokens(8 * GroupEngine::page_size + 1));
  ASSERT_EQ(filled.tier.pending.size(), 8U + 2U);
  for (int i = 0; i < 3; ++i) filled.tier.end();  // three leading pages
  engine.manager().poll();
  clock.advance_ms(11);
  engine.manager().poll();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  EXPECT_EQ(engine.length(0), 0) << "no group but the leading one has what three pages need";
  engine.check();
  filled.tier.ends_at_once = true;
  EXPECT_TRUE(engine.compute(0));
  engine.finish();
}

TEST(GroupLoads, pages_of_a_load_are_cut_short_with_its_row) {
  Filled filled("llama_4", 8);
  filled.tier.ends_at_once = false;
  GroupEngine engine(filled.reader());
  engine.admit(tokens(8 * GroupEngine::page_size + 1));
  ASSERT_TRUE(engine.pool().trim(engine.id(0), 0).is_ok());
  engine.manager().poll();
  EXPECT_EQ(engine.load_state(0), LoadState::cut_short);
  filled.tier.ends_at_once = true;
  engine.finish();
}

TEST(GroupLoads, layers_of_the_model_become_ready_in_order) {
  Filled filled("gemma", 8);  // layers 2 and 5 see all, 0, 1, 3 and 4 a window
  filled.tier.ends_at_once = false;
  GroupEngine engine(filled.reader());
  engine.admit(tokens(8 * GroupEngine::page_size + 1));
  const SequenceId id = engine.id(0);
  EXPECT_EQ(engine.manager().layers_ready(id), 0);
  filled.tier.landed_extents = 2;  // keys and values of the first of each group: 2 and 0
  EXPECT_EQ(engine.manager().layers_ready(id), 1);
  filled.tier.landed_extents = 4;  // 2 and 5, 0 and 1
  EXPECT_EQ(engine.manager().layers_ready(id), 3);
  filled.tier.landed_extents = 6;
  EXPECT_EQ(engine.manager().layers_ready(id), 4);
  filled.tier.ends_at_once = true;
  engine.settle();
  EXPECT_EQ(engine.manager().layers_ready(id), 6);
}

// ---- What others have written

/// Serves a prompt of so many pages over a directory; returns what was there of it.
int32_t served(const ModelShape& model, const std::string& path, int32_t pages,
               TierCounters& counters, StorePolicy policy = StorePolicy::write_through) {
  const auto disk =
      make_disk_tier(path, {.max_bytes = 2 << 20}, {.segment_bytes = 1 << 20}).value();
  GroupEngine engine({.model = model,
                      .pages = 64,
                      .tiers = {{.tier = disk.get(), .policy = policy}},
                      .manager = {.load_deadline_ms = 0, .store_deadline_ms = 0}});
  const int32_t there = loaded(engine, pages);
  EXPECT_TRUE(engine.compute(0));
  engine.check();
  engine.finish();
  counters = engine.manager().counters(0).value();
  return there;
}

TEST(GroupLoads, what_other_rules_have_written_is_a_miss_that_is_counted) {
  for (const char* const name : {"gemma", "llama_4", "jamba"}) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    const ModelShape model = shape(name);
    ModelShape other = model;
    GroupOptions& rule = other.groups[1].rule;
    if (rule.rule == GroupRule::window) rule.window = 16;
    if (rule.rule == GroupRule::chunked) rule.chunk = 64;  // no hit ends where one ends
    if (rule.rule == GroupRule::state) rule.checkpoint = 16;
    TierCounters counters;
    EXPECT_EQ(served(model, folder.path(), 8, counters), 0);
    EXPECT_EQ(served(other, folder.path(), 8, counters), 0);
    EXPECT_EQ(counters.found_pages, 8) << "leading ones";
    EXPECT_GE(counters.looked_up_pages, 16) << "and no others";
    EXPECT_EQ(counters.loaded_pages + counters.lost_pages, 0);
    // both are there now
    EXPECT_EQ(served(model, folder.path(), 8, counters, StorePolicy::none), 8);
    EXPECT_EQ(served(other, folder.path(), 8, counters, StorePolicy::none), 8);
  }
}

TEST(GroupLoads, pages_of_other_layers_are_lost_and_counted_and_stay_for_their_own) {
  const TemporaryFolder folder;
  const ModelShape model = shape("gemma");
  ModelShape other = model;
  other.groups[0].layers = {2};
  other.groups[1].layers = {0, 1, 3};
  TierCounters counters;
  EXPECT_EQ(served(model, folder.path(), 8, counters), 0);
  EXPECT_EQ(served(other, folder.path(), 8, counters, StorePolicy::none), 0);
  EXPECT_EQ(counters.loaded_pages, 0);
  EXPECT_EQ(counters.lost_pages,
            counters.load_outcomes[static_cast<int>(TierOutcome::missing)] +
                counters.load_outcomes[static_cast<int>(TierOutcome::corrupt)]);
  EXPECT_GT(counters.lost_pages, 0);
  EXPECT_EQ(served(model, folder.path(), 8, counters, StorePolicy::none), 8);
}

TEST(GroupLoads, tiers_that_have_some_groups_serve_what_they_have_together) {
  Filled filled("gemma", 8);
  ManualTier windows;  // has no leading page
  for (int32_t p = 0; p < 8; ++p) {
    windows.pages[filled.name(1, p)] = filled.tier.pages[filled.name(1, p)];
    filled.tier.pages.erase(filled.name(1, p));
  }
  const auto reach = [&](std::vector<TierOfCache> tiers) {
    GroupEngine::Options options = filled.reader();
    options.tiers = std::move(tiers);
    GroupEngine engine(options);
    const int32_t pages = loaded(engine, 8);
    EXPECT_EQ(engine.manager().figures().lost_pages, 0);
    engine.finish();
    return pages;
  };
  const TierOfCache leading{.tier = &filled.tier, .policy = StorePolicy::none};
  const TierOfCache behind{.tier = &windows, .policy = StorePolicy::none};
  EXPECT_EQ(reach({leading}), 0);
  EXPECT_EQ(reach({behind}), 0);
  EXPECT_EQ(reach({leading, behind}), 8);
  EXPECT_EQ(reach({behind, leading}), 8);
}

// ---- Groups that cannot be

TEST(GroupLoads, refusals_name_the_group_and_what_it_lacks) {
  GroupEngine engine({.model = shape("jamba"), .pages = 16});
  const auto planes = make_planes({.num_layers = 1,
                                   .num_heads = 2,
                                   .head_size = 8,
                                   .page_size = GroupEngine::page_size,
                                   .dtype = DType::f32},
                                  1, {})
                          .value();
  std::byte byte{};
  const tier::StatePages state{&byte, 1, 1};
  const std::vector<int32_t> first = {0}, second = {1}, none = {};
  const auto refusal = [&](std::vector<tier::GroupOfCache> groups) {
    const Result<CacheManager> manager =
        CacheManager::create({.pool = &engine.pool(), .groups = groups});
    EXPECT_FALSE(manager);
    return std::string(manager ? "" : manager.error().message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("groups has 0 elements, expected 2"));
  EXPECT_THAT(refusal({{planes, {}, first}, {planes, {}, second}}),
              HasSubstr("groups[1] has 1 planes and 0 states, expected states"));
  EXPECT_THAT(refusal({{{}, {}, none}, {{}, {&state, 1}, first}}),
              HasSubstr("groups[0] has 0 planes and 0 states, expected planes"));
  EXPECT_THAT(refusal({{planes, {&state, 1}, first}, {{}, {&state, 1}, second}}),
              HasSubstr("groups[0] has planes and states"));
  EXPECT_THAT(refusal({{planes, {}, none}, {{}, {&state, 1}, second}}),
              HasSubstr("groups[0].layers has 0 numbers, expected 1"));
  const std::span<const int32_t> nowhere(static_cast<const int32_t*>(nullptr), 1);
  EXPECT_THAT(refusal({{planes, {}, first}, {{}, {&state, 1}, nowhere}}),
              HasSubstr("groups[1] has planes, states or layers that are null"));
  EXPECT_THAT(refusal({{planes, {}, first}, {{}, {&state, 1}, first}}),
              HasSubstr("layers of groups are numbered 0 where 1 is expected"));
  EXPECT_THAT(refusal({{planes, {}, first}, {{}, {&state, 1}, second}}),
              HasSubstr("planes[0] have no page"));
  EXPECT_THAT(refusal({{planes, {}, first, 4}, {{}, {&state, 1}, second}}),
              HasSubstr("groups[0].hit_interval is 4, expected 0: all leading pages are stored"));
  EXPECT_THAT(refusal({{planes, {}, first}, {{}, {&state, 1}, second, 4}}),
              HasSubstr("groups[1].hit_interval is 4, expected 0: states have checkpoints"));
}

TEST(GroupLoads, intervals_are_whole_pages) {
  GroupEngine engine({.model = shape("gpt_oss"), .pages = 16});
  const auto planes = make_planes({.num_layers = 2,
                                   .num_heads = 2,
                                   .head_size = 8,
                                   .page_size = GroupEngine::page_size,
                                   .dtype = DType::f32},
                                  1, {})
                          .value();
  const std::vector<int32_t> leading = {1, 3}, windows = {0, 2};
  for (const int32_t interval : {-4, 1, 6, 513}) {
    const std::vector<tier::GroupOfCache> groups = {
        {.planes = planes, .layers = leading},
        {.planes = planes, .layers = windows, .hit_interval = interval}};
    const auto manager = CacheManager::create({.pool = &engine.pool(), .groups = groups});
    ASSERT_FALSE(manager) << interval;
    EXPECT_EQ(manager.error().code(), Errc::invalid_argument);
    EXPECT_THAT(std::string(manager.error().message()),
                HasSubstr("groups[1].hit_interval is " + std::to_string(interval) +
                          ", expected 0 or more, a multiple of the 4 tokens of a page"));
  }
}

}  // namespace
}  // namespace folio::test
