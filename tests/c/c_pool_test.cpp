// SPDX-License-Identifier: Apache-2.0
/// tests/c/c_pool_test.cpp: the page pool through the C interface.
#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "c/c_pool_case.h"
#include "folio/pool/page_pool.h"

namespace folio::test {
namespace {

TEST_F(CPool, zero_is_the_default_of_every_option) {
  auto options = c_struct<folio_pool_options>();
  options.num_pages = 4;
  folio_pool* made = nullptr;
  ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
  const std::unique_ptr<folio_pool, PoolDeleter> with_defaults(made);
  const std::vector<int32_t> prompt(17, 1);
  folio_sequence id = 0;
  for (int i = 0; i < 256; ++i)
    ASSERT_EQ(folio_admit(made, prompt.data(), 17, nullptr, &id, nullptr, &message), FOLIO_OK);
  EXPECT_EQ(folio_admit(made, prompt.data(), 17, nullptr, &id, nullptr, &message),
            FOLIO_OUT_OF_PAGES)
      << "max_sequences is 256";
  ASSERT_EQ(folio_reserve(made, id, 17, &message), FOLIO_OK) << message.text;
  auto s = c_struct<folio_pool_stats>();
  ASSERT_EQ(folio_get_pool_stats(made, &s, &message), FOLIO_OK);
  EXPECT_EQ(s.used_pages, 2) << "page_size is 16";
}

TEST_F(CPool, a_prefix_is_found_again) {
  const std::vector<int32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const folio_sequence first = admit(prompt);
  write(first, prompt);
  ASSERT_EQ(folio_release(pool.get(), first, nullptr), FOLIO_OK);
  int32_t seen = 0;
  ASSERT_EQ(folio_peek(pool.get(), prompt.data(), 9, nullptr, &seen, &message), FOLIO_OK);
  EXPECT_EQ(seen, 8);
  admit(prompt, 8);
  EXPECT_EQ(stats().hit_pages, 2);

  auto options = c_struct<folio_sequence_options>();
  options.salt = "another tenant";
  options.salt_bytes = std::strlen(options.salt);
  ASSERT_EQ(folio_peek(pool.get(), prompt.data(), 9, &options, &seen, &message), FOLIO_OK);
  EXPECT_EQ(seen, 0);
}

TEST_F(CPool, forks_and_trims_leave_copies_and_lengths) {
  const folio_sequence id = admit({1, 2, 3, 4, 5, 6});
  write(id, {1, 2, 3, 4, 5, 6});
  folio_sequence forked = 0;
  ASSERT_EQ(folio_fork(pool.get(), id, 5, &forked, &message), FOLIO_OK) << message.text;
  const folio_page_copy* copies = nullptr;
  int64_t count = 0;
  ASSERT_EQ(folio_take_copies(pool.get(), &copies, &count, &message), FOLIO_OK);
  ASSERT_EQ(count, 1);
  EXPECT_EQ(copies[0].tokens, 1);
  int32_t length = 0;
  ASSERT_EQ(folio_get_length(pool.get(), forked, &length, &message), FOLIO_OK);
  EXPECT_EQ(length, 5);
  ASSERT_EQ(folio_trim(pool.get(), forked, 4, &message), FOLIO_OK);

  auto table = c_struct<folio_table>();
  int64_t a = 0, b = 0;
  ASSERT_EQ(folio_get_table(pool.get(), &table, &message), FOLIO_OK);
  ASSERT_EQ(folio_get_row_start(pool.get(), id, &a, &message), FOLIO_OK);
  ASSERT_EQ(folio_get_row_start(pool.get(), forked, &b, &message), FOLIO_OK);
  EXPECT_EQ(table.entries[a], table.entries[b]) << "the full page is shared";
}

TEST_F(CPool, steps_hold_pages) {
  const folio_sequence id = admit({1, 2, 3});
  write(id, {1, 2, 3});
  folio_step step = 0;
  ASSERT_EQ(folio_begin_step(pool.get(), &id, 1, &step, &message), FOLIO_OK);
  EXPECT_EQ(stats().unfinished_steps, 1);
  ASSERT_EQ(folio_end_step(pool.get(), step, &message), FOLIO_OK);
  EXPECT_EQ(stats().unfinished_steps, 0);
  EXPECT_EQ(folio_end_step(pool.get(), step, &message), FOLIO_INVALID_ARGUMENT);
}

TEST_F(CPool, ordinary_and_broken_calls_have_their_codes) {
  const folio_sequence id = admit({1, 2, 3});
  EXPECT_EQ(folio_reserve(pool.get(), id, 33, &message), FOLIO_INVALID_ARGUMENT) << message.text;
  EXPECT_EQ(folio_reserve(pool.get(), id, 20, &message), FOLIO_OK);
  const folio_sequence other = admit({9, 9});
  EXPECT_EQ(folio_reserve(pool.get(), other, 20, &message), FOLIO_OUT_OF_PAGES) << message.text;
  ASSERT_EQ(folio_release(pool.get(), other, nullptr), FOLIO_OK);
  EXPECT_EQ(folio_release(pool.get(), other, &message), FOLIO_INVALID_ARGUMENT) << "a stale id";
  EXPECT_EQ(folio_release(pool.get(), 0, &message), FOLIO_INVALID_ARGUMENT) << "0 is no sequence";
  EXPECT_EQ(folio_release(nullptr, id, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_STREQ(message.text, "folio_release: pool is null");
  EXPECT_EQ(folio_commit(pool.get(), id, nullptr, 3, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_commit(pool.get(), id, nullptr, -1, &message), FOLIO_INVALID_ARGUMENT);
  folio_sequence out = 0;
  EXPECT_EQ(folio_admit(pool.get(), nullptr, 2, nullptr, &out, nullptr, &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_admit(pool.get(), nullptr, 0, nullptr, &out, nullptr, &message),
            FOLIO_INVALID_ARGUMENT)
      << "an empty prompt";
  EXPECT_EQ(folio_get_length(pool.get(), id, nullptr, &message), FOLIO_INVALID_ARGUMENT);
  folio_pool* none = nullptr;
  auto options = c_struct<folio_pool_options>();
  EXPECT_EQ(folio_create_pool(&options, &none, &message), FOLIO_INVALID_ARGUMENT)
      << "num_pages is 0";
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(std::strstr(message.text, "num_pages"), nullptr) << message.text;
}

TEST_F(CPool, rows_of_a_batch_are_all_or_none) {
  const folio_sequence ids[] = {admit({1, 2, 3}), admit({4, 5}), admit({6})};
  int64_t rows[3] = {-7, -7, -7}, row = 0;
  ASSERT_EQ(folio_get_batch_rows(pool.get(), ids, 3, rows, &message), FOLIO_OK) << message.text;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(folio_get_row_start(pool.get(), ids[i], &row, &message), FOLIO_OK);
    EXPECT_EQ(rows[i], row);
  }
  EXPECT_EQ(folio_get_batch_rows(pool.get(), nullptr, 0, nullptr, &message), FOLIO_OK);

  ASSERT_EQ(folio_release(pool.get(), ids[2], &message), FOLIO_OK);
  const std::vector<int64_t> before(rows, rows + 3);
  std::vector<int64_t> written = before;
  EXPECT_EQ(folio_get_batch_rows(pool.get(), ids, 3, written.data(), &message),
            FOLIO_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(message.text, "sequences[2] is 4294967298, expected one that is alive"),
            nullptr)
      << message.text;
  EXPECT_EQ(written, before);
  for (const int64_t count : {int64_t{-1}, INT64_MIN})
    EXPECT_EQ(folio_get_batch_rows(pool.get(), ids, count, rows, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_get_batch_rows(nullptr, ids, 1, rows, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_get_batch_rows(pool.get(), nullptr, 1, rows, &message), FOLIO_INVALID_ARGUMENT);
  EXPECT_EQ(folio_get_batch_rows(pool.get(), ids, 1, nullptr, &message), FOLIO_INVALID_ARGUMENT);
}

TEST_F(CPool, a_seed_may_be_given_and_older_callers_draw_one) {
  auto options = c_struct<folio_pool_options>();
  options.num_pages = 8;
  options.page_size = 4;
  options.max_sequences = 1;
  options.hash_seed = 7;
  for (const size_t size : {sizeof options, offsetof(folio_pool_options, hash_seed)}) {
    options.struct_size = static_cast<uint32_t>(size);
    folio_pool* made = nullptr;
    ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
    pool.reset(made);
    write(admit({1, 2, 3}), {1, 2, 3});
  }
}

TEST_F(CPool, an_eviction_policy_may_be_chosen) {
  for (const int32_t eviction : {FOLIO_LRU, FOLIO_S3_FIFO, FOLIO_LFU, FOLIO_COST}) {
    auto options = c_struct<folio_pool_options>();
    options.num_pages = 4;
    options.page_size = 1;
    options.eviction = eviction;
    folio_pool* made = nullptr;
    ASSERT_EQ(folio_create_pool(&options, &made, &message), FOLIO_OK) << message.text;
    pool.reset(made);
    for (const int32_t token : {1, 1, 1, 1, 2, 3, 4, 5, 6, 7}) {  // 1 often, then others
      folio_sequence id = 0;
      int32_t cached = 0;
      const int32_t prompt[] = {token, 0};
      ASSERT_EQ(folio_admit(made, prompt, 2, nullptr, &id, &cached, &message), FOLIO_OK);
      if (cached == 0) write(id, {token});
      ASSERT_EQ(folio_release(made, id, &message), FOLIO_OK);
    }
    int32_t seen = 0;
    const int32_t prompt[] = {1, 0};
    ASSERT_EQ(folio_peek(made, prompt, 2, nullptr, &seen, &message), FOLIO_OK);
    EXPECT_EQ(seen, eviction == FOLIO_LRU ? 0 : 1) << eviction;
  }
}

TEST_F(CPool, an_unknown_eviction_policy_is_refused) {
  constexpr auto count = static_cast<int32_t>(std::size(pool::eviction_names));
  for (const int32_t eviction : {-1, count, 256, INT32_MAX, INT32_MIN}) {
    auto options = c_struct<folio_pool_options>();
    options.num_pages = 4;
    options.eviction = eviction;
    folio_pool* made = nullptr;
    EXPECT_EQ(folio_create_pool(&options, &made, &message), FOLIO_INVALID_ARGUMENT);
    EXPECT_EQ(message.text, "folio_create_pool: options->eviction is " + std::to_string(eviction) +
                                ", expected 0 to " + std::to_string(count - 1));
  }
}

TEST_F(CPool, an_older_callers_stats_are_filled_as_far_as_they_go) {
  folio_pool_stats old = {};
  old.struct_size = offsetof(folio_pool_stats, used_pages);
  old.used_pages = -7;
  admit({1, 2, 3, 4, 5, 6});
  ASSERT_EQ(folio_get_pool_stats(pool.get(), &old, &message), FOLIO_OK);
  EXPECT_EQ(old.lookup_pages, 1);
  EXPECT_EQ(old.used_pages, -7) << "behind the caller's struct";
  EXPECT_EQ(old.struct_size, offsetof(folio_pool_stats, used_pages));
}

}  // namespace
}  // namespace folio::test
