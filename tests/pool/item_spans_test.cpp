// SPDX-License-Identifier: Apache-2.0
/// tests/pool/item_spans_test.cpp: prompts with images, whose placeholder tokens say nothing: what
/// is found, named and forgotten, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "folio/pool/reader.h"
#include "pool/inspection.h"
#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Spans = std::vector<ContentSpan>;

PoolOptions options_of(uint32_t num_pages, int32_t page_size, uint32_t max_spans = 4) {
  return {.num_pages = num_pages,
          .page_size = page_size,
          .max_sequences = 4,
          .max_retention_ms = 1000,
          .readers = true,
          .max_spans = max_spans};
}

/// What admit finds, asked of everything that can tell.
int32_t cached(const PagePool& pool, const Tokens& prompt, const Spans& spans) {
  const int32_t tokens = pool.peek(prompt, {.spans = spans});
  EXPECT_EQ(PoolReader::of(pool).value().peek(prompt, {.spans = spans}), tokens);
  return tokens;
}

// ---- Hits

TEST(ItemSpans, other_images_behind_equal_placeholders_are_not_found_from_their_page_on) {
  PagePool pool = make_pool(options_of(16, 16));
  const Tokens prompt(65, 7);
  const Spans two{{11, 10, image(1)}, {30, 20, image(2)}};
  pool.release(prefill(pool, prompt, {.spans = two})).or_throw();
  EXPECT_EQ(cached(pool, prompt, two), 64);
  EXPECT_EQ(cached(pool, prompt, {}), 0);
  EXPECT_EQ(cached(pool, prompt, {{11, 10, image(3)}, {30, 20, image(2)}}), 0);
  EXPECT_EQ(cached(pool, prompt, {{11, 10, image(1)}, {30, 20, image(3)}}), 16);
  EXPECT_EQ(cached(pool, prompt, {{11, 10, image(1)}}), 16);
  EXPECT_EQ(cached(pool, prompt, {{10, 10, image(1)}, {30, 20, image(2)}}), 0) << "another place";
  EXPECT_EQ(cached(pool, prompt, {{11, 11, image(1)}, {30, 20, image(2)}}), 0) << "another size";
  EXPECT_EQ(cached(pool, prompt, {{11, 10, image(1)}, {30, 20, image(2)}, {64, 1, image(3)}}), 64);
  EXPECT_EQ(pool.admit(prompt, {.spans = two}).value().cached_tokens, 64);
  expect_sound(pool);
}

TEST(ItemSpans, text_before_an_image_is_found_without_it) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 17);
  pool.release(prefill(pool, prompt, {.spans = Spans{{9, 3, image(1)}}})).or_throw();
  EXPECT_EQ(cached(pool, prompt, {}), 8);
  EXPECT_EQ(cached(pool, prompt, {{9, 3, image(2)}}), 8);
  EXPECT_EQ(cached(pool, prompt, {{9, 3, image(1)}}), 16);
}

TEST(ItemSpans, a_page_may_have_several_and_their_order_counts) {
  PagePool pool = make_pool(options_of(16, 8));
  const Tokens prompt(17, 7);
  const Spans given{{0, 1, image(1)}, {1, 1, image(2)}, {2, 6, image(1)}};
  pool.release(prefill(pool, prompt, {.spans = given})).or_throw();
  EXPECT_EQ(cached(pool, prompt, given), 16);
  EXPECT_EQ(cached(pool, prompt, {{0, 1, image(2)}, {1, 1, image(1)}, {2, 6, image(1)}}), 0);
  EXPECT_EQ(cached(pool, prompt, {{0, 1, image(1)}, {1, 1, image(2)}}), 0);
}

TEST(ItemSpans, hits_inside_a_page_need_the_same_image) {
  PoolOptions options = options_of(16, 8);
  options.min_partial_tokens = 2;
  PagePool pool = make_pool(options);
  const Tokens prompt = count_from(0, 16);
  const Spans one{{9, 3, image(1)}};
  pool.release(prefill(pool, prompt, {.spans = one})).or_throw();
  EXPECT_EQ(pool.peek(prompt, {.spans = one}), 15);
  EXPECT_EQ(pool.peek(prompt, {.spans = Spans{{9, 3, image(2)}}}), 8);
  EXPECT_EQ(pool.peek(prompt), 8);
  EXPECT_EQ(pool.admit(prompt, {.spans = one}).value().cached_tokens, 15);
  expect_sound(pool);
}

TEST(ItemSpans, a_cut_tail_with_an_image_is_kept_with_it) {
  PoolOptions options = options_of(16, 8);
  options.min_partial_tokens = 2;
  PagePool pool = make_pool(options);
  const Tokens prompt = count_from(0, 14);
  const Spans one{{9, 3, image(1)}};
  pool.release(prefill(pool, prompt, {.spans = one})).or_throw();
  EXPECT_EQ(pool.peek(prompt, {.spans = one}), 13);
  EXPECT_EQ(pool.peek(prompt), 8);
  expect_sound(pool);
}

// ---- Lives of sequences

TEST(ItemSpans, resume_knows_the_images_of_admit) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 17);
  const SequenceId id = prefill(pool, prompt, {.spans = Spans{{5, 3, image(1)}}});
  pool.preempt(id).or_throw();
  expect_sound(pool);
  EXPECT_EQ(pool.resume(id, prompt).value().cached_tokens, 16);
  expect_sound(pool);
}

TEST(ItemSpans, a_fork_has_the_images_before_its_cut_only) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 16);
  const Spans two{{2, 1, image(1)}, {9, 3, image(2)}};
  const SequenceId id = prefill(pool, prompt, {.spans = two});
  const SequenceId child = pool.fork(id, 9).value();
  static_cast<void>(pool.take_copies());
  feed(pool, child, {prompt.begin() + 9, prompt.end()});
  expect_sound(pool);
  pool.release(child).or_throw();
  pool.release(id).or_throw();
  Tokens longer = prompt;
  longer.push_back(0);
  EXPECT_EQ(cached(pool, longer, {{2, 1, image(1)}}), 16) << "the fork's";
  EXPECT_EQ(cached(pool, longer, two), 16) << "the parent's";
  EXPECT_EQ(cached(pool, longer, {}), 0);
  expect_sound(pool);
}

TEST(ItemSpans, trim_takes_away_images_that_begin_behind_the_cut) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 16);
  const SequenceId id = prefill(pool, prompt, {.spans = Spans{{2, 1, image(1)}, {5, 6, image(2)}}});
  pool.trim(id, 7).or_throw();
  expect_sound(pool);
  pool.reserve(id, 9).or_throw();
  static_cast<void>(pool.take_copies());
  feed(pool, id, {prompt.begin() + 7, prompt.end()});
  EXPECT_EQ(pool.peek(count_from(0, 17), {.spans = Spans{{2, 1, image(1)}, {5, 6, image(2)}}}), 16);
  pool.trim(id, 5).or_throw();
  pool.reserve(id, 11).or_throw();
  static_cast<void>(pool.take_copies());
  feed(pool, id, {prompt.begin() + 5, prompt.end()});
  EXPECT_EQ(pool.peek(count_from(0, 17), {.spans = Spans{{2, 1, image(1)}}}), 16);
  expect_sound(pool);
}

TEST(ItemSpans, trim_keeps_images_for_who_computes_them_again) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 16);
  const Spans two{{2, 1, image(1)}, {5, 6, image(2)}};
  const SequenceId id = prefill(pool, prompt, {.spans = two});
  pool.trim(id, 1, CutItems::kept).or_throw();
  expect_sound(pool);
  pool.reserve(id, 15).or_throw();
  static_cast<void>(pool.take_copies());
  feed(pool, id, {prompt.begin() + 1, prompt.end()});
  pool.release(id).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 17), {.spans = two}), 16);
  EXPECT_EQ(pool.peek(count_from(0, 17)), 0);
  expect_sound(pool);
  EXPECT_THAT(pool.trim(prefill(pool, prompt), 1, static_cast<CutItems>(2)).message(),
              HasSubstr("items is 2, expected removed or kept"));
}

TEST(ItemSpans, a_tree_of_drafts_hands_its_images_on) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 8);
  const SequenceId id = prefill(pool, prompt, {.spans = Spans{{2, 1, image(1)}, {5, 1, image(2)}}});
  const SequenceId child = pool.fork(id, 4).value();
  feed(pool, child, count_from(20, 4));
  const SequenceId tree[] = {id, child};
  pool.keep_path(tree, 1).or_throw();
  expect_sound(pool);
  pool.release(id).or_throw();
  EXPECT_EQ(pool.peek(count_from(0, 9), {.spans = Spans{{2, 1, image(1)}, {5, 1, image(2)}}}), 8);
  expect_sound(pool);
}

TEST(ItemSpans, retain_means_the_prompt_with_its_images) {
  PagePool pool = make_pool(options_of(16, 4));
  const Tokens prompt = count_from(0, 8);
  const Spans one{{5, 3, image(1)}};
  pool.release(prefill(pool, prompt, {.spans = one})).or_throw();
  const RetentionRange pin[] = {
      {.begin = 0, .end = 8, .level = retention_level::pinned, .milliseconds = 9}};
  EXPECT_EQ(pool.retain(prompt, {.retention = pin}).value(), 4);
  EXPECT_EQ(pool.retain(prompt, {.retention = pin, .spans = one}).value(), 8);
  EXPECT_EQ(pool.stats().pinned_pages, 2);
}

// What no sequence has open is forgotten in the order in which it was closed: 2 x 1 x 1 places.
TEST(ItemSpans, images_without_a_sequence_are_forgotten_and_never_mistaken) {
  PoolOptions options = options_of(32, 4, 1);
  options.max_sequences = 1;
  PagePool pool = make_pool(options);
  const Tokens prompt = count_from(0, 9);
  for (uint8_t i = 1; i <= 3; ++i)
    pool.release(prefill(pool, prompt, {.spans = Spans{{1, 2, image(i)}}})).or_throw();
  EXPECT_EQ(cached(pool, prompt, {{1, 2, image(1)}}), 0);
  EXPECT_EQ(cached(pool, prompt, {{1, 2, image(2)}}), 8);
  EXPECT_EQ(cached(pool, prompt, {{1, 2, image(3)}}), 8);
  pool.release(prefill(pool, prompt, {.spans = Spans{{1, 2, image(1)}}})).or_throw();
  EXPECT_EQ(cached(pool, prompt, {{1, 2, image(1)}}), 8);
  expect_sound(pool);
}

TEST(ItemSpans, a_refused_trim_of_a_hybrid_model_takes_no_item_away) {
  const GroupOptions groups[] = {{.page_bytes = 16},
                                 {.rule = GroupRule::state, .page_bytes = 16, .checkpoint = 64}};
  PagePool pool = make_pool({.page_size = 16,
                             .max_sequences = 4,
                             .groups = groups,
                             .arena_bytes = 16 * 32,
                             .max_spans = 4});
  const Tokens prompt = count_from(0, 97);
  const Spans one{{90, 5, image(1)}};
  const SequenceId id = pool.admit(prompt, {.spans = one}).value().id;
  feed(pool, id, count_from(0, 80));
  EXPECT_EQ(pool.trim(id, 40).code(), Errc::invalid_argument);  // no state is there
  feed(pool, id, count_from(80, 16));
  EXPECT_EQ(pool.peek(prompt, {.spans = one}), 96);
  EXPECT_EQ(pool.peek(prompt), 0) << "the page of the image, without it";
  expect_sound(pool);
}

// ---- Names

struct Named {
  std::vector<Spans> pages;
  static Status name(void* self, const PageContent& page, PageName* name) noexcept {
    static_cast<Named*>(self)->pages.emplace_back(page.spans.begin(), page.spans.end());
    name->bytes.fill(1);
    return {};
  }
};

TEST(ItemSpans, names_are_told_of_each_item_that_touches_a_page_as_seen_from_it) {
  Named named;
  PoolOptions options = options_of(16, 16);
  options.name = {.function = Named::name, .context = &named};
  PagePool pool = make_pool(options);
  const SequenceId id =
      prefill(pool, Tokens(64, 7), {.spans = Spans{{11, 10, image(1)}, {30, 20, image(2)}}});
  EXPECT_TRUE(pool.name(id, 3).has_value());
  EXPECT_THAT(named.pages,
              ElementsAre(Spans{{11, 10, image(1)}}, Spans{{-5, 10, image(1)}, {14, 20, image(2)}},
                          Spans{{-2, 20, image(2)}}, Spans{{-18, 20, image(2)}}));
}

// ---- Refusals

TEST(ItemSpans, wrong_ones_are_named_and_change_nothing) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked(options_of(8, 4, 2)));
  const auto refused = [&](const Spans& spans, const char* words) {
    const std::vector<std::byte> before = memory.snapshot();
    const SequenceOptions options{.spans = spans};
    EXPECT_EQ(pool.admit(count_from(0, 9), options).error().code(), Errc::invalid_argument)
        << words;
    EXPECT_THAT(std::string(pool.admit(count_from(0, 9), options).error().message()),
                HasSubstr(words));
    EXPECT_EQ(pool.retain(count_from(0, 9), options).error().code(), Errc::invalid_argument)
        << words;
    EXPECT_EQ(cached(pool, count_from(0, 9), spans), 0);
    EXPECT_TRUE(memory.snapshot() == before) << words;
  };
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  refused({{0, 1, {}}, {1, 1, {}}, {2, 1, {}}}, "spans has 3 items, expected at most 2");
  refused({{0, 0, {}}}, "spans[0] has 0 tokens from 0 on, expected at least 1 within 0 .. 9");
  refused({{-1, 2, {}}}, "spans[0] has 2 tokens from -1 on");
  refused({{0, -1, {}}}, "spans[0] has -1 tokens");
  refused({{8, 2, {}}}, "spans[0] has 2 tokens from 8 on");
  refused({{0, 3, {}}, {2, 1, {}}},
          "spans[1] has 1 tokens from 2 on, expected at least 1 within 3");
  refused({{5, 1, {}}, {2, 1, {}}}, "spans[1] has 1 tokens from 2 on");
  refused({{most, most, {}}}, "spans[0] has 2147483647 tokens from 2147483647 on");
  refused({{std::numeric_limits<int32_t>::min(), most, {}}}, "spans[0] has 2147483647 tokens");
  const SequenceOptions null{.spans = {static_cast<const ContentSpan*>(nullptr), 1}};
  EXPECT_THAT(std::string(pool.admit(count_from(0, 9), null).error().message()),
              HasSubstr("spans is null, expected memory of size 1"));
  expect_sound(pool);
}

TEST(ItemSpans, options_beyond_memory_or_without_reuse_are_refused) {
  const auto message = [](PoolOptions options) {
    return std::string(PagePool::create(options).error().message());
  };
  PoolOptions options = options_of(8, 4, std::numeric_limits<uint32_t>::max());
  EXPECT_THAT(message(options), HasSubstr("max_spans is 4294967295, expected 0 .. 268435455"));
  options = {.num_pages = 8, .prefix_reuse = false, .max_spans = 1};
  EXPECT_THAT(message(options), HasSubstr("max_spans is 1, expected 0"));
  const Spans one{{0, 1, {}}};
  PagePool none = make_pool({.num_pages = 8});
  EXPECT_THAT(std::string(none.admit(count_from(0, 2), {.spans = one}).error().message()),
              HasSubstr("spans has 1 items, expected at most 0 (max_spans)"));
}

}  // namespace
}  // namespace folio::test
