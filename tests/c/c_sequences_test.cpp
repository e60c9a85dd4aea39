// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_sequences_test.cpp: several sequences at once, waiting, and how long pages are kept,
/// through the C interface.
#include <cstring>
#include <string>

#include "c/c_pool_case.h"

namespace folio::test {
namespace {

class CSequences : public CPool {
 protected:
  void change(folio_pool_options& options) override {
    options.max_retention_ms = 1000;
    options.watermark_pages = 1;
  }
  folio_pool_explanation explain(folio_sequence id, int32_t new_tokens) {
    auto e = c_struct<folio_pool_explanation>();
    EXPECT_EQ(folio_explain(pool.get(), id, new_tokens, &e, &message), FOLIO_OK) << message.text;
    return e;
  }
  int32_t length(folio_sequence id) {
    int32_t tokens = -1;
    EXPECT_EQ(folio_get_length(pool.get(), id, &tokens, &message), FOLIO_OK) << message.text;
    return tokens;
  }
  int32_t peek(const std::vector<int32_t>& prompt) {
    int32_t tokens = -1;
    EXPECT_EQ(folio_peek(pool.get(), prompt.data(), static_cast<int64_t>(prompt.size()), nullptr,
                         &tokens, &message),
              FOLIO_OK);
    return tokens;
  }
};

TEST_F(CSequences, a_batch_gets_its_room_or_none_does) {
  const folio_sequence a = admit({1, 2}), b = admit({3, 4});
  folio_reserve_request requests[] = {{a, 16, 0}, {b, 20, 0}};
  EXPECT_EQ(folio_reserve_batch(pool.get(), requests, 2, &message), FOLIO_OUT_OF_PAGES);
  EXPECT_EQ(stats().used_pages, 0) << message.text;
  requests[1].new_tokens = 12;
  ASSERT_EQ(folio_reserve_batch(pool.get(), requests, 2, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(stats().used_pages, 7);
  requests[1] = requests[0];
  EXPECT_EQ(folio_reserve_batch(pool.get(), requests, 2, &message), FOLIO_INVALID_ARGUMENT)
      << "listed twice";
  requests[0].reserved = 1;
  EXPECT_EQ(folio_reserve_batch(pool.get(), requests, 1, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_reserve_batch: requests[0].reserved is 1, expected 0");
  EXPECT_EQ(folio_reserve_batch(pool.get(), nullptr, 0, &message), FOLIO_OK);
}

TEST_F(CSequences, a_refused_reserve_is_explained) {
  const folio_sequence a = admit({1}), b = admit({2});
  ASSERT_EQ(folio_reserve(pool.get(), a, 24, &message), FOLIO_OK) << message.text;
  ASSERT_EQ(folio_reserve(pool.get(), b, 8, &message), FOLIO_OUT_OF_PAGES);
  const folio_pool_explanation e = explain(b, 8);
  EXPECT_EQ(e.needed, 2);
  EXPECT_EQ(e.held_back, 1) << "the watermark";
  EXPECT_EQ(e.free, 2);
  EXPECT_EQ(e.of_sequences, 6);
  EXPECT_EQ(e.cached + e.pinned + e.of_steps + e.of_copies, 0);
}

TEST_F(CSequences, children_share_a_cut_page_until_one_writes) {
  const folio_sequence id = admit({1, 2, 3, 4, 5, 6});
  write(id, {1, 2, 3, 4, 5, 6});
  folio_sequence children[2] = {};
  ASSERT_EQ(folio_fork_many(pool.get(), id, 6, children, 2, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(stats().used_pages, 2);
  ASSERT_EQ(folio_reserve(pool.get(), children[0], 1, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(stats().used_pages, 3);
  const folio_page_copy* copies = nullptr;
  int64_t num_copies = 0;
  ASSERT_EQ(folio_take_copies(pool.get(), &copies, &num_copies, &message), FOLIO_OK);
  EXPECT_EQ(num_copies, 1);
  EXPECT_EQ(length(children[1]), 6);
  folio_sequence more[3] = {5, 5, 5};
  EXPECT_EQ(folio_fork_many(pool.get(), id, 6, more, 3, &message), FOLIO_OUT_OF_PAGES);
  EXPECT_EQ(more[0], 5u) << "nothing is written";
}

TEST_F(CSequences, of_a_tree_of_drafts_one_path_is_kept) {
  folio_sequence tree[3] = {admit({1, 2, 3})};
  write(tree[0], {1, 2, 3});
  ASSERT_EQ(folio_fork_many(pool.get(), tree[0], 3, tree + 1, 2, &message), FOLIO_OK);
  const folio_page_copy* copies = nullptr;
  int64_t num_copies = 0;
  ASSERT_EQ(folio_reserve(pool.get(), tree[2], 2, &message), FOLIO_OK) << message.text;
  ASSERT_EQ(folio_take_copies(pool.get(), &copies, &num_copies, &message), FOLIO_OK);
  EXPECT_EQ(num_copies, 1);
  write(tree[2], {8, 9});
  EXPECT_EQ(folio_keep_path(pool.get(), tree, 3, 3, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_keep_path(pool.get(), tree, 3, -1, &message), FOLIO_INVALID_ARGUMENT);
  ASSERT_EQ(folio_keep_path(pool.get(), tree, 3, 2, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(length(tree[0]), 5);
  EXPECT_EQ(stats().sequences, 1);
}

TEST_F(CSequences, who_is_preempted_comes_back_with_what_is_cached) {
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const folio_sequence id = admit(tokens);
  write(id, tokens);
  int32_t cached = -1;
  EXPECT_EQ(folio_resume(pool.get(), id, tokens.data(), 9, &cached, &message),
            FOLIO_INVALID_ARGUMENT)
      << "it has pages";
  EXPECT_EQ(cached, -1);
  ASSERT_EQ(folio_preempt(pool.get(), id, &message), FOLIO_OK) << message.text;
  EXPECT_EQ(length(id), 0);
  EXPECT_EQ(stats().cached_pages, 2);
  ASSERT_EQ(folio_resume(pool.get(), id, tokens.data(), 9, &cached, &message), FOLIO_OK);
  EXPECT_EQ(cached, 8);
  EXPECT_EQ(length(id), 8);
}

TEST_F(CSequences, pins_end_with_their_time) {
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  const folio_retention_range all[] = {{0, 100, 100, 0, 50}};
  auto options = c_struct<folio_sequence_options>();
  options.retention = all;
  options.num_retention = 1;
  ASSERT_EQ(folio_advance_time(pool.get(), 10, &message), FOLIO_OK);
  folio_sequence id = 0;
  ASSERT_EQ(folio_admit(pool.get(), prompt.data(), 5, &options, &id, nullptr, &message), FOLIO_OK);
  write(id, prompt);
  ASSERT_EQ(folio_release(pool.get(), id, &message), FOLIO_OK);
  EXPECT_EQ(stats().pinned_pages, 1);
  EXPECT_EQ(explain(admit({9}), 1).pinned, 1);
  ASSERT_EQ(folio_advance_time(pool.get(), 200, &message), FOLIO_OK);
  EXPECT_EQ(stats().pinned_pages, 0);
  EXPECT_EQ(peek(prompt), 4) << "cached still";
  EXPECT_EQ(folio_advance_time(pool.get(), 199, &message), FOLIO_INVALID_ARGUMENT);

  int32_t found = 0;
  ASSERT_EQ(folio_retain(pool.get(), prompt.data(), 5, &options, &found, &message), FOLIO_OK)
      << message.text;
  EXPECT_EQ(found, 4);
  EXPECT_EQ(stats().pinned_pages, 1);
}

TEST_F(CSequences, bad_retention_is_refused_by_name) {
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5};
  folio_retention_range ranges[9] = {};
  const auto refused = [&](int64_t count, const char* words) {
    auto options = c_struct<folio_sequence_options>();
    options.retention = ranges;
    options.num_retention = count;
    folio_sequence id = 0;
    EXPECT_EQ(folio_admit(pool.get(), prompt.data(), 5, &options, &id, nullptr, &message),
              FOLIO_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(message.text, words), nullptr) << message.text;
  };
  refused(9, "options->num_retention is 9, expected at most 8");
  refused(-1, "options->num_retention");
  refused(1, "range 0 is 0 .. 0");
  ranges[0] = {0, 4, 101, 0, 0};
  refused(1, "101");
  ranges[0] = {0, 4, 50, 0, 1001};
  refused(1, "1001");
  ranges[0] = {0, 4, 50, 7, 0};
  refused(1, "options->retention[0].reserved is 7, expected 0");

  auto options = c_struct<folio_sequence_options>();
  options.decode_level = 5;
  folio_sequence id = 0;
  EXPECT_EQ(folio_admit(pool.get(), prompt.data(), 5, &options, &id, nullptr, &message),
            FOLIO_INVALID_ARGUMENT)
      << "a level without has_decode_retention";
  options.has_decode_retention = 1;
  EXPECT_EQ(folio_admit(pool.get(), prompt.data(), 5, &options, &id, nullptr, &message), FOLIO_OK);
}

}  // namespace
}  // namespace folio::test
