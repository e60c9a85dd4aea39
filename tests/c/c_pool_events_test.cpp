// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_events_test.cpp: events, readers, hits inside a page, items and merging, through
/// the C interface.
#include <cstring>
#include <string>
#include <thread>

#include "c/c_pool_case.h"

namespace folio::test {
namespace {

class CPoolEvents : public CPool {
 protected:
  void change(folio_pool_options& options) override {
    options.event_capacity = 4;
    options.min_partial_tokens = 2;
    options.max_spans = 2;
    options.readers = 1;
    options.histograms = 1;
  }
  struct Read {
    std::vector<folio_pool_event> events;
    uint64_t next = 0;
    int32_t lost = -1;
  };
  Read read(uint64_t next, int64_t capacity) {
    Read r{.events = std::vector<folio_pool_event>(static_cast<size_t>(capacity))};
    int64_t count = -1;
    EXPECT_EQ(folio_read_events(pool.get(), next, r.events.data(), capacity, &count, &r.next,
                                &r.lost, &message),
              FOLIO_OK)
        << message.text;
    r.events.resize(static_cast<size_t>(count));
    return r;
  }
  int32_t peek(const std::vector<int32_t>& prompt,
               const folio_sequence_options* options = nullptr) {
    int32_t tokens = -1;
    EXPECT_EQ(folio_peek(pool.get(), prompt.data(), static_cast<int64_t>(prompt.size()), options,
                         &tokens, &message),
              FOLIO_OK)
        << message.text;
    return tokens;
  }
  void serve(const std::vector<int32_t>& prompt) {
    const folio_sequence id = admit(prompt);
    write(id, prompt);
    ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK) << message.text;
  }
};

TEST_F(CPoolEvents, what_is_stored_and_cleared_is_told_in_order) {
  serve({1, 2, 3, 4, 5, 6, 7, 8});
  const Read two = read(0, 3);
  ASSERT_EQ(two.events.size(), 2u);
  EXPECT_EQ(two.events[0].number, 1u);
  EXPECT_EQ(two.events[0].kind, FOLIO_STORED);
  EXPECT_EQ(two.events[0].position, 0);
  EXPECT_EQ(two.events[0].num_tokens, 4);
  EXPECT_EQ(two.events[1].parent, two.events[0].content);
  EXPECT_EQ(two.next, 3u);
  EXPECT_EQ(two.lost, 0);
  ASSERT_EQ(folio_clear_pool(pool.get(), &message), FOLIO_OK) << message.text;
  const Read rest = read(two.next, 3);
  ASSERT_EQ(rest.events.size(), 1u);
  EXPECT_EQ(rest.events[0].kind, FOLIO_CLEARED);
  EXPECT_EQ(peek({1, 2, 3, 4, 5}), 0);
}

TEST_F(CPoolEvents, a_reader_that_is_late_takes_a_snapshot) {
  for (int32_t i = 0; i < 3; ++i) serve({10 * i, 1, 2, 3, 4, 5, 6, 7});
  const Read late = read(1, 3);
  EXPECT_EQ(late.lost, 1);
  EXPECT_TRUE(late.events.empty());
  EXPECT_EQ(late.next, 7u);
  folio_pool_event events[8] = {};
  int64_t count = -1;
  uint64_t last = 0;
  EXPECT_EQ(folio_snapshot(pool.get(), events, 5, &count, &last, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_snapshot: capacity is 5, expected at least 6 (contents)");
  EXPECT_EQ(count, -1);
  ASSERT_EQ(folio_snapshot(pool.get(), events, 8, &count, &last, &message), FOLIO_OK)
      << message.text;
  EXPECT_EQ(count, 6);
  EXPECT_EQ(last, 6u);
  for (int64_t i = 0; i < count; ++i) EXPECT_EQ(events[i].is_of_snapshot, 1);
}

TEST_F(CPoolEvents, more_events_than_are_copied_at_once_come_in_order) {
  auto options = c_struct<folio_pool_options>();
  options.num_pages = 64;
  options.page_size = 1;
  options.event_capacity = 64;
  folio_pool* made = nullptr;
  ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
  pool.reset(made);
  std::vector<int32_t> prompt(40, 3);
  serve(prompt);
  const Read all = read(1, 50);
  ASSERT_EQ(all.events.size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(all.events[i].number, i + 1);
  EXPECT_EQ(read(1, 33).events.size(), 33u);
  EXPECT_EQ(read(1, 33).next, 34u);
  EXPECT_EQ(read(41, 4).events.size(), 0u);
}

TEST_F(CPoolEvents, another_thread_reads_what_the_scheduler_has_done) {
  serve({1, 2, 3, 4, 5, 6, 7, 8});
  const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  int32_t tokens = -1;
  auto read_stats = c_struct<folio_pool_stats>();
  folio_message text = {};
  std::thread([&] {
    EXPECT_EQ(folio_read_peek(pool.get(), prompt, 9, nullptr, &tokens, &text), FOLIO_OK);
    EXPECT_EQ(folio_read_pool_stats(pool.get(), &read_stats, &text), FOLIO_OK);
  }).join();
  EXPECT_EQ(tokens, 8) << text.text;
  EXPECT_EQ(read_stats.cached_pages, 2);
}

TEST_F(CPoolEvents, a_hit_inside_a_page_is_counted_and_copied) {
  serve({1, 2, 3, 4, 5, 6, 7, 8});
  static_cast<void>(admit({1, 2, 3, 4, 5, 6, 7, 9}, 7));
  const folio_page_copy* copies = nullptr;
  int64_t num_copies = 0;
  ASSERT_EQ(folio_take_copies(pool.get(), &copies, &num_copies, &message), FOLIO_OK);
  ASSERT_EQ(num_copies, 1);
  EXPECT_EQ(copies[0].tokens, 3);
  EXPECT_EQ(stats().hit_tokens_cached, 4);
  EXPECT_EQ(stats().hit_tokens_partial, 3);
  auto histograms = c_struct<folio_pool_histograms>();
  ASSERT_EQ(folio_get_pool_histograms(pool.get(), &histograms, &message), FOLIO_OK);
  int64_t reused = 0;
  for (const int64_t count : histograms.reuse.counts) reused += count;
  EXPECT_EQ(reused, 2);
}

TEST_F(CPoolEvents, prompts_with_other_images_share_no_pages_behind_them) {
  folio_content_span span = {5, 2, {9}};
  auto options = c_struct<folio_sequence_options>();
  options.spans = &span;
  options.num_spans = 1;
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 0, 0, 0, 0, 5};
  folio_sequence id = 0;
  ASSERT_EQ(folio_admit(pool.get(), prompt.data(), 9, &options, &id, nullptr, &message), FOLIO_OK)
      << message.text;
  write(id, prompt);
  EXPECT_EQ(peek(prompt, &options), 8);
  span.hash[31] = 1;
  EXPECT_EQ(peek(prompt, &options), 4);
  span.length = 5;
  folio_sequence other = 0;
  EXPECT_EQ(folio_admit(pool.get(), prompt.data(), 9, &options, &other, nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "spans[0] has 5 tokens from 5 on"), nullptr) << message.text;
}

TEST_F(CPoolEvents, a_merged_commit_gives_the_second_page_up) {
  const folio_sequence a = admit({1, 2, 3, 4}), b = admit({1, 2, 3, 4});
  const int32_t tokens[] = {1, 2, 3, 4};
  write(a, {1, 2, 3, 4});
  ASSERT_EQ(folio_reserve(pool.get(), b, 4, &message), FOLIO_OK);
  EXPECT_EQ(stats().used_pages, 2);
  ASSERT_EQ(folio_commit_merged(pool.get(), b, tokens, 4, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(stats().used_pages, 1);
}

TEST_F(CPool, what_was_not_asked_for_is_refused_by_name) {
  folio_pool_event event = {};
  int64_t count = 0;
  uint64_t next = 0;
  int32_t lost = 0, tokens = 0;
  EXPECT_EQ(folio_read_events(pool.get(), 1, &event, 1, &count, &next, &lost, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "expected event_capacity"), nullptr) << message.text;
  EXPECT_EQ(folio_snapshot(pool.get(), &event, 1, &count, &next, &message), FOLIO_INVALID_ARGUMENT);
  const int32_t prompt[] = {1, 2};
  EXPECT_EQ(folio_read_peek(pool.get(), prompt, 2, nullptr, &tokens, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_read_peek: the pool has no readers, expected options->readers");
  auto of_pool = c_struct<folio_pool_stats>();
  EXPECT_EQ(folio_read_pool_stats(pool.get(), &of_pool, &message), FOLIO_INVALID_ARGUMENT);
  auto histograms = c_struct<folio_pool_histograms>();
  EXPECT_EQ(folio_get_pool_histograms(pool.get(), &histograms, &message), FOLIO_INVALID_ARGUMENT);
  const folio_sequence id = admit({1});
  write(id, {1});
  EXPECT_EQ(folio_clear_pool(pool.get(), &message), FOLIO_BUSY);
}

}  // namespace
}  // namespace folio::test
