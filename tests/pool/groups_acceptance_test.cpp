// SPDX-License-Identifier: Apache-2.0
/// tests/pool/groups_acceptance_test.cpp: hybrid models, case by case as other managers test them,
/// and the other calls of a pool on groups.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "pool/group_helpers.h"
#include "pool/inspection.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

/// Full attention and two groups of windows of two pages; 20 pages in all.
PagePool make_three() { return make_hybrid({full(16), window(16, 32), window(16, 32)}, 16 * 20); }

// ---- A2

TEST(GroupsAcceptance, a2_pages_of_a_hit_and_new_ones) {
  PagePool pool = make_three();
  const Tokens common = count_from(0, 48);
  const SequenceId a = pool.admit(common + count_from(100, 7)).value().id;
  pool.reserve(a, 55).or_throw();
  std::set<int64_t> taken;  // equal bytes: a page id is a place in the arena in every group
  std::vector<std::vector<int64_t>> first;
  for (uint32_t g = 0; g < 3; ++g) {
    first.push_back(group_row(pool, a, g, 4));
    taken.insert(first[g].begin(), first[g].end());
  }
  EXPECT_EQ(taken.size(), 12U);
  EXPECT_FALSE(taken.contains(-1));
  pool.commit(a, common + count_from(100, 7)).or_throw();

  const Admission b = pool.admit(common + count_from(200, 7)).value();
  EXPECT_EQ(b.cached_tokens, 48);
  EXPECT_EQ(group_row(pool, b.id, 0, 3), (std::vector{first[0][0], first[0][1], first[0][2]}));
  for (const uint32_t g : {1U, 2U}) {
    EXPECT_EQ(group_row(pool, b.id, g, 3), (std::vector{int64_t{-1}, first[g][1], first[g][2]}));
  }
  pool.reserve(b.id, 7).or_throw();
  for (uint32_t g = 0; g < 3; ++g)
    EXPECT_TRUE(taken.insert(group_row(pool, b.id, g, 4)[3]).second) << g;
  expect_sound(pool);
}

TEST(GroupsAcceptance, a2_what_is_left_of_a_hit_when_pages_are_gone) {
  struct Case {
    std::vector<std::pair<uint32_t, size_t>> gone;  ///< group, position
    int32_t hit;
  };
  const Case cases[] = {
      {{}, 48},
      {{{1, 0}, {2, 0}}, 48},  // behind the window
      {{{0, 0}}, 0},
      {{{0, 2}, {1, 2}, {2, 2}}, 32},
      {{{0, 2}}, 32},
      {{{1, 2}}, 32},
      {{{2, 2}}, 32},
      {{{1, 1}}, 16},
      {{{0, 2}, {1, 0}}, 0},  // 32 tokens of full attention, 48 of a window
  };
  for (const Case& c : cases) {
    PagePool pool = make_three();
    const Tokens common = count_from(0, 48);
    const SequenceId a = pool.admit(common + count_from(100, 7)).value().id;
    pool.reserve(a, 55).or_throw();
    std::vector<std::vector<int64_t>> rows;
    for (uint32_t g = 0; g < 3; ++g) rows.push_back(group_row(pool, a, g, 4));
    pool.commit(a, common + count_from(100, 7)).or_throw();
    pool.release(a).or_throw();
    for (const auto& [group, position] : c.gone)
      pool::PoolInspection::evict(pool, group, static_cast<uint32_t>(rows[group][position]));
    expect_sound(pool);
    EXPECT_EQ(pool.peek(common + count_from(200, 7)), c.hit);
    EXPECT_EQ(pool.admit(common + count_from(200, 7)).value().cached_tokens, c.hit);
    expect_sound(pool);
  }
}

// ---- A8

TEST(GroupsAcceptance, a8_what_one_group_has_alone_is_no_joint_hit) {
  PagePool pool = make_hybrid({full(16), full(16)}, 16 * 20);
  const SequenceId a = prefill(pool, count_from(0, 48));
  const uint32_t leading = row(pool, a, 3)[2];
  const auto companion = static_cast<uint32_t>(group_row(pool, a, 1, 3)[2]);
  pool.release(a).or_throw();
  pool::PoolInspection::evict(pool, 1, companion);
  EXPECT_EQ(pool.group(0)->cached_pages + pool.group(1)->cached_pages, 3 + 2);
  EXPECT_TRUE(pool::PoolInspection::record(pool, leading).findable);
  EXPECT_EQ(pool.peek(count_from(0, 49)), 32);
  expect_sound(pool);
}

// ---- F1: addresses (E7 is in groups_test.cpp)

TEST(GroupsAcceptance, f1_pages_beyond_two_gibibytes_of_the_arena) {
  constexpr int64_t page = 1'002'240;
  const PagePool pool = make_hybrid({full(page), window(page / 3, 40)}, page * 2144, 30);
  const KVShape shapes[] = {
      {.num_layers = 29, .num_heads = 1, .head_size = 576, .page_size = 30, .is_mla = true},
      {.num_layers = 29, .num_heads = 1, .head_size = 192, .page_size = 30, .is_mla = true}};
  int64_t stride[2] = {};
  for (uint32_t g = 0; g < 2; ++g) {
    const GroupFigures of = pool.group(g).value();
    EXPECT_EQ(of.num_pages, g == 0 ? 2144 : 3 * 2144);
    EXPECT_EQ(page_bytes(shapes[g]).value(), of.page_bytes);
    stride[g] = make_planes(shapes[g], of.num_pages, {})->front().key.page_stride_bytes;
  }
  EXPECT_EQ(stride[0] * 2142, 2'146'798'080);
  EXPECT_EQ(stride[0] * 2143, 2'147'800'320);
  EXPECT_EQ(stride[1] * 3 * 2143, 2'147'800'320);
}

TEST(GroupsAcceptance, f1_pages_of_a_slab_that_would_be_too_long_are_padded) {
  constexpr int64_t a = 1'002'241, b = 999'983;  // coprime: their product is a terabyte
  const PagePool pool = make_hybrid({full(a), window(b, 32)}, int64_t{1} << 32);
  const GroupFigures of[] = {pool.group(0).value(), pool.group(1).value()};
  EXPECT_GT(of[0].page_bytes, a);
  EXPECT_GT(of[1].page_bytes, b);
  const int64_t slab = std::lcm(of[0].page_bytes, of[1].page_bytes);
  EXPECT_LE(slab, int64_t{64} << 20);
  for (const GroupFigures& f : of)
    EXPECT_EQ(f.num_pages * f.page_bytes, (int64_t{1} << 32) / slab * slab);
}

// ---- Room

TEST(GroupsAcceptance, a_batch_gets_room_in_all_groups_or_in_none) {
  PagePool pool = make_hybrid({full(16), window(16, 16)}, 16 * 8);
  const SequenceId a = pool.admit(count_from(0, 64)).value().id;
  const SequenceId b = pool.admit(count_from(500, 64)).value().id;
  const std::vector<ReserveRequest> too_many{{a, 32}, {b, 33}};  // 2 + 2 and 3 + 3 of 8
  const Status refused = pool.reserve(too_many);
  EXPECT_EQ(refused.code(), Errc::out_of_pages);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("for group 1"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("requests[0 .. 1]"));
  for (uint32_t g = 0; g < 2; ++g) EXPECT_EQ(pool.group(g)->used_pages, 0);
  expect_sound(pool);
  const std::vector<ReserveRequest> all{{a, 32}, {b, 32}};
  pool.reserve(all).or_throw();
  for (uint32_t g = 0; g < 2; ++g) EXPECT_EQ(pool.group(g)->used_pages, 4);
  expect_sound(pool);
}

TEST(GroupsAcceptance, explain_names_the_group_that_lacks_pages) {
  PagePool pool = make_hybrid({full(16), window(16, 16)}, 16 * 5);
  const SequenceId a = pool.admit(count_from(0, 64)).value().id;
  EXPECT_EQ(pool.explain(a, 32)->short_group, -1);
  EXPECT_EQ(pool.explain(a, 33)->short_group, 1);
  EXPECT_EQ(pool.explain(a, 5 * 16)->short_group, 1);
  EXPECT_EQ(pool.explain(a, 33)->needed, 3);
  EXPECT_EQ(pool.explain(a, 33)->free, 5);
  const SequenceId b = pool.admit(count_from(500, 64)).value().id;
  pool.reserve(a, 32).or_throw();
  EXPECT_EQ(pool.explain(b, 17)->short_group, 0);
  EXPECT_EQ(pool.explain(b, 16)->short_group, 1);
}

TEST(GroupsAcceptance, the_watermark_counts_leading_pages) {
  const std::vector<GroupOptions> groups{full(16), window(16, 16)};
  PoolOptions options{.page_size = 16, .max_sequences = 2, .groups = groups, .arena_bytes = 16 * 6};
  options.watermark_pages = 7;
  EXPECT_THAT(std::string(PagePool::create(options).error().message()),
              HasSubstr("watermark_pages is 7, expected 0 .. 6"));
  options.watermark_pages = 1;
  PagePool pool = make_pool(options);
  const SequenceId a = pool.admit(count_from(0, 64)).value().id;
  pool.reserve(a, 16).or_throw();
  const SequenceId b = pool.admit(count_from(500, 64)).value().id;
  EXPECT_EQ(pool.reserve(b, 32).code(), Errc::out_of_pages);  // 2 + 2 of 4, and 1 is held back
  EXPECT_EQ(pool.explain(b, 32)->held_back, 1);
  EXPECT_TRUE(pool.reserve(b, 16).is_ok());
}

// ---- Sequences that wait, or branch

TEST(GroupsAcceptance, a_preempted_sequence_gives_up_its_companions_and_finds_them_again) {
  PagePool pool = make_three();
  const SequenceId a = prefill(pool, count_from(0, 55));
  const std::vector<int64_t> before = group_row(pool, a, 1, 3);
  pool.preempt(a).or_throw();
  for (uint32_t g = 0; g < 3; ++g) EXPECT_EQ(pool.group(g)->used_pages, 0);
  EXPECT_EQ(group_row(pool, a, 1, 4), (std::vector<int64_t>{-1, -1, -1, -1}));
  expect_sound(pool);
  EXPECT_EQ(pool.resume(a, count_from(0, 55))->cached_tokens, 48);
  EXPECT_EQ(group_row(pool, a, 1, 3)[1], before[1]);
  EXPECT_EQ(group_row(pool, a, 1, 3)[2], before[2]);
  pool.preempt(a).or_throw();
  pool::PoolInspection::evict(
      pool, 2,
      static_cast<uint32_t>(pool::PoolInspection::groups(pool).companion(
          pool::PoolInspection::groups(pool)[1].records[before[2]].leading, 2)));
  EXPECT_EQ(pool.resume(a, count_from(0, 55))->cached_tokens, 32);
  expect_sound(pool);
}

TEST(GroupsAcceptance, children_get_copies_in_every_group_or_there_are_none) {
  PagePool pool = make_hybrid({full(16), window(16, 16)}, 16 * 8);
  const SequenceId a = prefill(pool, count_from(0, 20));
  std::vector<SequenceId> children(3);  // 3 pages each; 4 + 1 behind the window are there
  EXPECT_EQ(pool.fork(a, 20, children).code(), Errc::out_of_pages);
  EXPECT_EQ(pool.stats().sequences, 1);
  expect_sound(pool);
  children.resize(2);
  pool.fork(a, 20, children).or_throw();
  EXPECT_EQ(pool.take_copies(0).size(), 2U);
  EXPECT_EQ(pool.take_copies(1).size(), 2U);
  expect_sound(pool);
  const std::vector<SequenceId> tree{a, children[0], children[1]};
  const std::vector<int64_t> kept = group_row(pool, children[1], 1, 2);
  pool.keep_path(tree, 2).or_throw();
  EXPECT_EQ(group_row(pool, a, 1, 2), kept);
  EXPECT_EQ(pool.stats().sequences, 1);
  expect_sound(pool);
}

TEST(GroupsAcceptance, clear_forgets_companions_and_refuses_while_a_group_is_used) {
  PagePool pool = make_hybrid({full(16), window(16, 16)}, 16 * 8);
  const SequenceId a = prefill(pool, count_from(0, 32));
  EXPECT_EQ(pool.clear().code(), Errc::busy);
  pool.release(a).or_throw();
  EXPECT_GT(pool.group(1)->cached_pages, 0);
  pool.clear().or_throw();
  EXPECT_EQ(pool.group(1)->cached_pages, 0);
  EXPECT_EQ(pool.stats().cached_pages, 0);
  EXPECT_EQ(pool.peek(count_from(0, 33)), 0);
  expect_sound(pool);
}

}  // namespace
}  // namespace folio::test
