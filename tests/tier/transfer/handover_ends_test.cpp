// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handover_ends_test.cpp: handovers that end before all has come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tier/transfer/handovers.h"

namespace folio::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

enum class Canceller : uint8_t { sender, receiver };

TEST_P(Handovers, that_are_cancelled_leave_nothing) {
  for (const Landing landing : {Landing::direct, Landing::staged}) {
    for (const Canceller by : {Canceller::sender, Canceller::receiver}) {
      PrefillEnd a({}, transport());
      DecodeEnd b({}, transport(), {.landing = landing});
      Rng rng(1);
      const Tokens tokens = random_tokens(rng, 40);
      const SequenceId id = a.admit(tokens).value().id;
      const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
      a.prefill(id, tokens, {&h, 1}, 0, 21);
      ASSERT_TRUE(comes_true([&] {
        a.sender.poll(0), b.receiver.poll(0);
        return a.sender.figures().sent_pieces >= 3;
      }));
      const auto cancel = [&] {
        by == Canceller::sender ? a.sender.cancel(h) : b.receiver.cancel(1);
      };
      cancel();
      if (by == Canceller::sender) {
        EXPECT_FALSE(a.sender.push(h, 0, 21, 1).is_ok());
      } else {
        EXPECT_EQ(b.pool.check_invariants().message(), "");
        EXPECT_EQ(b.receiver.figures().sequences, 0);
        EXPECT_EQ(b.receiver.figures().handovers, 1) << "until its sender has stopped";
        const int64_t held = landing == Landing::direct ? 10 : 0;
        EXPECT_EQ(b.receiver.figures().pinned_pages, held);
        EXPECT_EQ(b.pool.stats().used_pages, held) << "nobody gets them yet";
      }
      const HandoverEnd end = wait_for_end(a, b);
      EXPECT_EQ(end.outcome, HandoverOutcome::cancelled);
      EXPECT_THAT(std::string(end.reason.message()),
                  HasSubstr(by == Canceller::sender ? "cancelled by the sender"
                                                    : "cancelled by the receiver"));
      settle(a, b);
      expect_idle(a);
      expect_idle(b);
      EXPECT_EQ(b.pool.stats().used_pages, 0);
      EXPECT_EQ(b.pool.peek(tokens), 0) << "not even the pages that were whole";
      cancel();  // nothing, now that it has ended
    }
  }
}
TEST_P(Handovers, fail_when_their_sequence_is_gone) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 9);
  const SequenceId id = a.admit(tokens).value().id;
  const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
  a.prefill(id, tokens, {&h, 1}, 0, 9);
  a.pool.release(id).or_throw();
  EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::failed);
  settle(a, b);
  expect_idle(b);
  EXPECT_EQ(b.pool.stats().used_pages, 0);
}
TEST_P(Handovers, are_late_where_the_other_end_is_silent) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 40);
  const SequenceId id = a.admit(tokens).value().id;
  const HandoverId h = a.sender.begin(peer(a, b), 1, id, tokens).value();
  now = 1'000'000;  // the clock of the first poll may be any
  a.sender.poll(now);
  a.sender.poll(now + 5000);
  EXPECT_EQ(a.sender.figures().handovers, 1);
  a.sender.poll(now + 10'001);  // the receiver has not been polled
  HandoverEnd end[1];
  ASSERT_EQ(a.sender.take_ends(end), 1U);
  EXPECT_EQ(end[0].outcome, HandoverOutcome::late);
  ASSERT_TRUE(comes_true([&] {
    a.sender.poll(now), b.receiver.poll(now);
    return b.receiver.figures().announced == 1 && b.receiver.figures().handovers == 0;
  }));

  const HandoverId silent = a.sender.begin(peer(a, b), 2, id, tokens).value();
  ASSERT_TRUE(comes_true([&] {
    a.sender.poll(now), b.receiver.poll(now);
    return b.receiver.figures().handovers == 1;
  }));
  b.receiver.poll(now + 20'000);  // this sender computes for too long
  EXPECT_EQ(b.receiver.figures().sequences, 0);
  EXPECT_EQ(b.receiver.figures().pinned_pages, 10);
  EXPECT_NE(silent, h);
  const HandoverEnd late = wait_for_end(a, b);
  EXPECT_EQ(late.outcome, HandoverOutcome::late) << late.reason.message();
  settle(a, b);
  expect_idle(b);
}
TEST_P(Handovers, of_a_sender_that_does_not_stop_end_with_the_peer) {
  PrefillEnd a({}, transport());
  DecodeEnd b({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 40);
  static_cast<void>(a.sender.begin(peer(a, b), 1, a.admit(tokens).value().id, tokens).value());
  ASSERT_TRUE(comes_true([&] {
    a.sender.poll(0), b.receiver.poll(0);
    return b.receiver.figures().handovers == 1;
  }));
  b.receiver.cancel(1);
  b.receiver.poll(10'001);
  EXPECT_EQ(b.receiver.figures().lost_peers, 1);
  EXPECT_EQ(b.receiver.figures().pinned_pages, 10) << "a write may be under way";
  b.receiver.poll(20'003);
  expect_idle(b);
  EXPECT_EQ(b.pool.stats().used_pages, 0);
  EXPECT_EQ(wait_for_end(a, b).outcome, HandoverOutcome::cancelled) << "it had been told";
  expect_idle(a);
}
TEST_P(Handovers, of_a_request_may_come_from_another_sender_meanwhile) {
  PrefillEnd silent({}, transport()), other({}, transport());
  DecodeEnd to({}, transport());
  Rng rng(1);
  const Tokens tokens = random_tokens(rng, 40);
  static_cast<void>(
      silent.sender.begin(peer(silent, to), 1, silent.admit(tokens).value().id, tokens).value());
  ASSERT_TRUE(comes_true([&] {
    silent.sender.poll(0), to.receiver.poll(0);
    return to.receiver.figures().handovers == 1;
  }));
  to.receiver.cancel(1);
  const SequenceId id = other.admit(tokens).value().id;
  const HandoverId h = other.sender.begin(peer(other, to), 1, id, tokens).value();
  now = 9000;
  ASSERT_TRUE(comes_true([&] {
    other.sender.poll(now), to.receiver.poll(now);
    return to.receiver.figures().handovers == 2;
  }));
  to.receiver.poll(10'001);  // the first sender is cut off
  EXPECT_EQ(to.receiver.figures().lost_peers, 1);
  other.prefill(id, tokens, {&h, 1}, 0, 40);
  other.sender.finish(h).or_throw();
  const HandoverEnd end = wait_for_end(other, to);
  EXPECT_EQ(end.outcome, HandoverOutcome::done) << end.reason.message();
  EXPECT_EQ(to.count_wrong(to.take().id, tokens, 0, 40), 0);
}
TEST_P(Handovers, end_with_an_end_that_goes) {
  for (const bool is_sender : {true, false}) {
    auto a = std::make_unique<PrefillEnd>(EndSpec{}, transport());
    auto b = std::make_unique<DecodeEnd>(EndSpec{}, transport());
    Rng rng(1);
    const Tokens tokens = random_tokens(rng, 40);
    const SequenceId id = a->admit(tokens).value().id;
    const HandoverId h = a->sender.begin(a->connect(*b), 1, id, tokens).value();
    a->prefill(id, tokens, {&h, 1}, 0, 21);
    ASSERT_TRUE(comes_true([&] {
      a->sender.poll(0), b->receiver.poll(0);
      return a->sender.figures().sent_pieces >= 3;
    }));
    if (is_sender) {
      a = nullptr;
      ASSERT_TRUE(comes_true([&] {
        b->receiver.poll(0);
        return b->receiver.figures().handovers == 0;
      }));
      expect_idle(*b);
      EXPECT_EQ(b->pool.stats().used_pages, 0);
    } else {
      b = nullptr;
      HandoverEnd end[1];
      ASSERT_TRUE(comes_true([&] {
        a->sender.poll(0);
        return a->sender.take_ends(end) == 1;
      }));
      EXPECT_THAT(end[0].outcome, AnyOf(HandoverOutcome::cancelled, HandoverOutcome::lost));
      expect_idle(*a);
    }
  }
}

}  // namespace
}  // namespace folio::test
