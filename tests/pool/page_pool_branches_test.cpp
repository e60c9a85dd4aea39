// SPDX-License-Identifier: Apache-2.0
/// tests/pool/page_pool_branches_test.cpp: beams, token trees, and sequences that wait without
/// pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "pool/pool_helpers.h"
#include "pool/pool_memory.h"

namespace folio::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string message(const Status& status) { return std::string(status.message()); }

// ---- Beams

TEST(PagePoolBeams, a_cut_page_is_shared_until_each_but_the_last_has_copied_it) {
  PagePool pool = make_pool({.num_pages = 16, .page_size = 4});
  const SequenceId prompt = prefill(pool, count_from(0, 6));
  std::array<SequenceId, 4> beams;
  pool.fork(prompt, 6, beams).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  for (const SequenceId beam : beams) EXPECT_THAT(row(pool, beam, 2), ElementsAre(0, 1));
  pool.release(prompt).or_throw();

  std::vector<ReserveRequest> requests;
  for (const SequenceId beam : beams) requests.push_back({beam, 1});
  pool.reserve(requests).or_throw();
  EXPECT_EQ(pool.take_copies().size(), 3U);
  EXPECT_EQ(pool.stats().used_pages, 5);
  EXPECT_THAT(row(pool, beams[3], 2), ElementsAre(0, 1));  // the last one writes in place
  for (const SequenceId beam : beams) pool.commit(beam, count_from(50, 1)).or_throw();
  expect_sound(pool);
}

TEST(PagePoolBeams, the_sequence_that_was_forked_copies_too_before_it_writes) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  const SequenceId parent = prefill(pool, count_from(0, 6));
  std::array<SequenceId, 1> child;
  pool.fork(parent, 5, child).or_throw();
  pool.reserve(parent, 1).or_throw();
  const std::vector<PageCopy> copies = take_copies(pool);
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].tokens, 2);
  pool.reserve(child[0], 1).or_throw();  // its cut lies before the end of what that copy reads
  EXPECT_EQ(pool.take_copies().size(), 1U);
  expect_sound(pool);
}

TEST(PagePoolBeams, with_room_in_the_last_page_each_child_gets_its_copy_at_once) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .max_sequences = 8});
  const SequenceId parent = prefill(pool, count_from(0, 6));
  pool.reserve(parent, 2).or_throw();
  std::array<SequenceId, 3> three;
  EXPECT_EQ(pool.fork(parent, 6, three).code(), Errc::out_of_pages);
  EXPECT_EQ(pool.stats().sequences, 1);
  std::array<SequenceId, 2> two;
  pool.fork(parent, 6, two).or_throw();
  EXPECT_EQ(pool.take_copies().size(), 2U);
  pool.commit(parent, count_from(6, 2)).or_throw();  // nobody else sees its page
  expect_sound(pool);
}

TEST(PagePoolBeams, hostile_forks_are_refused_by_name_and_change_nothing) {
  PoolMemory memory;
  PagePool pool = make_pool(
      memory.hooked({.num_pages = 4, .page_size = 4, .max_sequences = 3, .hash_seed = 1}));
  const SequenceId a = prefill(pool, count_from(0, 6));
  const std::vector<std::byte> before = memory.snapshot();
  std::array<SequenceId, 3> three;
  EXPECT_THAT(message(pool.fork(a, 6, three)),
              HasSubstr("children has 3 places, expected at most 2"));
  SequenceId* const null = nullptr;
  EXPECT_THAT(message(pool.fork(a, 6, std::span(null, 2))), HasSubstr("children is null"));
  for (const int32_t length :
       {-1, 7, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    EXPECT_THAT(message(pool.fork(a, length, three)),
                HasSubstr("PagePool::fork: length is " + std::to_string(length)));
  }
  EXPECT_TRUE(pool.fork(a, 6, std::span<SequenceId>()).is_ok());
  EXPECT_EQ(memory.snapshot(), before);
  EXPECT_EQ(three[0], SequenceId());
  expect_sound(pool);
}

// ---- Token trees

/// A tree of drafts behind a prefix: node i continues parents[i] (-1: the prefix) by token 100 + i.
std::vector<SequenceId> grow(PagePool& pool, SequenceId prefix, const std::vector<int>& parents) {
  std::vector<SequenceId> nodes;
  for (size_t i = 0; i < parents.size(); ++i) {
    const SequenceId parent = parents[i] < 0 ? prefix : nodes[static_cast<size_t>(parents[i])];
    nodes.push_back(pool.fork(parent, pool.length(parent).value()).value());
    (void)pool.take_copies();
    feed(pool, nodes.back(), {100 + static_cast<TokenId>(i)});
  }
  return nodes;
}

/// Keeps the path to `leaf` (-1: none); returns the pages that are used then.
int64_t accept(PagePool& pool, SequenceId prefix, const std::vector<SequenceId>& nodes, int leaf) {
  std::vector<SequenceId> tree{prefix};
  tree.insert(tree.end(), nodes.begin(), nodes.end());
  pool.keep_path(tree, static_cast<size_t>(leaf + 1)).or_throw();
  (void)pool.take_copies();
  (void)pool.take_copies();
  expect_sound(pool);
  EXPECT_EQ(pool.stats().sequences, 1);
  return pool.stats().used_pages;
}

/// What is found of `tokens` once the sequence is given up: all full pages of them.
void expect_tokens(PagePool& pool, SequenceId id, const Tokens& tokens) {
  EXPECT_EQ(pool.length(id).value(), static_cast<int32_t>(tokens.size()));
  pool.release(id).or_throw();
  EXPECT_EQ(pool.peek(tokens + Tokens{7}),
            static_cast<int32_t>(tokens.size()) / pool.page_size() * pool.page_size());
  expect_sound(pool);
}

TEST(AcceptanceC4, of_a_tree_one_leafs_path_is_kept) {
  for (const int32_t page_size : {1, 3, 16}) {
    PagePool pool = make_pool({.num_pages = 64, .page_size = page_size});
    const SequenceId prefix = prefill(pool, count_from(0, 7));
    const auto nodes = grow(pool, prefix, {-1, 0, 0, 1, 1, 2, 2});
    const int64_t before = pool.row_start(prefix).value();
    EXPECT_EQ(accept(pool, prefix, nodes, 6), (10 + page_size - 1) / page_size);
    EXPECT_EQ(pool.row_start(prefix).value(), before);
    for (const SequenceId node : nodes)
      EXPECT_EQ(pool.length(node).error().code(), Errc::invalid_argument);
    expect_tokens(pool, prefix, count_from(0, 7) + Tokens{100, 102, 106});
  }
}

TEST(AcceptanceC4, a_chain_of_ten_keeps_seven) {
  for (const int32_t page_size : {1, 3, 16}) {
    PagePool pool = make_pool({.num_pages = 64, .page_size = page_size});
    const SequenceId prefix = prefill(pool, count_from(0, 4));
    const auto nodes = grow(pool, prefix, {-1, 0, 1, 2, 3, 4, 5, 6, 7, 8});
    accept(pool, prefix, nodes, 6);
    expect_tokens(pool, prefix, count_from(0, 4) + count_from(100, 7));
  }
}

TEST(AcceptanceC4, of_two_trees_the_other_one_goes_as_a_whole) {
  for (const int32_t page_size : {1, 3, 16}) {
    PagePool pool = make_pool({.num_pages = 128, .page_size = page_size});
    const SequenceId prefix = prefill(pool, count_from(0, 5));
    const auto nodes = grow(pool, prefix, {-1, 0, 0, 1, 1, 2, 2, -1, 7, 7, 8, 8, 9, 9});
    accept(pool, prefix, nodes, 13);
    expect_tokens(pool, prefix, count_from(0, 5) + Tokens{107, 109, 113});
  }
}

TEST(AcceptanceC4, where_nothing_is_accepted_the_prefix_stays_as_it_was) {
  PagePool pool = make_pool({.num_pages = 64, .page_size = 4});
  const SequenceId prefix = prefill(pool, count_from(0, 6));
  const auto pages = row(pool, prefix, 2);
  const auto nodes = grow(pool, prefix, {-1, 0, 0});
  EXPECT_EQ(accept(pool, prefix, nodes, -1), 2);
  EXPECT_EQ(row(pool, prefix, 2), pages);
  feed(pool, prefix, count_from(6, 2));
  expect_tokens(pool, prefix, count_from(0, 8));
}

TEST(PagePoolTrees, pages_of_unfinished_steps_stay_held_when_a_path_is_kept) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4, .prefix_reuse = false});
  const SequenceId prefix = prefill(pool, count_from(0, 4));
  const auto nodes = grow(pool, prefix, {-1, -1});
  const StepTicket step = pool.begin_step(nodes).value();
  const SequenceId tree[] = {prefix, nodes[0], nodes[1]};
  pool.keep_path(tree, 1).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 3);  // the rejected leaf's page, too
  pool.release(prefix).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 3);
  expect_sound(pool);
  pool.end_step(step).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 0);
  expect_sound(pool);
}

TEST(PagePoolTrees, hostile_trees_are_refused_by_name_and_change_nothing) {
  PoolMemory memory;
  PagePool pool = make_pool(memory.hooked({.num_pages = 8, .page_size = 4, .hash_seed = 1}));
  const SequenceId a = prefill(pool, count_from(0, 6)), b = pool.fork(a, 6).value();
  const SequenceId other = prefill(pool, count_from(0, 6), {.salt = "tenant"});
  const std::vector<std::byte> before = memory.snapshot();
  const struct {
    std::vector<SequenceId> tree;
    size_t leaf;
    const char* expected;
  } cases[] = {
      {{}, 0, "leaf is 0, expected less than 0"},
      {{a, b}, 2, "leaf is 2, expected less than 2"},
      {{a, b}, std::numeric_limits<size_t>::max(), "leaf is -1"},
      {{a, b, b}, 1, "tree[2] is sequence 1 of generation 1, expected one that is listed once"},
      {{a, {}}, 1, "tree[1] is sequence 0 of generation 0, expected one that is alive"},
      {{a, other}, 1, "tree[1] is sequence 2, expected one of tree[0]'s salt and adapter"},
  };
  for (const auto& bad : cases) {
    const Status refused = pool.keep_path(bad.tree, bad.leaf);
    EXPECT_EQ(refused.code(), Errc::invalid_argument) << bad.expected;
    EXPECT_THAT(message(refused), HasSubstr(std::string("PagePool::keep_path: ") + bad.expected));
    EXPECT_EQ(memory.snapshot(), before) << bad.expected;
  }
  const SequenceId* const null = nullptr;
  EXPECT_THAT(message(pool.keep_path(std::span(null, 1), 0)), HasSubstr("tree is null"));
  expect_sound(pool);
}

// ---- Waiting

TEST(PagePoolWaiting, what_was_full_is_found_again_unless_others_took_the_pages) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const Tokens tokens = count_from(0, 14);
  const SequenceId a = prefill(pool, tokens);
  const int64_t start = pool.row_start(a).value();
  pool.preempt(a).or_throw();
  EXPECT_EQ(pool.length(a).value(), 0);
  EXPECT_EQ(pool.stats().used_pages, 0);
  EXPECT_EQ(pool.stats().cached_pages, 3);
  expect_sound(pool);

  EXPECT_EQ(pool.resume(a, tokens).value().cached_tokens, 12);
  EXPECT_EQ(pool.row_start(a).value(), start);
  EXPECT_THAT(message(pool.resume(a, tokens).error()),
              HasSubstr("PagePool::resume: id is sequence 0 with 3 pages, expected one without"));
  pool.preempt(a).or_throw();
  pool.release(prefill(pool, count_from(100, 8))).or_throw();  // takes the free one and the tail
  EXPECT_EQ(pool.resume(a, tokens).value().cached_tokens, 8);
  feed(pool, a, count_from(8, 6));
  expect_sound(pool);
}

TEST(PagePoolWaiting, another_tenants_pages_are_not_found_on_resuming) {
  PagePool pool = make_pool({.num_pages = 8, .page_size = 4});
  const SequenceId a = prefill(pool, count_from(0, 9));
  const SequenceId b = prefill(pool, count_from(50, 9), {.salt = "tenant"});
  pool.preempt(b).or_throw();
  EXPECT_EQ(pool.resume(b, count_from(0, 9)).value().cached_tokens, 0);
  EXPECT_EQ(pool.resume(b, count_from(50, 9)).value().cached_tokens, 8);
  pool.release(a).or_throw();
  expect_sound(pool);
}

TEST(PagePoolWaiting, the_pages_of_an_unfinished_step_wait_for_its_end) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4, .prefix_reuse = false});
  const SequenceId ids[] = {prefill(pool, count_from(0, 6))};
  const StepTicket step = pool.begin_step(ids).value();
  pool.preempt(ids[0]).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 2);
  pool.end_step(step).or_throw();
  EXPECT_EQ(pool.stats().used_pages, 0);
  expect_sound(pool);
}

TEST(PagePoolWaiting, hostile_arguments_are_refused_by_name) {
  PagePool pool = make_pool({.num_pages = 4, .page_size = 4});
  const SequenceId a = pool.admit(count_from(0, 1)).value().id;
  EXPECT_THAT(message(pool.resume(a, {}).error()),
              HasSubstr("PagePool::resume: tokens has 0 tokens, expected 1 .. 2147483647"));
  const TokenId* const null = nullptr;
  EXPECT_THAT(message(pool.resume(a, std::span(null, 3)).error()), HasSubstr("tokens is null"));
  pool.release(a).or_throw();
  EXPECT_THAT(message(pool.preempt(a)), HasSubstr("PagePool::preempt: id is sequence 0"));
  EXPECT_THAT(message(pool.resume(a, count_from(0, 1)).error()),
              HasSubstr("PagePool::resume: id is sequence 0"));
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
