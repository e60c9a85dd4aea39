// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/lossy_relay.h: a network between a publisher and a subscriber.
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "support/random.h"
#include "tier/events/zmq_socket.h"

namespace folio::test {

/// Passes messages on, and loses this share of them. Its own endpoint is `to`.
class LossyRelay {
 public:
  LossyRelay(const std::string& from, const std::string& to, double lost, uint64_t seed)
      : lost_(lost), rng_(seed) {
    from_ = tier::ZmqSocket::open(context_, ZMQ_SUB).value();
    from_.set(ZMQ_SUBSCRIBE, std::string_view());
    from_.attach(tier::ZmqSocket::Way::connect, from, "LossyRelay", "from").or_throw();
    to_ = tier::ZmqSocket::open(context_, ZMQ_PUB).value();
    to_.attach(tier::ZmqSocket::Way::bind, to, "LossyRelay", "to").or_throw();
    thread_ = std::thread([this] {
      while (!closing_) relay();
    });
  }
  LossyRelay(const LossyRelay&) = delete;
  LossyRelay& operator=(const LossyRelay&) = delete;
  ~LossyRelay() {
    closing_ = true;
    thread_.join();
  }
  [[nodiscard]] int64_t lost() const { return num_lost_; }

 private:
  void relay() {
    zmq_pollitem_t item = {from_.get(), -1, ZMQ_POLLIN, 0};
    tier::zmq().poll(&item, 1, 5);
    while (const auto frames = from_.receive()) {
      if (rng_.chance(lost_)) {
        ++num_lost_;
        continue;
      }
      const std::string_view first[] = {(*frames)[0], (*frames)[1]};
      to_.send(first, std::make_shared<const std::vector<uint8_t>>(frames->back().begin(),
                                                                   frames->back().end()));
    }
  }

  tier::ZmqContext context_;
  tier::ZmqSocket from_, to_;
  const double lost_;
  Rng rng_;
  std::atomic<int64_t> num_lost_ = 0;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace folio::test
