// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/groups_reach_test.cpp: how long groups of a handover may be silent, how far
/// their rules may reach, how large their states may be, and what is held meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tier/transfer/group_handovers.h"

namespace folio::test {
namespace {

using ::testing::HasSubstr;

TEST_F(GroupHandovers, are_not_late_while_a_prompt_is_computed) {
  Rng rng(test_seed());
  GroupEndSpec windows = gemma_end();
  windows.groups[1].layers = {0, 1}, windows.groups[0].layers = {};
  for (const GroupEndSpec& model : {mamba_end(), windows, mixed_end()}) {
    GroupPrefillEnd from(model, transport());
    GroupDecodeEnd to(model, transport());
    const Tokens tokens = random_tokens(rng, 41);
    const SequenceId id = from.pool.admit(tokens)->id;
    const HandoverId h = from.sender.begin(from.connect(to), 3, id, tokens).value();
    int64_t now = 0;
    for (; now < 60'000; now += 1000) from.sender.poll(now), to.receiver.poll(now);
    ASSERT_EQ(to.receiver.figures().sequences, 1) << to.receiver.last_fault().message();
    ASSERT_TRUE(from.prefill(id, tokens, {&h, 1}, 0, 41, now));
    from.sender.finish(h).or_throw();
    for (int i = 0; i < 6; ++i) from.sender.poll(now), to.receiver.poll(now);
    HandoverEnd end[1];
    ASSERT_EQ(from.sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
    EXPECT_EQ(to.receiver.figures().refused_messages, 0);
    EXPECT_EQ(to.wrong(to.take().id, tokens, 41), "");
  }
}
TEST_F(GroupHandovers, are_late_where_the_sender_is_not_polled) {
  GroupPrefillEnd from(mamba_end(), transport());
  GroupDecodeEnd to(mamba_end(), transport());
  const Tokens tokens{1, 2, 3};
  const SequenceId id = from.pool.admit(tokens)->id;
  static_cast<void>(from.sender.begin(from.connect(to), 3, id, tokens).value());
  for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
  ASSERT_EQ(to.receiver.figures().sequences, 1);
  to.receiver.poll(10'001);
  EXPECT_EQ(to.receiver.figures().sequences, 0);
  for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(10'001);
  expect_idle(to);
  expect_idle(from);
}
TEST_F(GroupHandovers, may_have_rules_that_reach_as_far_as_a_pools) {
  constexpr int32_t most = std::numeric_limits<int32_t>::max();
  GroupEndSpec far = mixed_end();
  far.groups[1].rule.window = most;
  far.groups[2].rule = chunk_rule(most - 3);
  far.groups[3].rule.checkpoint = most - 3;
  ASSERT_NO_FATAL_FAILURE(hand_over_all(far, far, 21));
  GroupEndSpec other = with_pages(far, 8);
  other.groups[3].rule.checkpoint = most - 7;
  ASSERT_NO_FATAL_FAILURE(hand_over_all(far, other, 21));
  ASSERT_NO_FATAL_FAILURE(hand_over_all(other, far, 21));
}
TEST_F(GroupHandovers, need_no_slots_for_states_that_go_straight_into_pages) {
  GroupEndSpec model = jamba_end();
  model.groups[1].state_parts = {4096, 1024};  // of 2 heads
  GroupPrefillEnd from(model, transport());
  const Tokens tokens{1, 2, 3, 4, 5};
  GroupDecodeEnd to(model, transport(), {.staging_slot_bytes = 1024});
  ASSERT_NO_FATAL_FAILURE(hand_over({&from}, to, tokens, 5));
  GroupDecodeEnd staged(model, transport(),
                        {.landing = Landing::staged, .staging_slot_bytes = 1024});
  const SequenceId id = from.pool.admit(tokens)->id;
  static_cast<void>(from.sender.begin(from.connect(staged), 9, id, tokens).value());
  for (int i = 0; i < 4; ++i) from.sender.poll(0), staged.receiver.poll(0);
  HandoverEnd end[1];
  ASSERT_EQ(from.sender.take_ends(end), 1U);
  EXPECT_THAT(std::string(end[0].reason.message()),
              HasSubstr("a piece takes 10240 bytes, expected at most 1024"));
}
TEST_F(GroupHandovers, hold_pages_of_windows_when_the_sequence_goes_on) {
  Rng rng(test_seed());
  GroupPrefillEnd from(gemma_end(), transport());
  GroupDecodeEnd to(gemma_end(), transport(), {.landing = Landing::staged});
  const Tokens tokens = random_tokens(rng, 41), all = [&] {
    Tokens longer = tokens;
    for (int32_t i = 0; i < 40; ++i) longer.push_back(i);
    return longer;
  }();
  const SequenceId id = from.pool.admit(tokens)->id;
  const HandoverId h = from.sender.begin(from.connect(to), 3, id, tokens).value();
  for (int i = 0; i < 4; ++i) from.sender.poll(0), to.receiver.poll(0);
  ASSERT_TRUE(from.prefill(id, tokens, {&h, 1}, 0, 41));
  EXPECT_EQ(from.sender.figures().pinned_pages, 3) << "33 .. 40; no slot has been given";
  ASSERT_TRUE(from.prefill(id, all, {}, 41, 81));
  from.sender.finish(h).or_throw();
  for (int i = 0; i < 40; ++i) from.sender.poll(0), to.receiver.poll(0);
  HandoverEnd end[1];
  ASSERT_EQ(from.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
  EXPECT_EQ(to.wrong(to.take().id, tokens, 41), "");
  expect_idle(from);
}

}  // namespace
}  // namespace folio::test
