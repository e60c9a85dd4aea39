// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/faulty_transport.h: a transport that loses messages, says late how writes
/// ended, or says that they failed when their bytes are there.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "folio/tier/transport.h"
#include "support/random.h"

namespace folio::test {

struct FaultRates {
  double lost = 0, late = 0, failed = 0, busy = 0;
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::unique_ptr<Transport> inner, const FaultRates& rates, uint64_t seed)
      : inner_(std::move(inner)), rates_(rates), rng_(seed) {}
  [[nodiscard]] Transport& inner() { return *inner_; }

  Result<RegionId> add_region(std::span<std::byte> memory) noexcept override {
    return inner_->add_region(memory);
  }
  Status remove_region(RegionId region) noexcept override { return inner_->remove_region(region); }
  Result<std::vector<std::byte>> address() const noexcept override { return inner_->address(); }
  Result<PeerId> connect(std::span<const std::byte> address) noexcept override {
    return inner_->connect(address);
  }
  Status disconnect(PeerId peer) noexcept override { return inner_->disconnect(peer); }
  Result<PeerState> peer_state(PeerId peer) const noexcept override {
    return inner_->peer_state(peer);
  }
  Result<TransferId> post(const TransferRequest& request) noexcept override {
    if (rng_.chance(rates_.busy)) return fail(Errc::busy, "no room");
    return inner_->post(request);
  }
  Result<TransferState> poll(TransferId transfer) noexcept override {
    if (rng_.chance(rates_.late)) return TransferState::pending;
    const Result<TransferState> state = inner_->poll(transfer);
    if (state && *state == TransferState::done && rng_.chance(rates_.failed))
      return TransferState::failed;
    return state;
  }
  Status cancel(TransferId transfer) noexcept override { return inner_->cancel(transfer); }
  Status release(TransferId transfer) noexcept override { return inner_->release(transfer); }
  Status send(PeerId peer, std::span<const std::byte> message) noexcept override {
    if (rng_.chance(rates_.busy)) return fail(Errc::busy, "no room");
    if (rng_.chance(rates_.lost)) return {};
    return inner_->send(peer, message);
  }
  size_t receive(std::span<PeerMessage> messages) noexcept override {
    return inner_->receive(messages);
  }
  Status last_fault() const noexcept override { return inner_->last_fault(); }

 private:
  const std::unique_ptr<Transport> inner_;
  const FaultRates rates_;
  Rng rng_;
};

}  // namespace folio::test
