// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/memory_test.cpp: one allocation of an end fails, whichever: the handover
/// comes whole or ends, and nothing is held, nor written where it does not belong.
#include <gtest/gtest.h>

#include "support/allocations.h"
#include "tier/transfer/group_handovers.h"

namespace folio::test {
namespace {

enum class Failing : uint8_t { sender, receiver };

class HandoverMemory : public GroupHandovers {
 protected:
  /// Allocations of the poll in which the end fails: of the receiver the one that takes the
  /// announcement, of the sender the one that takes what is accepted.
  int64_t run(const GroupEndSpec& spec, Failing failing, int64_t others) {
    GroupPrefillEnd a(spec, transport());
    GroupDecodeEnd b(spec, transport());
    const Tokens tokens = [] {
      Rng rng(1);
      return random_tokens(rng, 41);
    }();
    // page 0 of each group is another sequence's
    const SequenceId other = b.pool.admit(Tokens{1, 2, 3, 4})->id;
    EXPECT_EQ(b.compute_all(other, {1, 2, 3, 4}), "");
    const int64_t used = used_pages(b);
    const SequenceId id = a.pool.admit(tokens)->id;
    const HandoverId h = a.sender.begin(a.connect(b), 1, id, tokens).value();
    a.sender.poll(0);
    int64_t calls = 0;
    const auto poll = [&](Failing of, auto& end) {
      const int64_t before = allocations();
      if (of == failing) fail_allocation_after(others);
      end.poll(0);
      fail_allocation_after(-1);
      if (of == failing) calls = allocations() - before;
    };
    poll(Failing::receiver, b.receiver);
    poll(Failing::sender, a.sender);
    EXPECT_TRUE(a.prefill(id, tokens, {&h, 1}, 0, 41));
    static_cast<void>(a.sender.finish(h, Tokens{7}));
    HandoverEnd end[1];
    size_t ends = 0;
    for (int64_t now = 0; now < 100'000; now += 500) {
      a.sender.poll(now), b.receiver.poll(now);
      ends += a.sender.take_ends(end);
    }
    EXPECT_EQ(ends, 1U);
    const ReceivedSequence got = b.take();
    EXPECT_EQ(!got.tokens.empty(), end[0].outcome == HandoverOutcome::done);
    if (!got.tokens.empty()) {
      EXPECT_EQ(b.wrong(got.id, tokens, 41), "");
      b.pool.release(got.id).or_throw();
    }
    EXPECT_EQ(b.wrong(other, {1, 2, 3, 4}, 4), "") << "written to";
    expect_idle(a);
    expect_idle(b);
    EXPECT_EQ(used_pages(b), used);
    return calls;
  }
  void run_all(const GroupEndSpec& spec, Failing failing) {
    const int64_t calls = run(spec, failing, 1 << 20);
    ASSERT_GT(calls, 10);
    for (int64_t others = 0; others < calls && !HasFailure(); ++others) {
      SCOPED_TRACE(others);
      static_cast<void>(run(spec, failing, others));
    }
  }
};

TEST_F(HandoverMemory, may_be_none_for_a_receiver_that_takes_an_announcement) {
  for (const GroupEndSpec& spec : group_ends()) run_all(spec, Failing::receiver);
}
TEST_F(HandoverMemory, may_be_none_for_a_sender_that_takes_what_is_accepted) {
  for (const GroupEndSpec& spec : group_ends()) run_all(spec, Failing::sender);
}

}  // namespace
}  // namespace folio::test
