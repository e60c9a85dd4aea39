// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_helpers.h: every transport that is there, two ends of it, and calls
/// that wait.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "folio/tier/transports.h"
#include "support/comes_true.h"
#include "support/random.h"

namespace folio::test {

inline TransferState wait_for(Transport& transport, TransferId transfer) {
  TransferState state = TransferState::pending;
  EXPECT_TRUE(comes_true(
      [&] { return (state = transport.poll(transfer).value()) != TransferState::pending; }));
  return state;
}

inline PeerState wait_for(Transport& transport, PeerId peer) {
  PeerState state = PeerState::connecting;
  EXPECT_TRUE(comes_true(
      [&] { return (state = transport.peer_state(peer).value()) != PeerState::connecting; }));
  return state;
}

/// The next message, of any peer.
inline PeerMessage wait_for_message(Transport& transport) {
  PeerMessage message[1];
  EXPECT_TRUE(comes_true([&] { return transport.receive(message) == 1; }));
  return std::move(message[0]);
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
inline std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void fill(std::span<std::byte> memory, Rng& rng) {
  for (std::byte& b : memory) b = static_cast<std::byte>(rng.between(0, 255));
}

struct TransportKind {
  std::string name;
  /// Ends that can reach one another.
  std::function<Result<std::unique_ptr<Transport>>(const TransportOptions&)> make;
};
inline void PrintTo(const TransportKind& kind, std::ostream* out) { *out << kind.name; }

/// Where NIXL's library is, by the environment's FOLIO_TEST_NIXL; empty: where it is looked for.
std::string nixl_library();

/// Of `in_process`, `shared_memory`, `ucx_tcp`, `nixl_tcp`, there or not.
TransportKind transport_kind(const std::string& name);
/// Those that are there.
std::vector<TransportKind> transport_kinds();
/// Those that are not, and why: a line each.
std::string absent_transports();

}  // namespace folio::test
