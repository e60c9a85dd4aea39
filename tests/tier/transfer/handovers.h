// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/handovers.h: sequences that go from one end to another, over a transport.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"

namespace folio::test {

class Handovers : public ::testing::TestWithParam<TransportKind> {
 protected:
  using Senders = std::vector<PrefillEnd*>;

  [[nodiscard]] std::unique_ptr<Transport> transport(const TransportOptions& options = {}) {
    return GetParam().make(options).value();
  }
  /// A prompt goes from senders to a receiver, in chunks.
  void hand_over(const Senders& senders, DecodeEnd& to, const Tokens& tokens, int32_t chunk) {
    struct Way {
      PrefillEnd* from;
      SequenceId id;
      HandoverId handover;
      int32_t done = 0;
    };
    std::vector<Way> ways;
    const uint64_t request = ++requests_;
    for (PrefillEnd* from : senders) {
      const Admission a = from->admit(tokens).value();
      ways.push_back({from, a.id,
                      from->sender.begin(peer(*from, to), request, a.id, tokens).value(),
                      a.cached_tokens});
    }
    const auto size = static_cast<int32_t>(tokens.size());
    for (bool is_over = false; !is_over;) {
      is_over = true;
      for (Way& way : ways) {
        const int32_t last = std::min(way.done + chunk, size);
        if (way.done == size) continue;
        way.from->prefill(way.id, tokens, {&way.handover, 1}, way.done, last);
        way.done = last;
        is_over = false;
        way.from->sender.poll(now);
        to.receiver.poll(now);
      }
    }
    const Tokens output{7, 8};
    for (Way& way : ways) way.from->sender.finish(way.handover, output).or_throw();
    ASSERT_TRUE(comes_true([&] {
      for (const Way& way : ways) way.from->sender.poll(now);
      to.receiver.poll(now);
      return std::ranges::all_of(
          ways, [](const Way& way) { return way.from->sender.figures().handovers == 0; });
    }));
    for (const Way& way : ways) {
      const HandoverEnd end = wait_for_end(*way.from, to);
      EXPECT_EQ(end.id, way.handover);
      ASSERT_EQ(end.outcome, HandoverOutcome::done) << end.reason.message();
      way.from->pool.release(way.id).or_throw();
      expect_idle(*way.from);
    }
    const ReceivedSequence got = to.take();
    EXPECT_EQ(got.request, request);
    ASSERT_EQ(got.tokens, tokens);
    EXPECT_EQ(got.output, output);
    EXPECT_EQ(to.pool.length(got.id).value(), size);
    EXPECT_EQ(to.count_wrong(got.id, tokens, 0, size), 0);
    last_cached = got.cached_tokens;
    expect_idle(to);
    to.pool.release(got.id).or_throw();
  }
  HandoverEnd wait_for_end(PrefillEnd& from, DecodeEnd& to, int64_t step_ms = 0) {
    HandoverEnd end[1];
    EXPECT_TRUE(comes_true([&] {
      now += step_ms;
      from.sender.poll(now);
      to.receiver.poll(now);
      return from.sender.take_ends(end) == 1;
    }));
    return std::move(end[0]);
  }
  /// Until the receiver holds nothing any more.
  void settle(PrefillEnd& from, DecodeEnd& to) {
    EXPECT_TRUE(comes_true([&] {
      from.sender.poll(now);
      to.receiver.poll(now);
      return to.receiver.figures().handovers == 0;
    }));
  }
  static PeerId peer(PrefillEnd& from, DecodeEnd& to) {
    PeerId& id = from.peers[&to];
    if (id == PeerId{}) id = from.connect(to);
    return id;
  }
  void hand_over_some(const EndSpec& from, const EndSpec& to, Landing landing = Landing::direct) {
    Rng rng(test_seed());
    PrefillEnd a(from, transport());
    DecodeEnd b(to, transport(), {.landing = landing, .staging_slots = 3});
    for (int i = 0; i < 4; ++i)
      hand_over({&a}, b, random_tokens(rng, rng.int_between(1, 70)), rng.int_between(1, 30));
    staged = b.receiver.figures().staged_pieces;
    direct = b.receiver.figures().direct_pieces;
  }
  /// Why the receiver refuses the sender, or nothing.
  std::string refusal_of(const EndSpec& from, const EndSpec& to,
                         const HandoverReceiverOptions& options = {}) {
    PrefillEnd a(from, transport());
    DecodeEnd b(to, transport(), options);
    const Tokens tokens{1, 2, 3};
    const Admission s = a.admit(tokens).value();
    static_cast<void>(a.sender.begin(peer(a, b), 1, s.id, tokens).value());
    const HandoverEnd end = wait_for_end(a, b);
    EXPECT_EQ(end.outcome, HandoverOutcome::refused);
    EXPECT_EQ(a.sender.begin(peer(a, b), 2, s.id, tokens).error().code(), Errc::unsupported);
    EXPECT_EQ(b.receiver.figures().refused_peers, 1);
    expect_idle(a);
    expect_idle(b);
    return std::string(end.reason.message());
  }

  int32_t last_cached = 0;
  int64_t staged = 0, direct = 0;
  int64_t now = 0;

 private:
  uint64_t requests_ = 0;
};

}  // namespace folio::test
