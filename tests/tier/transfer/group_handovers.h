// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/group_handovers.h: sequences of hybrid models that go from one end to
/// another, and are looked at there, go on there, and are found again there.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/transports.h"
#include "support/comes_true.h"
#include "tier/transfer/group_ends.h"

namespace folio::test {

class GroupHandovers : public ::testing::Test {
 protected:
  using Senders = std::vector<GroupPrefillEnd*>;

  [[nodiscard]] std::unique_ptr<Transport> transport() { return network.make_end().value(); }
  /// A prompt goes from senders to a receiver, in chunks.
  void hand_over(const Senders& senders, GroupDecodeEnd& to, const Tokens& tokens, int32_t chunk) {
    struct Way {
      GroupPrefillEnd* from;
      SequenceId id;
      HandoverId handover;
      int32_t done = 0;
    };
    std::vector<Way> ways;
    const uint64_t request = ++requests_;
    for (GroupPrefillEnd* from : senders) {
      const Admission a = from->pool.admit(tokens).value();
      from->copy();
      const HandoverId h = from->sender.begin(from->connect(to), request, a.id, tokens).value();
      ways.push_back({from, a.id, h, a.cached_tokens});
    }
    for (int i = 0; i < 4; ++i) {
      for (const Way& way : ways) way.from->sender.poll(0);
      to.receiver.poll(0);
    }
    const auto size = static_cast<int32_t>(tokens.size());
    for (Way& way : ways) {
      while (way.done != size) {
        const int32_t last = std::min(way.done + chunk, size);
        ASSERT_TRUE(way.from->prefill(way.id, tokens, {&way.handover, 1}, way.done, last));
        way.done = last;
        to.receiver.poll(0);
      }
      way.from->sender.finish(way.handover, Tokens{7, 8}).or_throw();
    }
    for (int i = 0; i < 400 && to.receiver.figures().committed != taken_from(to) + 1; ++i) {
      for (const Way& way : ways) way.from->sender.poll(0);
      to.receiver.poll(0);
    }
    for (const Way& way : ways) {
      HandoverEnd end[1];
      way.from->sender.poll(0);
      ASSERT_EQ(way.from->sender.take_ends(end), 1U) << to.receiver.last_fault().message();
      ASSERT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
      way.from->pool.release(way.id).or_throw();
      expect_idle(*way.from);
      ASSERT_EQ(used_pages(*way.from), 0);
    }
    look_at(to, tokens);
  }
  /// Hands prompts of all these lengths over, of any tokens.
  void hand_over_all(const GroupEndSpec& from, const GroupEndSpec& to, int32_t longest = 41,
                     Landing landing = Landing::direct) {
    Rng rng(test_seed());
    GroupPrefillEnd a(from, transport());
    GroupDecodeEnd b(to, transport(), {.landing = landing, .staging_slots = 5});
    for (int32_t size = 1; size <= longest; ++size) {
      SCOPED_TRACE(size);
      ASSERT_NO_FATAL_FAILURE(hand_over({&a}, b, random_tokens(rng, size), rng.int_between(1, 30)));
      if (HasFailure()) return;
    }
    sent = a.sender.figures().sent_pieces;
    direct = b.receiver.figures().direct_pieces;
    staged = b.receiver.figures().staged_pieces;
  }
  /// Why the receiver refuses the sender, or nothing.
  std::string refusal_of(const GroupEndSpec& from, const GroupEndSpec& to) {
    GroupPrefillEnd a(from, transport());
    GroupDecodeEnd b(to, transport());
    const Tokens tokens{1, 2, 3};
    const SequenceId id = a.pool.admit(tokens)->id;
    static_cast<void>(a.sender.begin(a.connect(b), 1, id, tokens).value());
    for (int i = 0; i < 6; ++i) a.sender.poll(0), b.receiver.poll(0);
    HandoverEnd end[1];
    if (a.sender.take_ends(end) != 1) return "not refused";
    EXPECT_EQ(end[0].outcome, HandoverOutcome::refused);
    EXPECT_EQ(a.sender.begin(a.connect(b), 2, id, tokens).error().code(), Errc::unsupported);
    EXPECT_EQ(b.receiver.figures().refused_peers, 1);
    expect_idle(a);
    expect_idle(b);
    EXPECT_EQ(used_pages(b), 0);
    return std::string(end[0].reason.message());
  }
  /// Of a receiver.
  int64_t& taken_from(GroupDecodeEnd& to) { return taken_[&to]; }

  InProcessNetwork network;
  int64_t sent = 0, direct = 0, staged = 0;
  int32_t last_cached = 0;
  int32_t tokens_behind = 12;  ///< that receivers compute behind what has come

 private:
  void look_at(GroupDecodeEnd& to, Tokens tokens) {
    ReceivedSequence got = to.take();
    ASSERT_EQ(got.tokens, tokens);
    ++taken_from(to);
    EXPECT_EQ(got.request, requests_);
    EXPECT_EQ(got.output, (Tokens{7, 8}));
    const auto size = static_cast<int32_t>(tokens.size());
    EXPECT_EQ(to.pool.length(got.id).value(), size);
    ASSERT_EQ(to.wrong(got.id, tokens, size), "");
    last_cached = got.cached_tokens;
    expect_idle(to);
    ASSERT_EQ(to.go_on(got.id, tokens, tokens_behind), "");
    to.pool.release(got.id).or_throw();
    ASSERT_EQ(to.look_for(tokens), "");
    ASSERT_EQ(used_pages(to), 0);
  }

  uint64_t requests_ = 0;
  std::map<GroupDecodeEnd*, int64_t> taken_;
};

}  // namespace folio::test
