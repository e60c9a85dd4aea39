// SPDX-License-Identifier: Apache-2.0
/// tests/pool/groups_eviction_test.cpp: hybrid models: what goes first of what windows and states
/// have left behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "folio/pool/reader.h"
#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

constexpr int32_t page_size = 16;
constexpr GroupOptions full{.page_bytes = 16};
constexpr GroupOptions window{.rule = GroupRule::window, .page_bytes = 16, .window = 32};
constexpr GroupOptions states{.rule = GroupRule::state, .page_bytes = 16, .checkpoint = 64};

/// Every slab has one page.
PagePool make_hybrid(const GroupOptions& other, int64_t slabs) {
  const std::vector<GroupOptions> groups{full, other};
  return make_pool({.page_size = page_size,
                    .max_sequences = 4,
                    .max_pages_per_sequence = 200,
                    .groups = groups,
                    .arena_bytes = slabs * 16});
}

/// Feeds the rest of a prompt by steps, as engines do, and then what is generated.
SequenceId run(PagePool& pool, const Tokens& prompt, const Tokens& output = {}) {
  const Admission a = pool.admit(prompt).value();
  const Tokens all = prompt + output;
  for (auto done = static_cast<size_t>(a.cached_tokens); done < all.size();) {
    const size_t end = std::min(all.size(), done + 64);
    feed(pool, a.id,
         {all.begin() + static_cast<int64_t>(done), all.begin() + static_cast<int64_t>(end)});
    done = end;
  }
  return a.id;
}

void run_and_release(PagePool& pool, const Tokens& prompt, const Tokens& output = {}) {
  pool.release(run(pool, prompt, output)).or_throw();
  expect_sound(pool);
}

int64_t cached(const PagePool& pool, uint32_t group) {
  return pool.group(group).value().cached_pages;
}

TEST(GroupsEviction, pages_behind_a_window_go_before_all_others) {
  PagePool pool = make_hybrid(window, 200);
  const Tokens a = count_from(0, 1600);
  run_and_release(pool, a);  // 100 pages in each group
  EXPECT_EQ(cached(pool, 0) + cached(pool, 1), 200);
  run_and_release(pool, count_from(10'000, 400));  // 25 leading pages, and 25 in windows
  EXPECT_EQ(pool.peek(a + Tokens{-1}), 1600);
  EXPECT_EQ(pool.peek(count_from(10'000, 400) + Tokens{-1}), 400);
  EXPECT_EQ(cached(pool, 0), 125);  // none of the first has gone
}

TEST(GroupsEviction, readers_tell_of_leading_pages_alone_and_events_of_companions) {
  const std::vector<GroupOptions> groups{full, window};
  PagePool pool = make_pool({.page_size = page_size,
                             .max_sequences = 4,
                             .max_pages_per_sequence = 200,
                             .groups = groups,
                             .arena_bytes = 200 * 16,
                             .event_capacity = 1024,
                             .readers = true});
  run_and_release(pool, count_from(0, 1600));
  run_and_release(pool, count_from(10'000, 800));  // takes what the first has behind its window
  const Tokens beginning = count_from(0, 320);
  EXPECT_EQ(pool.peek(beginning + Tokens{-1}), 0);
  EXPECT_EQ(PoolReader::of(pool).value().peek(beginning + Tokens{-1}), 320);
  std::vector<PoolEvent> events(1024);
  const EventRead read = pool.read_events(1, events).value();
  int leading = 0, companions = 0, lost = 0;
  for (const PoolEvent& event : std::span(events).first(read.count)) {
    leading += event.group == 0 ? 1 : 0;
    (event.kind == PoolEventKind::stored ? companions : lost) += event.group == 1 ? 1 : 0;
  }
  EXPECT_EQ(leading, 150);  // each once: none has gone
  EXPECT_EQ(companions, 150);
  EXPECT_EQ(lost, pool.group(1).value().evicted_pages);
  EXPECT_GT(lost, 0);
}

TEST(GroupsEviction, pages_behind_a_window_serve_until_they_are_needed) {
  PagePool pool = make_hybrid(window, 200);
  const Tokens a = count_from(0, 1600);
  run_and_release(pool, a);
  const Tokens beginning = count_from(0, 320);
  EXPECT_EQ(pool.peek(beginning + Tokens{-1}), 320);
  const Admission b = pool.admit(beginning + Tokens{-1}).value();
  EXPECT_EQ(b.cached_tokens, 320);
  expect_sound(pool);
  pool.release(b.id).or_throw();
  EXPECT_EQ(pool.peek(a + Tokens{-1}), 1600);
}

TEST(GroupsEviction, the_end_of_a_prompt_is_kept_while_the_output_goes_on) {
  PagePool pool = make_hybrid(window, 300);
  const Tokens prompt = count_from(0, 800);
  run_and_release(pool, prompt, count_from(5000, 800));
  for (int i = 0; i < 4; ++i) run_and_release(pool, count_from(10'000 + 1000 * i, 320));
  EXPECT_EQ(pool.peek(prompt + Tokens{-1}), 800);
  EXPECT_EQ(pool.peek(prompt + count_from(5000, 799) + Tokens{-1}), 1584);  // and of the whole
  EXPECT_EQ(pool.peek(prompt + count_from(5000, 400) + Tokens{-1}), 800);   // not what lies between
}

TEST(GroupsEviction, a_place_where_a_lookup_diverged_is_kept_from_then_on) {
  PagePool pool = make_hybrid(window, 340);
  const Tokens common = count_from(0, 320);
  run_and_release(pool, common + count_from(1000, 1280));
  run_and_release(pool, count_from(10'000, 1600));  // takes what is behind the first one's windows
  ASSERT_LT(pool.peek(common + Tokens{-1}), 320);
  const SequenceId b = run(pool, common + count_from(3000, 640));
  run_and_release(pool, count_from(20'000, 480));
  EXPECT_EQ(pool.peek(common + Tokens{-1}), 320);
  pool.release(b).or_throw();
}

TEST(GroupsEviction, a_place_where_a_hit_ended_is_kept_from_then_on) {
  PagePool pool = make_hybrid(window, 340);
  const Tokens common = count_from(0, 320);
  run_and_release(pool, common + count_from(1000, 1280));
  const Admission b = pool.admit(common + Tokens{-1}).value();
  ASSERT_EQ(b.cached_tokens, 320);
  feed(pool, b.id, count_from(5000, 640));
  pool.release(b.id).or_throw();
  run_and_release(pool, count_from(10'000, 960));
  EXPECT_EQ(pool.peek(common + Tokens{-1}), 320);
}

TEST(GroupsEviction, a_hit_that_ends_early_keeps_its_place_too) {
  PagePool pool = make_hybrid(window, 300);
  const Tokens common = count_from(0, 320), a = common + count_from(1000, 1280);
  run_and_release(pool, a);
  const Admission b = pool.admit(common + Tokens{-1}).value();
  ASSERT_EQ(b.cached_tokens, 320);
  feed(pool, b.id, count_from(5000, 64));
  pool.release(b.id).or_throw();
  run_and_release(pool, count_from(10'000, 1280));
  // leading pages match as far as 960, but of windows only those of 320 are left
  const Admission c = pool.admit(Tokens(a.begin(), a.begin() + 960) + Tokens{-1}).value();
  ASSERT_EQ(c.cached_tokens, 320);
  feed(pool, c.id, count_from(30'000, 640));
  pool.release(c.id).or_throw();
  run_and_release(pool, count_from(20'000, 320));
  EXPECT_EQ(pool.peek(common + Tokens{-1}), 320);
  expect_sound(pool);
}

TEST(GroupsEviction, of_states_the_last_one_of_a_prompt_is_kept) {
  PagePool pool = make_hybrid(states, 140);
  const Tokens a = count_from(0, 1600);
  run_and_release(pool, a, count_from(5000, 64));  // 104 leading pages and 26 states
  run_and_release(pool, count_from(10'000, 320));  // 20 and 5; 10 are free
  EXPECT_EQ(pool.peek(a + Tokens{-1}), 1600);
  EXPECT_EQ(pool.peek(count_from(0, 640) + Tokens{-1}), 0);
}

TEST(GroupsEviction, a_sequence_that_gives_up_early_finds_its_window_again) {
  PagePool pool = make_hybrid(window, 150);
  const Tokens a = count_from(0, 800);
  const SequenceId id = run(pool, a);
  pool.preempt(id).or_throw();
  run_and_release(pool, count_from(10'000, 160));
  EXPECT_EQ(pool.resume(id, a + Tokens{-1})->cached_tokens, 800);
  expect_sound(pool);
}

TEST(GroupsEviction, where_all_slabs_are_spoken_for_free_pages_go_before_those_behind) {
  const std::vector<GroupOptions> groups{
      {.page_bytes = 64}, {.rule = GroupRule::window, .page_bytes = 16, .window = 16}};
  PagePool pool = make_pool(
      {.page_size = page_size, .max_sequences = 1, .groups = groups, .arena_bytes = 5 * 64});
  const SequenceId id = pool.admit(Tokens{0}).value().id;
  feed(pool, id, count_from(0, 48));  // 3 slabs, and of a fourth 2 pages behind, 1 used, 1 free
  ASSERT_EQ(cached(pool, 1), 2);
  feed(pool, id, count_from(48, 16));
  EXPECT_EQ(pool.group(1).value().evicted_pages, 0);
  expect_sound(pool);
}

TEST(GroupsEviction, a_group_gives_up_its_lowest_level_before_an_older_slab_of_its_own) {
  const std::vector<GroupOptions> groups{
      {},
      {.rule = GroupRule::full, .page_bytes = 16},
      {.rule = GroupRule::state, .page_bytes = 32, .checkpoint = 64}};
  PagePool pool = make_pool({.num_pages = 8,
                             .page_size = page_size,
                             .max_sequences = 4,
                             .groups = groups,
                             .arena_bytes = 6 * 32,  // each sequence takes two slabs
                             .max_retention_ms = 1000});
  const SequenceId c = prefill(pool, count_from(2000, 32));
  const RetentionRange higher{.level = 20}, lower{.level = 10};
  const Tokens a = count_from(0, 32), b = count_from(1000, 32);
  pool.release(prefill(pool, a, {.retention = {&higher, 1}})).or_throw();
  pool.release(prefill(pool, b, {.retention = {&lower, 1}})).or_throw();
  feed(pool, c, count_from(2032, 16));
  EXPECT_EQ(pool.peek(a + Tokens{-1}), 32);
  EXPECT_EQ(pool.peek(b + Tokens{-1}), 0);
  EXPECT_EQ(pool.group(1).value().evicted_pages, 1);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
