// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/forwarding_transport.h: a transport that is another one, but for what those
/// that derive from it change.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "folio/tier/transport.h"

namespace folio::test {

class ForwardingTransport : public Transport {
 public:
  explicit ForwardingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
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
    return inner_->post(request);
  }
  Result<TransferState> poll(TransferId transfer) noexcept override {
    return inner_->poll(transfer);
  }
  Status cancel(TransferId transfer) noexcept override { return inner_->cancel(transfer); }
  Status release(TransferId transfer) noexcept override { return inner_->release(transfer); }
  Status send(PeerId peer, std::span<const std::byte> message) noexcept override {
    return inner_->send(peer, message);
  }
  size_t receive(std::span<PeerMessage> messages) noexcept override {
    return inner_->receive(messages);
  }
  Status last_fault() const noexcept override { return inner_->last_fault(); }

 private:
  const std::unique_ptr<Transport> inner_;
};

}  // namespace folio::test
