// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/outbox.h: messages that a transport has no room for yet.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "folio/tier/transport.h"
#include "tier/transfer/wire.h"

namespace folio::inline v1::tier {

/// Keeps the order of messages to a peer.
class Outbox {
 public:
  explicit Outbox(Transport& transport) : transport_(transport) {}

  /// Errors: the transport's, but for busy: then it is sent later
  template <class Message>
  Status send(PeerId peer, const Message& message) {
    std::vector<std::byte> bytes = encode(message);
    const auto waiting = queues_.find(peer);
    if (waiting == queues_.end()) {
      Status s = transport_.send(peer, bytes);
      if (s.code() != Errc::busy) return s;
    }
    Queue& queue = queues_[peer];
    queue.bytes += std::ssize(bytes);
    queue.messages.push_back(std::move(bytes));
    return {};
  }
  void flush() {
    for (auto at = queues_.begin(); at != queues_.end();) {
      Queue& queue = at->second;
      while (!queue.messages.empty() &&
             transport_.send(at->first, queue.messages.front()).code() != Errc::busy) {
        queue.bytes -= std::ssize(queue.messages.front());
        queue.messages.pop_front();
      }
      at = queue.messages.empty() ? queues_.erase(at) : std::next(at);
    }
  }
  void forget(PeerId peer) { queues_.erase(peer); }
  [[nodiscard]] int64_t bytes(PeerId peer) const {
    const auto at = queues_.find(peer);
    return at == queues_.end() ? 0 : at->second.bytes;
  }

 private:
  struct Queue {
    std::deque<std::vector<std::byte>> messages;
    int64_t bytes = 0;
  };
  Transport& transport_;
  std::map<PeerId, Queue> queues_;
};

}  // namespace folio::inline v1::tier
