// SPDX-License-Identifier: Apache-2.0
/// tests/tier/events/manual_publisher.h: a publisher's sockets, on which a test says what it likes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tier/events/event_helpers.h"
#include "tier/events/wire.h"
#include "tier/events/zmq_socket.h"

namespace folio::test {

class ManualPublisher {
 public:
  using Frames = std::vector<std::string_view>;

  explicit ManualPublisher(const TemporaryFolder& folder)
      : endpoint_(socket_in(folder, "pub")), replay_endpoint_(socket_in(folder, "replay")) {
    using Way = tier::ZmqSocket::Way;
    live_ = tier::ZmqSocket::open(context_, ZMQ_PUB).value();
    live_.attach(Way::bind, endpoint_, "ManualPublisher", "endpoint").or_throw();
    replay_ = tier::ZmqSocket::open(context_, ZMQ_ROUTER).value();
    replay_.attach(Way::bind, replay_endpoint_, "ManualPublisher", "replay_endpoint").or_throw();
  }
  [[nodiscard]] std::string_view endpoint() const { return endpoint_; }
  [[nodiscard]] EventSubscriber subscribe(int32_t idle_check_ms) const {
    return EventSubscriber::create({.endpoint = endpoint_,
                                    .replay_endpoint = replay_endpoint_,
                                    .request_timeout_ms = no_deadline_ms,
                                    .idle_check_ms = idle_check_ms})
        .value();
  }

  /// Lost where no subscription has arrived yet.
  void send(const Frames& frames, std::string_view last) {
    static_cast<void>(live_.send(frames, bytes(last)));
  }
  /// The number that somebody asks for, if anybody does.
  [[nodiscard]] std::optional<uint64_t> take_request() {
    const auto request = replay_.receive();
    if (!request) return std::nullopt;
    asker_ = request->front();
    return tier::number_of(request->back());
  }
  /// To who has asked last.
  void answer(Frames frames, std::string_view last) {
    frames.insert(frames.begin(), asker_);
    ASSERT_TRUE(replay_.send(frames, bytes(last)));
  }
  void answer_batch(uint64_t number, std::string_view payload) {
    answer({"", "", tier::bytes_of(number)}, payload);
  }
  void end_answers() { answer_batch(tier::no_batch, ""); }

 private:
  static std::shared_ptr<const std::vector<uint8_t>> bytes(std::string_view text) {
    return std::make_shared<const std::vector<uint8_t>>(text.begin(), text.end());
  }

  const std::string endpoint_, replay_endpoint_;
  tier::ZmqContext context_;
  tier::ZmqSocket live_, replay_;
  std::string asker_;
};

}  // namespace folio::test
