// SPDX-License-Identifier: Apache-2.0
/// tests/pool/item_spans_as_tokens_test.cpp: whatever is done, a pool of prompts with images does
/// as one in which each image is a token of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "pool/pool_helpers.h"
#include "support/random.h"

namespace folio::test {
namespace {

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
    std::vector<ContentSpan> spans;
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
