// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/transport_pair.h: two ends of a transport that are connected.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "folio/tier/transport.h"
#include "tier/peer/transport_helpers.h"

namespace folio::test {

/// An end, and the region `memory`.
struct TransportEnd {
  explicit TransportEnd(const TransportKind& kind, const TransportOptions& options = {},
                        size_t bytes = 100'000)
      : memory(bytes),
        transport(kind.make(options).value()),
        region(transport->add_region(memory).value()) {}
  std::vector<std::byte> memory;
  std::unique_ptr<Transport> transport;
  RegionId region;
};

class EveryTransport : public ::testing::TestWithParam<TransportKind> {
 protected:
  TransportEnd a{GetParam()}, b{GetParam()};
  PeerId b_of_a = a.transport->connect(b.transport->address().value()).value();

  /// UCX 1.13 ends the process where an end goes while two connect ("ucp_request.c:684").
  void TearDown() override {
    if (a.transport != nullptr && b.transport != nullptr && a.transport->peer_state(b_of_a))
      static_cast<void>(wait_for(*a.transport, b_of_a));
  }

  TransferRequest request(TransferDirection direction, const RegionRun& local,
                          const RegionRun& remote) {
    local_ = local;
    remote_ = remote;
    return {.direction = direction, .peer = b_of_a, .local = {&local_, 1}, .remote = {&remote_, 1}};
  }
  Status refusal(const TransferRequest& request) {
    const auto id = a.transport->post(request);
    EXPECT_FALSE(id);
    return id.error();
  }
  RegionRun local_, remote_;
};

}  // namespace folio::test
