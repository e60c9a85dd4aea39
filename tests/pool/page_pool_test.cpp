// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_test.cpp: one sequence at a time: pages, hits, eviction, the table,
/// namespaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "pool/pool_helpers.h"

namespace folio::test {
namespace {

using ::testing::Each;

TEST(PagePool, a_new_pool_is_all_free) {
  const PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  EXPECT_EQ(pool.num_pages(), 10U);
  EXPECT_EQ(pool.page_size(), 4);
  EXPECT_EQ(pool.stats(), (PoolStats{.free_pages = 10}));
  expect_sound(pool);
}

TEST(PagePool, reserve_takes_whole_pages_and_only_those_that_are_missing) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId id = pool.admit(count_from(0, 9)).value().id;
  pool.reserve(id, 1).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  pool.reserve(id, 4).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 1);
  pool.reserve(id, 9).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 3);
  pool.reserve(id, 2).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 3);
  EXPECT_EQ(pool.length(id).value(), 0);
  expect_sound(pool);
}

TEST(PagePool, reserve_counts_from_the_length_not_from_earlier_room) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 4});
  const SequenceId id = pool.admit(count_from(0, 9)).value().id;
  for (int i = 0; i < 5; ++i) pool.reserve(id, 12).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 0);
}

TEST(PagePool, a_full_page_is_found_by_a_later_prompt) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const Tokens prompt = count_from(0, 10);
  const SequenceId first = prefill(pool, prompt);
  const Admission second = pool.admit(prompt).value();
  EXPECT_EQ(second.cached_tokens, 8);
  EXPECT_EQ(pool.length(second.id).value(), 8);
  EXPECT_EQ(row(pool, second.id, 2), row(pool, first, 2));
  EXPECT_EQ(pool.stats().hit_pages, 2);
  EXPECT_EQ(pool.stats().hit_tokens, 8);
  EXPECT_EQ(pool.stats().lookup_pages, 4);
  EXPECT_EQ(pool.stats().used_pages, 3);
  expect_sound(pool);
}

TEST(PagePool, a_page_is_not_found_before_its_last_token_is_committed) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const Tokens prompt = count_from(0, 9);
  const SequenceId id = pool.admit(prompt).value().id;
  pool.reserve(id, 9).or_throw();
  EXPECT_EQ(pool.peek(prompt), 0);
  pool.commit(id, count_from(0, 3)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 0);
  pool.commit(id, count_from(3, 1)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 4);
  pool.commit(id, count_from(4, 5)).or_throw();
  EXPECT_EQ(pool.peek(prompt), 8);
}

TEST(PagePool, a_hit_leaves_at_least_one_token_of_the_prompt) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  prefill(pool, count_from(0, 8));
  EXPECT_EQ(pool.peek(count_from(0, 9)), 8);
  EXPECT_EQ(pool.peek(count_from(0, 8)), 4);
  EXPECT_EQ(pool.peek(count_from(0, 5)), 4);
  EXPECT_EQ(pool.peek(count_from(0, 4)), 0);
  EXPECT_EQ(pool.admit(count_from(0, 8)).value().cached_tokens, 4);
  EXPECT_EQ(pool.stats().lookup_pages, 1 + 1);
}

TEST(PagePool, a_hit_ends_where_the_prompts_part) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  prefill(pool, count_from(0, 12));
  Tokens other = count_from(0, 13);
  other[7] = 99;  // page 2 has the same tokens, but follows others
  EXPECT_EQ(pool.peek(other), 4);
  EXPECT_EQ(pool.peek(count_from(4, 9)), 0);
}

TEST(PagePool, peek_changes_nothing) {
  PagePool pool = make_pool({.num_pages = 2, .page_size = 1});
  pool.release(prefill(pool, {1, 2})).or_throw();
  const PoolStats before = pool.stats();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.peek(Tokens{1, 5}), 1);
  EXPECT_EQ(pool.stats(), before);
  prefill(pool, {7});  // page 2 of the prompt goes first, as if nobody had looked at page 1
  EXPECT_EQ(pool.peek(Tokens{1, 5}), 1);
}

TEST(PagePool, release_of_last_holder_makes_full_pages_evictable_and_others_free) {
  PagePool pool = make_pool({.num_pages = 10, .page_size = 4});
  const SequenceId first = prefill(pool, count_from(0, 10));
  const SequenceId second = pool.admit(count_from(0, 10)).value().id;
  pool.release(first).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  EXPECT_EQ(pool.stats().cached_pages, 0);
  EXPECT_EQ(pool.stats().free_pages, 8);
  pool.release(second).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 0);
  EXPECT_EQ(pool.stats().cached_pages, 2);
  EXPECT_EQ(pool.stats().free_pages, 8);
  EXPECT_EQ(pool.stats().sequences, 0);
  expect_sound(pool);
}

TEST(PagePool, the_end_of_a_prefix_is_evicted_before_its_beginning) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 1});
  pool.release(prefill(pool, {1, 2, 3, 4})).or_throw();
  for (int32_t left = 3; left >= 0; --left) {
    prefill(pool, {100 + left});
    EXPECT_EQ(pool.peek(Tokens{1, 2, 3, 4, 5}), left);
    EXPECT_EQ(pool.stats().evicted_pages, 4 - left);
    expect_sound(pool);
  }
}

TEST(PagePool, the_page_that_was_released_longest_ago_is_evicted_first) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 1});
  for (TokenId t = 1; t <= 3; ++t) pool.release(prefill(pool, {t})).or_throw();
  pool.release(pool.admit(Tokens{1, 0}).value().id).or_throw();  // used again: now the last to go
  prefill(pool, {10});
  EXPECT_EQ(pool.peek(Tokens{2, 0}), 0);
  prefill(pool, {11});
  EXPECT_EQ(pool.peek(Tokens{3, 0}), 0);
  EXPECT_EQ(pool.peek(Tokens{1, 0}), 1);
}

TEST(PagePool, free_pages_are_used_before_cached_ones_are_evicted) {
  PagePool pool = make_pool({.num_pages = 3, .page_size = 1});
  pool.release(prefill(pool, {1})).or_throw();
  prefill(pool, {2, 3});
  EXPECT_EQ(pool.stats().evicted_pages, 0);
  EXPECT_EQ(pool.peek(Tokens{1, 0}), 1);
}

TEST(PagePool, an_admitted_prefix_is_never_evicted_for_its_own_request) {
  PagePool pool = make_pool({.num_pages = 2, .page_size = 4});
  pool.release(prefill(pool, count_from(0, 8))).or_throw();
  const Tokens prompt = count_from(0, 4) + Tokens{50, 51};
  const Admission a = pool.admit(prompt).value();
  EXPECT_EQ(a.cached_tokens, 4);
  const uint32_t hit = row(pool, a.id, 1)[0];
  pool.reserve(a.id, 2).or_throw();
  EXPECT_EQ(row(pool, a.id, 1)[0], hit);
  EXPECT_NE(row(pool, a.id, 2)[1], hit);
  EXPECT_EQ(pool.stats().evicted_pages, 1);
  expect_sound(pool);
}

TEST(PagePool, an_evicted_page_forgets_its_old_content) {
  PagePool pool = make_pool({.num_pages = 1, .page_size = 4});
  pool.release(prefill(pool, count_from(0, 4))).or_throw();
  const SequenceId id = prefill(pool, count_from(50, 3));
  EXPECT_EQ(pool.peek(count_from(0, 5)), 0);
  feed(pool, id, {53});
  EXPECT_EQ(pool.peek(count_from(50, 5)), 4);
  EXPECT_EQ(pool.peek(count_from(0, 5)), 0);
}

TEST(PagePool, without_prefix_reuse_nothing_is_found_or_cached) {
  PagePool pool = make_pool({.num_pages = 5, .page_size = 4, .prefix_reuse = false});
  const SequenceId id = prefill(pool, count_from(0, 10));
  EXPECT_EQ(pool.peek(count_from(0, 10)), 0);
  EXPECT_EQ(pool.admit(count_from(0, 10)).value().cached_tokens, 0);
  pool.release(id).or_throw();
  EXPECT_EQ(pool.stats().free_pages, 5);
  expect_sound(pool);
}

TEST(PagePool, salt_and_adapter_keep_prefixes_apart) {
  PagePool pool = make_pool({.num_pages = 20, .page_size = 4});
  const Tokens prompt = count_from(0, 9);
  prefill(pool, prompt, {.salt = "tenant-1", .adapter = 3});
  EXPECT_EQ(pool.peek(prompt, {.salt = "tenant-1", .adapter = 3}), 8);
  EXPECT_EQ(pool.peek(prompt, {.salt = "tenant-2", .adapter = 3}), 0);
  EXPECT_EQ(pool.peek(prompt, {.salt = "tenant-1", .adapter = 4}), 0);
  EXPECT_EQ(pool.peek(prompt, {.salt = "tenant-1"}), 0);
  EXPECT_EQ(pool.peek(prompt, {.salt = "tenant-", .adapter = 3}), 0);
  EXPECT_EQ(pool.peek(prompt, {.salt = std::string("tenant-1\0", 9), .adapter = 3}), 0);
  EXPECT_EQ(pool.peek(prompt), 0);
  prefill(pool, prompt);
  EXPECT_EQ(pool.peek(prompt), 8);
  EXPECT_EQ(pool.stats().hit_pages, 0);
}

TEST(PagePool, a_forgotten_namespace_does_not_answer_under_its_old_salt) {
  PagePool pool =
      make_pool({.num_pages = 20, .page_size = 4, .max_sequences = 1, .max_namespaces = 1});
  const Tokens prompt = count_from(0, 9);
  pool.release(prefill(pool, prompt, {.salt = "a"})).or_throw();
  pool.release(prefill(pool, prompt, {.salt = "b"})).or_throw();
  EXPECT_EQ(pool.peek(prompt, {.salt = "a"}), 8);
  pool.release(prefill(pool, prompt, {.salt = "c"})).or_throw();
  EXPECT_EQ(pool.peek(prompt, {.salt = "a"}), 0);
  EXPECT_EQ(pool.peek(prompt, {.salt = "b"}), 8);
  pool.release(prefill(pool, prompt, {.salt = "a"})).or_throw();
  EXPECT_EQ(pool.stats().hit_pages, 0);
  expect_sound(pool);
}

TEST(PagePool, any_token_value_is_a_token) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 2});
  const Tokens prompt = {-1, INT32_MIN, INT32_MAX, 0, 5};
  prefill(pool, prompt);
  EXPECT_EQ(pool.peek(prompt), 4);
}

TEST(PagePool, every_sequence_has_one_padded_aligned_row_for_life) {
  PagePool pool =
      make_pool({.num_pages = 6, .page_size = 2, .max_sequences = 3, .max_pages_per_sequence = 5});
  const PageTable table = pool.table();
  EXPECT_EQ(table.row_stride, PageTable::padded_columns(5));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(table.entries) % 32, 0U);
  EXPECT_EQ(table.row_stride % 8, 0);
  EXPECT_EQ(table.row_starts, nullptr);
  const std::vector<uint32_t> all(table.entries, table.entries + 3 * table.row_stride);
  EXPECT_THAT(all, Each(6U));

  const SequenceId first = prefill(pool, count_from(0, 3)),
                   second = prefill(pool, count_from(50, 5));
  const int64_t start = pool.row_start(second).value();
  EXPECT_NE(start, pool.row_start(first).value());
  EXPECT_EQ(start % table.row_stride, 0);
  const auto columns = static_cast<size_t>(table.row_stride);
  pool.release(first).or_throw();
  feed(pool, second, count_from(55, 3));
  EXPECT_EQ(pool.row_start(second).value(), start);
  EXPECT_EQ(pool.table().entries, table.entries);
  const std::vector<uint32_t> entries = row(pool, second, columns);
  for (size_t i = 0; i < columns; ++i) EXPECT_EQ(entries[i] < 6, i < 4) << i;
  pool.trim(second, 1).or_throw();
  const std::vector<uint32_t> trimmed = row(pool, second, columns);
  for (size_t i = 0; i < columns; ++i) EXPECT_EQ(trimmed[i] < 6, i < 1) << i;
  pool.release(second).or_throw();
  EXPECT_THAT(std::vector<uint32_t>(table.entries, table.entries + 3 * table.row_stride), Each(6U));
}

TEST(PagePool, a_sequence_can_be_longer_than_the_pages_of_its_prompt_but_not_than_its_row) {
  PagePool pool = make_pool({.num_pages = 9, .page_size = 2, .max_pages_per_sequence = 3});
  const SequenceId id = prefill(pool, count_from(0, 1));
  feed(pool, id, count_from(1, 5));
  EXPECT_EQ(pool.length(id).value(), 6);
  EXPECT_EQ(pool.reserve(id, 1).code(), Errc::invalid_argument);
  EXPECT_EQ(pool.peek(count_from(0, 20)), 6);
}

TEST(PagePool, a_hit_is_never_longer_than_a_row) {
  PagePool pool = make_pool({.num_pages = 9, .page_size = 2, .max_pages_per_sequence = 2});
  const SequenceId id = prefill(pool, count_from(0, 4));
  EXPECT_EQ(pool.admit(count_from(0, 9)).value().cached_tokens, 4);
  EXPECT_EQ(pool.length(id).value(), 4);
  expect_sound(pool);
}

TEST(PagePool, peak_counts_pages_in_use_not_cached_ones) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 1});
  pool.release(prefill(pool, count_from(0, 5))).or_throw();
  pool.release(prefill(pool, count_from(50, 2))).or_throw();
  EXPECT_EQ(pool.stats().peak_used_pages, 5);
  EXPECT_EQ(pool.stats().cached_pages, 7);
  const SequenceId a = pool.admit(count_from(0, 6)).value().id,
                   b = pool.admit(count_from(50, 3)).value().id;
  EXPECT_EQ(pool.stats().peak_used_pages, 7);
  pool.release(a).or_throw();
  pool.release(b).or_throw();
  EXPECT_EQ(pool.stats().peak_used_pages, 7);
}

TEST(PagePool, hits_with_a_single_token_per_page_leave_the_last_token) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 1});
  prefill(pool, {5, 6, 7});
  EXPECT_EQ(pool.peek(Tokens{5, 6, 7}), 2);
  EXPECT_EQ(pool.peek(Tokens{5, 6, 7, 8}), 3);
  EXPECT_EQ(pool.peek(Tokens{5}), 0);
}

}  // namespace
}  // namespace folio::test
