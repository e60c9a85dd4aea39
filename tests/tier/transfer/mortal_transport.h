// SPDX-License-Identifier: Apache-2.0
/// tests/tier/transfer/mortal_transport.h: a transport whose process is killed at a moment that was
/// chosen before.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tier/transfer/forwarding_transport.h"
#include "tier/transfer/wire.h"

namespace folio::test {

/// The `count`-th time that an end does that.
struct Moment {
  enum class Deed : uint8_t { never, before_send, after_send, on_receive, after_post };
  Deed deed = Deed::never;
  tier::Kind kind = tier::Kind::hello;  ///< of the message
  int64_t count = 1;
};

class MortalTransport final : public ForwardingTransport {
 public:
  MortalTransport(std::unique_ptr<Transport> inner, Moment moment)
      : ForwardingTransport(std::move(inner)), moment_(moment) {}

  Result<TransferId> post(const TransferRequest& request) noexcept override {
    Result<TransferId> id = inner().post(request);
    if (moment_.deed == Moment::Deed::after_post) pass();
    return id;
  }
  Status send(PeerId peer, std::span<const std::byte> message) noexcept override {
    pass_if(Moment::Deed::before_send, message);
    Status s = inner().send(peer, message);
    pass_if(Moment::Deed::after_send, message);
    return s;
  }
  size_t receive(std::span<PeerMessage> messages) noexcept override {
    const size_t count = inner().receive(messages);
    for (const PeerMessage& message : messages.first(count))
      pass_if(Moment::Deed::on_receive, message.bytes);
    return count;
  }

 private:
  void pass_if(Moment::Deed deed, std::span<const std::byte> message) {
    if (moment_.deed == deed && tier::kind_of(message) == moment_.kind) pass();
  }
  void pass() {
    if (--moment_.count == 0) static_cast<void>(std::raise(SIGKILL));
  }
  Moment moment_;
};

}  // namespace folio::test
