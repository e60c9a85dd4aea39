// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/groups_test.cpp: sequences of hybrid models that go from one end to another:
/// what of each group goes, and what comes of it where ends differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tier/transfer/group_handovers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

// ---- What goes

TEST_F(GroupHandovers, bring_every_byte_of_every_length_straight_into_pages) {
  for (const GroupEndSpec& model : group_ends()) {
    ASSERT_NO_FATAL_FAILURE(hand_over_all(model, model));
    EXPECT_EQ(staged, 0);
    EXPECT_GT(direct, 0);
    if (HasFailure()) return;
  }
}
TEST_F(GroupHandovers, bring_every_byte_by_staging_slots_where_pages_are_not_to_be_written_to) {
  for (const GroupEndSpec& model : group_ends()) {
    ASSERT_NO_FATAL_FAILURE(hand_over_all(model, model, 33, Landing::staged));
    EXPECT_GT(staged, 0);
    EXPECT_EQ(direct, 0);
    if (HasFailure()) return;
  }
}
TEST_F(GroupHandovers, send_just_what_the_next_token_needs) {
  struct Case {
    GroupEndSpec model;
    int32_t tokens;
    int64_t pieces;  ///< one layer's page, or state, each
  };
  const Case cases[] = {
      {gemma_end(), 40, 1 * 10 + 5 * 2},    // 32 .. 39 of a window of 9 tokens
      {gemma_end(), 41, 1 * 11 + 5 * 3},    // 33 .. 40
      {gpt_oss_end(), 40, 2 * 10 + 2 * 1},  // 36 .. 39 of 5
      {gpt_oss_end(), 41, 2 * 11 + 2 * 2},  // 37 .. 40
      {llama_4_end(), 36, 1 * 9 + 3 * 0},   // a chunk is over
      {llama_4_end(), 37, 1 * 10 + 3 * 1},  // 36
      {llama_4_end(), 47, 1 * 12 + 3 * 3},
      {jamba_end(), 40, 1 * 10 + 3 * 1},
      {jamba_end(), 41, 1 * 11 + 3 * 1},
      {mamba_end(), 41, 2 * 1},
      {mixed_end(), 41, 1 * 11 + 2 * (1 + 3) + 1 * 4 + 1 * 1},  // sinks 0 .. 2, 33 .. 40; 28 .. 40
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.tokens);
    Rng rng(test_seed());
    GroupPrefillEnd from(c.model, transport());
    GroupDecodeEnd to(c.model, transport());
    ASSERT_NO_FATAL_FAILURE(hand_over({&from}, to, random_tokens(rng, c.tokens), 7));
    EXPECT_EQ(from.sender.figures().sent_pieces, c.pieces);
  }
}
TEST_F(GroupHandovers, send_what_the_receiver_has_not) {
  Rng rng(test_seed());
  for (const GroupEndSpec& model : group_ends()) {
    GroupPrefillEnd from(model, transport());
    GroupDecodeEnd to(model, transport());
    tokens_behind = 0;  // windows stay at the prompt's end, and can be found
    Tokens tokens = random_tokens(rng, 24);
    ASSERT_NO_FATAL_FAILURE(hand_over({&from}, to, tokens, 30));
    const int64_t before = from.sender.figures().sent_pieces;
    const Tokens more = random_tokens(rng, 6);
    tokens.insert(tokens.end(), more.begin(), more.end());
    ASSERT_NO_FATAL_FAILURE(hand_over({&from}, to, tokens, 30));
    EXPECT_EQ(last_cached, 24);
    EXPECT_EQ(from.sender.figures().skipped_tokens, 24);
    const auto layers = static_cast<int64_t>(model.num_layers());
    EXPECT_LE(from.sender.figures().sent_pieces - before, 2 * layers) << "two pages, or a state";
  }
}
TEST_F(GroupHandovers, send_companions_alone_where_memory_has_leading_pages) {
  Rng rng(test_seed());
  GroupPrefillEnd from(gemma_end(), transport());
  GroupDecodeEnd to(gemma_end(), transport());
  tokens_behind = 0;
  const Tokens tokens = random_tokens(rng, 40);
  ASSERT_NO_FATAL_FAILURE(hand_over({&from}, to, tokens, 9));
  const int64_t before = from.sender.figures().sent_pieces;
  const Tokens half(tokens.begin(), tokens.begin() + 20);
  ASSERT_NO_FATAL_FAILURE(hand_over({&from}, to, half, 9));
  EXPECT_EQ(last_cached, 0) << "no window there";
  EXPECT_EQ(from.sender.figures().sent_pieces - before, 5 * 2) << "12 .. 19 of the windows";
}
TEST_F(GroupHandovers, give_a_hit_within_a_page_up) {
  Rng rng(test_seed());
  for (GroupEndSpec model : group_ends()) {
    model.min_partial_tokens = 1;
    GroupPrefillEnd from(model, transport());
    GroupDecodeEnd to(model, transport());
    tokens_behind = 0;
    const Tokens tokens = random_tokens(rng, 23);
    for (const int32_t size : {23, 22, 23, 21, 18})
      ASSERT_NO_FATAL_FAILURE(
          hand_over({&from}, to, Tokens(tokens.begin(), tokens.begin() + size), 9));
  }
}

// ---- What may differ

TEST_F(GroupHandovers, convert_page_sizes) {
  for (const GroupEndSpec& model : group_ends()) {
    for (const auto& [from, to] : {std::pair(4, 8), {8, 4}, {4, 6}, {6, 4}, {2, 16}, {16, 3}}) {
      SCOPED_TRACE(testing::Message() << "from pages of " << from << " to those of " << to);
      ASSERT_NO_FATAL_FAILURE(hand_over_all(with_pages(model, from), with_pages(model, to), 35));
      if (HasFailure()) return;
    }
  }
}
TEST_F(GroupHandovers, bring_states_from_pages_of_other_lengths) {
  GroupEndSpec from = jamba_end(), to = jamba_end();
  from.groups[1].rule.checkpoint = 16, to.groups[1].rule.checkpoint = 4;
  hand_over_all(from, to);
  EXPECT_EQ(staged, 0);
  hand_over_all(to, from);
  EXPECT_EQ(staged, 0);
}
TEST_F(GroupHandovers, convert_types_and_orders_group_by_group) {
  for (const GroupEndSpec& model : {gemma_end(), llama_4_end(), mixed_end()}) {
    GroupEndSpec to = model;
    to.groups[0].dtype = DType::f8_e4m3, to.groups[1].dtype = DType::f32;
    hand_over_all(model, to, 30);
    EXPECT_GT(staged, 0);
    to.groups[1].order = StorageOrder::head_major;
    hand_over_all(with_pages(to, 8), with_pages(model, 4), 30);
    to = model, to.groups[0].dtype = DType::f16;
    hand_over_all(model, to, 30);
    EXPECT_GT(staged, 0);
    EXPECT_GT(direct, 0) << "groups that do not differ go straight into pages";
    if (HasFailure()) return;
  }
}
TEST_F(GroupHandovers, may_have_other_heads_in_each_group) {
  GroupEndSpec model = gemma_end();
  model.groups[0].head_size = 16;
  model.groups[0].num_heads = model.groups[0].total_heads = 1;
  hand_over_all(model, model, 30);
  EXPECT_EQ(staged, 0);
}
TEST_F(GroupHandovers, of_several_senders_fill_the_heads_of_one_sequence) {
  Rng rng(test_seed());
  for (const GroupEndSpec& half_model : group_ends()) {
    for (const int32_t page_size : {4, 8}) {
      GroupEndSpec lower = half_model;
      for (GroupSpec& group : lower.groups) group.total_heads = 4;
      GroupEndSpec upper = lower, whole = with_pages(lower, page_size);
      for (GroupSpec& group : upper.groups) group.first_head = 2;
      for (GroupSpec& group : whole.groups) group.num_heads = 4;
      GroupPrefillEnd a(lower, transport()), b(upper, transport());
      GroupDecodeEnd to(whole, transport());
      for (int i = 0; i < 5; ++i)
        ASSERT_NO_FATAL_FAILURE(hand_over({&a, &b}, to, random_tokens(rng, rng.int_between(1, 40)),
                                          rng.int_between(1, 30)));
      if (HasFailure()) return;
    }
  }
}
TEST_F(GroupHandovers, bring_a_receiver_its_heads_alone) {
  for (const GroupEndSpec& model : group_ends()) {
    GroupEndSpec whole = model;
    for (GroupSpec& group : whole.groups) group.num_heads = group.total_heads = 4;
    for (const int32_t first : {0, 2}) {
      GroupEndSpec half = whole;
      for (GroupSpec& group : half.groups) group.num_heads = 2, group.first_head = first;
      hand_over_all(whole, half, 25);
      hand_over_all(whole, with_pages(half, 6), 25);
      if (HasFailure()) return;
    }
  }
}
TEST_F(GroupHandovers, come_from_senders_that_have_a_group_each) {
  Rng rng(test_seed());
  const GroupEndSpec model = gemma_end();
  GroupEndSpec full = model, windows = model, whole = model;
  for (GroupSpec& group : whole.groups) group.num_heads = 2, group.total_heads = 4;
  full = windows = whole;
  for (GroupEndSpec* spec : {&full, &windows})
    for (GroupSpec& group : spec->groups) group.total_heads = 4;
  full.groups[1].first_head = 2;     // no head of the windows that the receiver has
  windows.groups[0].first_head = 2;  // none of the full layers
  GroupPrefillEnd a(full, transport()), b(windows, transport());
  GroupDecodeEnd to(whole, transport());
  for (const int32_t size : {1, 7, 30})
    ASSERT_NO_FATAL_FAILURE(hand_over({&a, &b}, to, random_tokens(rng, size), 8));
}

GroupEndSpec with_groups(const GroupEndSpec& spec, std::vector<GroupSpec> groups) {
  GroupEndSpec other = spec;
  other.groups = std::move(groups);
  return other;
}

TEST_F(GroupHandovers, let_ends_group_layers_in_other_ways) {
  const GroupEndSpec model = gemma_end();
  const GroupSpec &full = model.groups[0], &windows = model.groups[1];
  GroupSpec low = windows, high = windows, wide = windows;
  low.layers = {0, 3}, high.layers = {1, 2, 4};
  wide.layers = {1, 2, 4}, wide.dtype = DType::f32;
  hand_over_all(model, with_groups(model, {full, low, high}));
  EXPECT_EQ(staged, 0);
  hand_over_all(with_groups(model, {full, high, low}), model);
  EXPECT_EQ(staged, 0);
  hand_over_all(model, with_pages(with_groups(model, {full, low, wide}), 8));
  hand_over_all(with_pages(with_groups(model, {full, low, wide}), 8), model);
}
TEST_F(GroupHandovers, let_ends_have_full_layers_in_other_groups) {
  GroupEndSpec model = gpt_oss_end();
  GroupSpec first = model.groups[0], second = first;
  first.layers = {1}, second.layers = {3};
  const GroupEndSpec split = with_groups(model, {first, model.groups[1], second});
  hand_over_all(model, split);
  hand_over_all(split, model);
  GroupSpec none = first, all = model.groups[0];
  none.layers = {};
  hand_over_all(model, with_groups(model, {none, model.groups[1], all}));
  hand_over_all(with_groups(model, {none, model.groups[1], all}), with_pages(split, 8));
}
TEST_F(GroupHandovers, let_states_be_in_other_groups) {
  const GroupEndSpec model = jamba_end();
  GroupSpec first = model.groups[1], second = first;
  first.layers = {0}, second.layers = {1, 3}, second.rule.checkpoint = 16;
  hand_over_all(model, with_groups(model, {model.groups[0], first, second}));
  hand_over_all(with_groups(model, {model.groups[0], second, first}), with_pages(model, 8));
}
TEST_F(GroupHandovers, of_a_pool_of_one_group_may_say_so) {
  GroupEndSpec one = with_groups(gpt_oss_end(), {gpt_oss_end().groups[0]});
  one.groups[0].layers = {0, 1, 2};
  GroupEndSpec two = with_groups(one, {one.groups[0], one.groups[0]});
  two.groups[0].layers = {0, 2}, two.groups[1].layers = {1};
  hand_over_all(one, two);
  EXPECT_EQ(staged, 0);
  hand_over_all(two, with_pages(one, 8));
}

// ---- Windows that pass

TEST_F(GroupHandovers, find_pages_that_a_window_has_passed_as_long_as_they_are_cached) {
  Rng rng(test_seed());
  GroupPrefillEnd from(gemma_end(), transport());
  GroupDecodeEnd to(with_pages(gemma_end(), 16), transport());
  const Tokens tokens = random_tokens(rng, 46);
  const SequenceId id = from.pool.admit(tokens)->id;
  ASSERT_TRUE(from.prefill(id, tokens, {}, 0, 46));
  const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
  from.sender.finish(h).or_throw();
  for (int i = 0; i < 20; ++i) from.sender.poll(0), to.receiver.poll(0);
  const ReceivedSequence got = to.take();
  ASSERT_EQ(got.tokens, tokens) << to.receiver.last_fault().message();
  EXPECT_EQ(to.wrong(got.id, tokens, 46), "") << "32 .. 37 were behind the sender's window";
}
TEST_F(GroupHandovers, fail_where_a_page_that_is_needed_is_gone) {
  Rng rng(test_seed());
  GroupEndSpec small = gemma_end();
  small.pages = 12;
  GroupPrefillEnd from(small, transport());
  GroupDecodeEnd to(with_pages(gemma_end(), 16), transport());
  const Tokens tokens = random_tokens(rng, 46);
  const SequenceId id = from.pool.admit(tokens)->id;
  for (int32_t t = 0; t < 46; t += 2) ASSERT_TRUE(from.prefill(id, tokens, {}, t, t + 2));
  // others take what is cached
  const Tokens others = random_tokens(rng, 200);
  const SequenceId other = from.pool.admit(others)->id;
  for (int32_t t = 0; from.prefill(other, others, {}, t, t + 1); ++t) {}
  const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
  from.sender.finish(h).or_throw();
  for (int i = 0; i < 20; ++i) from.sender.poll(0), to.receiver.poll(0);
  HandoverEnd end[1];
  ASSERT_EQ(from.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::failed);
  EXPECT_THAT(std::string(end[0].reason.message()), HasSubstr("of group 1 is gone"));
  EXPECT_EQ(to.receiver.figures().committed, 0);
  expect_idle(from);
  expect_idle(to);
  EXPECT_EQ(used_pages(to), 0);
}
TEST_F(GroupHandovers, hold_pages_that_a_window_passes_where_the_receiver_needs_them) {
  Rng rng(test_seed());
  GroupEndSpec small = gemma_end();
  small.pages = 12;
  GroupPrefillEnd from(small, transport());
  GroupDecodeEnd to(with_pages(gemma_end(), 16), transport(), {.staging_slots = 1});
  const Tokens tokens = random_tokens(rng, 46);
  const SequenceId id = from.pool.admit(tokens)->id;
  const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
  for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
  for (int32_t t = 0; t < 46; t += 2) ASSERT_TRUE(from.prefill(id, tokens, {&h, 1}, t, t + 2));
  const Tokens others = random_tokens(rng, 200);
  const SequenceId other = from.pool.admit(others)->id;
  for (int32_t t = 0; from.prefill(other, others, {}, t, t + 1); ++t) {}
  from.sender.finish(h).or_throw();
  ASSERT_TRUE(comes_true([&] {
    from.sender.poll(0), to.receiver.poll(0);
    return to.receiver.figures().committed == 1;
  }));
  EXPECT_EQ(to.wrong(to.take().id, tokens, 46), "");
}
TEST_F(GroupHandovers, fail_where_a_state_has_gone_on) {
  Rng rng(test_seed());
  GroupPrefillEnd from(jamba_end(), transport());
  GroupDecodeEnd to(jamba_end(), transport());
  Tokens tokens = random_tokens(rng, 13);
  const SequenceId id = from.pool.admit(tokens)->id;
  const HandoverId h = from.sender.begin(from.connect(to), 1, id, tokens).value();
  ASSERT_TRUE(from.prefill(id, tokens, {&h, 1}, 0, 13));
  from.sender.finish(h).or_throw();
  tokens.push_back(1);
  ASSERT_TRUE(from.prefill(id, tokens, {}, 13, 14));
  for (int i = 0; i < 20; ++i) from.sender.poll(0), to.receiver.poll(0);
  HandoverEnd end[1];
  ASSERT_EQ(from.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::failed);
  EXPECT_THAT(std::string(end[0].reason.message()), HasSubstr("has gone on to 14 tokens"));
  EXPECT_EQ(to.receiver.figures().committed, 0);
}

// ---- On their way

TEST_F(GroupHandovers, tell_of_layers_of_the_model_that_are_there) {
  Rng rng(test_seed());
  for (const GroupEndSpec& model : group_ends()) {
    GroupPrefillEnd from(model, transport());
    GroupDecodeEnd to(model, transport());
    const Tokens tokens = random_tokens(rng, 30);
    const SequenceId id = from.pool.admit(tokens)->id;
    const HandoverId h = from.sender.begin(from.connect(to), 3, id, tokens).value();
    for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
    from.pool.reserve(id, 30).or_throw();
    for (int32_t layer = 0; layer < static_cast<int32_t>(model.num_layers()); ++layer) {
      from.compute(id, tokens, layer, 0, 30);
      from.sender.push_layer(h, layer).or_throw();
      for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
      ArrivingSequence arriving[1];
      ASSERT_EQ(to.receiver.arriving(arriving), 1U);
      EXPECT_EQ(arriving[0].layers_ready, layer + 1);
      EXPECT_EQ(to.wrong(arriving[0].id, tokens, 30, layer + 1), "");
      EXPECT_EQ(to.pool.length(arriving[0].id).value(), 0) << "nothing is committed";
      EXPECT_EQ(to.pool.peek(tokens), 0);
    }
    from.sender.finish(h).or_throw();
    for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
    EXPECT_EQ(to.wrong(to.take().id, tokens, 30), "");
  }
}
TEST_F(GroupHandovers, leave_nothing_where_they_are_cancelled) {
  Rng rng(test_seed());
  for (const GroupEndSpec& model : group_ends()) {
    GroupPrefillEnd from(model, transport());
    GroupDecodeEnd to(model, transport());
    const Tokens tokens = random_tokens(rng, 30);
    const SequenceId id = from.pool.admit(tokens)->id;
    const HandoverId h = from.sender.begin(from.connect(to), 3, id, tokens).value();
    for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
    ASSERT_TRUE(from.prefill(id, tokens, {&h, 1}, 0, 20));
    EXPECT_GT(used_pages(to), 0);
    to.receiver.cancel(3);
    for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
    expect_idle(from);
    expect_idle(to);
    EXPECT_EQ(used_pages(to), 0);
    EXPECT_EQ(to.pool.peek(tokens), 0);
  }
}
TEST_F(GroupHandovers, are_busy_where_a_group_has_no_room) {
  Rng rng(test_seed());
  GroupEndSpec small = gemma_end();
  small.pages = 4;
  GroupPrefillEnd from(gemma_end(), transport());
  GroupDecodeEnd to(small, transport());
  const Tokens tokens = random_tokens(rng, 46);
  const SequenceId id = from.pool.admit(tokens)->id;
  static_cast<void>(from.sender.begin(from.connect(to), 3, id, tokens).value());
  for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
  HandoverEnd end[1];
  ASSERT_EQ(from.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::busy);
  EXPECT_EQ(used_pages(to), 0);
  expect_idle(to);
}

}  // namespace
}  // namespace folio::test
