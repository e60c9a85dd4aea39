// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/hostile_peer.h: a peer that sends what no end sends.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <span>

#include "folio/tier/transports.h"
#include "tier/transfer/wire.h"

namespace folio::test {

inline constexpr uint32_t huge = std::numeric_limits<uint32_t>::max();

/// A peer that says what it is told to.
class Peer {
 public:
  Peer(InProcessNetwork& network, Transport& other)
      : transport(network.make_end().value()),
        other_(transport->connect(other.address().value()).value()) {}
  /// An end that the other one has connected to.
  explicit Peer(InProcessNetwork& network) : transport(network.make_end().value()) {}

  template <class Message>
  void send(const Message& message) {
    send_bytes(tier::encode(message));
  }
  void send_bytes(std::span<const std::byte> bytes) { transport->send(other_, bytes).or_throw(); }
  /// The next message of this kind; those before it are dropped.
  template <class Message>
  Message receive() {
    PeerMessage message[1];
    while (transport->receive(message) == 1) {
      other_ = message[0].peer;
      if (auto decoded = tier::decode<Message>(message[0].bytes)) return *decoded;
    }
    ADD_FAILURE() << "no message of kind " << static_cast<int>(Message::kind);
    return {};
  }
  [[nodiscard]] bool is_cut_off() const {
    const Result<PeerState> state = transport->peer_state(other_);
    return !state || *state == PeerState::lost;
  }
  const std::unique_ptr<Transport> transport;

 private:
  PeerId other_;
};

}  // namespace folio::test
