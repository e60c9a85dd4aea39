// SPDX-License-Identifier: Apache-2.0
/// tests/tier/peer/page_server_helpers.h: a page server with a thread, its clients, and a client
/// that speaks the protocol by hand.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "folio/tier/peer_tier.h"
#include "tier/payload.h"
#include "tier/peer/page_message.h"
#include "tier/peer/transport_helpers.h"
#include "tier/tier_helpers.h"

namespace folio::test {

inline constexpr int64_t page_bytes = 10'000;

/// A server, polled by a thread of its own unless it is held.
class Server {
 public:
  Server(const TransportKind& kind, const PageServerOptions& options)
      : transport_(kind.make({}).value()),
        server_(PageServer::create(transport_.get(), options).value()),
        address_(server_->address().value()),
        thread_([this] {
          while (!is_ending_) {
            {
              const std::lock_guard lock(mutex_);
              server_->poll();
            }
            std::this_thread::yield();
          }
        }) {}
  ~Server() {
    is_ending_ = true;
    thread_.join();
  }
  [[nodiscard]] const std::vector<std::byte>& address() const { return address_; }
  /// While nobody polls.
  template <class Call>
  auto with(Call call) {
    const std::lock_guard lock(mutex_);
    return call(*server_);
  }

 private:
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PageServer> server_;
  std::vector<std::byte> address_;
  std::mutex mutex_;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

class PageServerTest : public ::testing::TestWithParam<TransportKind> {
 protected:
  static PageServerOptions server_options(int64_t pages = 8) {
    return {.max_bytes = pages * page_bytes, .page_bytes = page_bytes, .lease_ms = no_deadline_ms};
  }
  static std::unique_ptr<Tier> client(const Server& server,
                                      const PeerTierOptions& peer = {.timeout_ms = no_deadline_ms},
                                      const Digest256& fingerprint = {}) {
    TierOptions options{.max_bytes = 1};
    options.fingerprint = fingerprint;
    return make_peer_tier(GetParam().make({}).value(), server.address(), options, peer).value();
  }
  static bool finds(Tier& tier, const PageName& name) { return tier.find({&name, 1}) == 1; }
};

/// A peer that speaks the protocol by hand.
class Stranger {
 public:
  Stranger(const TransportKind& kind, const Server& server)
      : memory_(page_bytes), transport_(kind.make({}).value()) {
    region_ = transport_->add_region(memory_).value();
    server_ = transport_->connect(server.address()).value();
  }
  void say(const tier::PageMessage& message) {
    EXPECT_TRUE(transport_->send(server_, tier::encode(message)).is_ok());
  }
  void say(std::string_view text) {
    EXPECT_TRUE(transport_->send(server_, folio::test::bytes_of(text)).is_ok());
  }
  tier::PageMessage hear() {
    return tier::decode_page_message(wait_for_message(*transport_).bytes).value();
  }
  TransferState move(TransferDirection direction, const RegionRun& remote,
                     std::span<const std::byte> message = {}) {
    const RegionRun local{region_, 0, remote.bytes};
    const auto id = transport_->post({.direction = direction,
                                      .peer = server_,
                                      .local = {&local, 1},
                                      .remote = {&remote, 1},
                                      .message = message});
    return id ? wait_for(*transport_, *id) : TransferState::failed;
  }
  std::vector<std::byte>& memory() { return memory_; }
  Transport& transport() { return *transport_; }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<Transport> transport_;
  RegionId region_;
  PeerId server_;
};

}  // namespace folio::test
