// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_sender.h: a receiver whose peer sends what no sender sends, beside a
/// good one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "tier/payload.h"
#include "tier/peer/transport_helpers.h"
#include "tier/transfer/ends.h"
#include "tier/transfer/hostile_peer.h"
#include "tier/transfer/names.h"

namespace folio::test {

/// In the end others are served, and nothing is held for the peer.
class HostileSender : public ::testing::Test {
 protected:
  explicit HostileSender(const EndSpec& of = {}, Landing landing = Landing::direct)
      : good(of, network.make_end().value()),
        to(of, network.make_end().value(), {.landing = landing, .staging_slots = 4}),
        peer(network, *to.transport),
        geometry(tier::geometry_of("test", good.end()).value()) {
    Rng rng(test_seed());
    tokens = random_tokens(rng, 10);
  }
  void TearDown() override {
    EXPECT_EQ(to.pool.check_invariants().message(), "");
    EXPECT_EQ(to.receiver.figures().committed, 0);
    // whatever came before, others are served
    const SequenceId id = good.admit(tokens).value().id;
    const HandoverId h = good.sender.begin(good.connect(to), 99, id, tokens).value();
    good.prefill(id, tokens, {&h, 1}, 0, 10);
    good.sender.finish(h).or_throw();
    for (int i = 0; i < 20; ++i) good.sender.poll(0), poll();
    HandoverEnd end[1];
    ASSERT_EQ(good.sender.take_ends(end), 1U);
    EXPECT_EQ(end[0].outcome, HandoverOutcome::done) << end[0].reason.message();
    EXPECT_EQ(to.count_wrong(to.take().id, tokens, 0, 10), 0);
    // and what the peer held is free when it is gone
    network.cut(*peer.transport);
    poll();
    to.receiver.poll(30'000), to.receiver.poll(60'000), to.receiver.poll(90'000);
    expect_idle(to);
    EXPECT_EQ(to.pool.stats().used_pages, 3) << "those that have been taken";
  }
  void poll() { to.receiver.poll(0); }
  void greet() {
    tier::Hello hello;
    hello.geometry = geometry;
    peer.send(hello);
    poll();
    welcome = peer.receive<tier::Welcome>();
  }
  /// An accepted handover `id`.
  tier::Accept open(uint64_t id) {
    peer.send(tier::Announce{.id = id, .request = id, .tokens = tokens});
    poll();
    return peer.receive<tier::Accept>();
  }
  /// The message is refused, and the handover with it.
  template <class Message>
  void expect_refused(const Message& message, const char* reason) {
    const int64_t before = to.receiver.figures().refused_messages;
    peer.send(message);
    poll();
    EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << reason;
    EXPECT_EQ(to.receiver.figures().sequences, 0) << reason;
    EXPECT_THAT(std::string(to.receiver.last_fault().message()), ::testing::HasSubstr(reason));
    EXPECT_EQ(peer.receive<tier::Abort>().id, message.id);
    peer.send(message);  // and once more
    poll();
    EXPECT_EQ(to.receiver.figures().refused_messages, before + 1) << reason << ": late";
    peer.send(tier::Ended{.id = message.id});
    poll();
    expect_idle(to);
    EXPECT_EQ(to.pool.stats().used_pages, 0);
  }
  /// Writes a piece that the receiver expects, and says what has landed.
  tier::LandedPiece land(uint32_t layer, uint32_t page, const tier::Accept& accept) {
    const int64_t row = geometry.row_bytes_of(0);
    const auto of_layer =
        std::span(welcome.places).subspan(layer * tier::num_sections, tier::num_sections);
    std::vector<RegionRun> remote;
    const int32_t valid = std::min(4, 10 - static_cast<int32_t>(page) * 4);
    tier::add_piece_runs(geometry, of_layer,
                         {.page = accept.pages[page], .heads = 2, .tokens = valid}, remote);
    std::vector<std::byte> bytes(static_cast<size_t>(2 * row * 2 * valid), std::byte{0x3f});
    const RegionId region = peer.transport->add_region(bytes).value();
    const RegionRun local{region, 0, std::ssize(bytes)};
    PeerId other{1};
    const TransferId t =
        peer.transport->post({.peer = other, .local = {&local, 1}, .remote = remote}).value();
    EXPECT_EQ(wait_for(*peer.transport, t), TransferState::done);
    peer.transport->release(t).or_throw();
    peer.transport->remove_region(region).or_throw();
    return {.page = page, .crc = tier::extend_crc(0, bytes.data(), std::ssize(bytes))};
  }
  void land_all(uint64_t id, const tier::Accept& accept) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      tier::Landed landed{.id = id, .layer = layer};
      for (uint32_t page = 0; page < 3; ++page) landed.pieces.push_back(land(layer, page, accept));
      peer.send(landed);
    }
    poll();
  }
  [[nodiscard]] tier::Done done(uint64_t id) const {
    return {.id = id, .pieces = 9, .num_tokens = 10, .token_crc = tier::crc_of_tokens(tokens)};
  }

  InProcessNetwork network;
  PrefillEnd good;
  DecodeEnd to;
  Peer peer;
  tier::Geometry geometry;
  tier::Welcome welcome;
  Tokens tokens;
};

}  // namespace folio::test
