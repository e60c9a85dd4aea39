// SPDX-License-Identifier: Apache-2.0
/// tests/pool/item_spans_test.cpp: prompts with images, whose placeholder tokens say nothing: what
/// is found, named and forgotten, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <tuple>

#include "folio/pool/reader.h"
#include "pool/inspection.h"
#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Spans = std::vector<ContentSpan>;

Digest256 image(uint8_t number) {
  Digest256 hash;
  hash.bytes.fill(number);
  return hash;
}

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

// ---- Beside a pool in which each image is a token of its own

/// Two pools that are told the same; in the second, an image's first token says which it is, so
/// that comparing tokens is enough.
class Pair {
 public:
  explicit Pair(uint64_t seed) : rng_(seed) {}

  void admit() {
    Live live;
    const auto size = rng_.int_between(1, 30);
    for (int32_t at = 0; at < size; ++at) live.tokens.push_back(rng_.int_between(0, 1));
    for (int32_t at = rng_.int_between(0, 6); at < size; at += rng_.int_between(1, 9)) {
      const int32_t most = std::min(3, size - at);
      live.spans.push_back(
          {at, rng_.int_between(1, most), image(static_cast<uint8_t>(rng_.int_between(1, 2)))});
      at += live.spans.back().length;
      if (live.spans.size() == max_spans) break;
    }
    const Result<Admission> a = items_.admit(live.tokens, {.spans = live.spans});
    const Result<Admission> b = plain_.admit(marked(live));
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a.has_value()) return;
    EXPECT_EQ(a->cached_tokens, b->cached_tokens);
    EXPECT_EQ(a->id, b->id);
    live.id = a->id;
    live.length = a->cached_tokens;
    live_.push_back(live);
  }
  void feed() {
    Live& live = any();
    const auto missing = static_cast<int32_t>(live.tokens.size()) - live.length;
    const int32_t count = missing > 0 ? rng_.int_between(1, missing) : rng_.int_between(1, 5);
    for (int32_t i = missing; i < count; ++i) live.tokens.push_back(rng_.int_between(0, 1));
    static_cast<void>(items_.take_copies());
    static_cast<void>(plain_.take_copies());
    const Status a = items_.reserve(live.id, count), b = plain_.reserve(live.id, count);
    ASSERT_EQ(a.code(), b.code());
    if (!a.is_ok()) return;
    static_cast<void>(items_.take_copies());
    static_cast<void>(plain_.take_copies());
    const Merge merge = rng_.int_between(0, 1) == 0 ? Merge::refused : Merge::allowed;
    const auto part = [&](const Tokens& all) {
      return std::span(all).subspan(static_cast<size_t>(live.length), static_cast<size_t>(count));
    };
    items_.commit(live.id, part(live.tokens), merge).or_throw();
    const Tokens tokens = marked(live);
    plain_.commit(live.id, part(tokens), merge).or_throw();
    live.length += count;
  }
  void trim() {
    Live& live = any();
    cut(live, rng_.int_between(0, live.length));
    items_.trim(live.id, live.length).or_throw();
    plain_.trim(live.id, live.length).or_throw();
  }
  void fork() {
    Live child = any();
    cut(child, rng_.int_between(0, child.length));
    const Result<SequenceId> a = items_.fork(child.id, child.length);
    const Result<SequenceId> b = plain_.fork(child.id, child.length);
    ASSERT_EQ(a.has_value(), b.has_value());
    if (!a.has_value()) return;
    child.id = *a;
    live_.push_back(child);
  }
  void preempt() {
    Live& live = any();
    items_.preempt(live.id).or_throw();
    plain_.preempt(live.id).or_throw();
    const Admission a = items_.resume(live.id, live.tokens).value();
    EXPECT_EQ(a.cached_tokens, plain_.resume(live.id, marked(live)).value().cached_tokens);
    live.length = a.cached_tokens;
  }
  void release() {
    const auto i = rng_.int_between(0, static_cast<int32_t>(live_.size()) - 1);
    items_.release(live_[static_cast<size_t>(i)].id).or_throw();
    plain_.release(live_[static_cast<size_t>(i)].id).or_throw();
    live_.erase(live_.begin() + i);
  }
  void step() {
    const int32_t kind = rng_.int_between(0, 9);
    if (live_.empty() || kind < 2) return admit();
    if (kind < 6) return feed();
    if (kind == 6) return trim();
    if (kind == 7) return fork();
    if (kind == 8) return preempt();
    release();
  }
  void check() {
    expect_sound(items_);
    PoolStats of_items = items_.stats(), of_plain = plain_.stats();
    EXPECT_EQ(of_items, of_plain);
    for (const Live& live : live_) {
      const PageTable a = items_.table(), b = plain_.table();
      const int64_t row = items_.row_start(live.id).value();
      for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(a.entries[row + i], b.entries[row + i]);
    }
  }
  [[nodiscard]] int64_t hit_tokens() const { return items_.stats().hit_tokens; }

 private:
  static constexpr uint32_t max_spans = 5;
  struct Live {
    SequenceId id;
    Tokens tokens;
    Spans spans;
    int32_t length = 0;
  };
  Live& any() {
    const auto last = static_cast<int32_t>(live_.size()) - 1;
    return live_[static_cast<size_t>(rng_.int_between(0, last))];
  }
  static void cut(Live& live, int32_t length) {
    live.length = length;
    live.tokens.resize(std::max<size_t>(1, static_cast<size_t>(length)));
    std::erase_if(live.spans, [&](const ContentSpan& span) { return span.offset >= length; });
  }
  /// A token that no text has, for the place of each image's first one.
  Tokens marked(const Live& live) {
    Tokens tokens = live.tokens;
    for (const ContentSpan& span : live.spans) {
      const auto what =
          std::tuple(span.hash.bytes[0], span.length, tokens[static_cast<size_t>(span.offset)]);
      const auto [mark, is_new] = marks_.try_emplace(what, static_cast<TokenId>(marks_.size()));
      tokens[static_cast<size_t>(span.offset)] = 1000 + mark->second;
    }
    return tokens;
  }

  Rng rng_;
  std::vector<Live> live_;
  std::map<std::tuple<uint8_t, int32_t, TokenId>, TokenId> marks_;
  static PoolOptions options(uint32_t spans) {
    return {.num_pages = 24,
            .page_size = 4,
            .max_sequences = 40,
            .max_pages_per_sequence = 12,
            .max_spans = spans};
  }
  PagePool items_ = make_pool(options(max_spans)), plain_ = make_pool(options(0));
};

TEST(ItemSpans, whatever_is_done_they_are_as_tokens_of_their_own) {
  int64_t hits = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Pair pair(seed);
    for (int step = 0; step < 150 && !testing::Test::HasFailure(); ++step) {
      pair.step();
      pair.check();
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    hits += pair.hit_tokens();
  }
  EXPECT_GT(hits, 1000);
}

}  // namespace
}  // namespace folio::test
