// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/faulty_transport.h: a transport that loses messages, says late how writes
/// ended, or says that they failed when their bytes are there.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "support/random.h"
#include "tier/transfer/forwarding_transport.h"

namespace folio::test {

struct FaultRates {
  double lost = 0, late = 0, failed = 0, busy = 0;
};

class FaultyTransport final : public ForwardingTransport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultRates& rates, uint64_t seed)
      : ForwardingTransport(std::move(inner)), rates_(rates), rng_(seed) {}

  Result<TransferId> post(const TransferRequest& request) noexcept override {
    if (rng_.chance(rates_.busy)) return fail(Errc::busy, "no room");
    return inner().post(request);
  }
  Result<TransferState> poll(TransferId transfer) noexcept override {
    if (rng_.chance(rates_.late)) return TransferState::pending;
    const Result<TransferState> state = inner().poll(transfer);
    if (state && *state == TransferState::done && rng_.chance(rates_.failed))
      return TransferState::failed;
    return state;
  }
  Status send(PeerId peer, std::span<const std::byte> message) noexcept override {
    if (rng_.chance(rates_.busy)) return fail(Errc::busy, "no room");
    if (rng_.chance(rates_.lost)) return {};
    return inner().send(peer, message);
  }

 private:
  const FaultRates rates_;
  Rng rng_;
};

}  // namespace folio::test
