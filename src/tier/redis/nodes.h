// SPDX-License-Identifier: Apache-2.0
/// tier/redis/nodes.h: the servers that a tier has heard of, their connections, and which of them
/// are away. Any thread.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tier/redis/connection.h"

namespace folio::inline v1::tier::redis {

inline constexpr uint32_t most_nodes = 1024;  // of a cluster

class Nodes {
 public:
  /// Node 0 is the one of the settings. `encryption` may be null.
  Nodes(const Settings& settings, std::unique_ptr<Encryption> encryption);

  /// The node of that address, known or new; no number where there are too many.
  [[nodiscard]] Result<uint32_t> number_of(const Address& address);
  [[nodiscard]] Address address(uint32_t node) const;
  [[nodiscard]] uint32_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

  /// A connection that nobody else uses: one that was given back, or a new one. Errors: io, busy;
  /// at once while the node counts as away; out_of_memory for want of a socket, which says nothing
  /// of the node
  [[nodiscard]] Result<std::unique_ptr<Connection>> take(uint32_t node);
  void give_back(uint32_t node, std::unique_ptr<Connection> connection);
  /// Connections to it may have been closed; it does not count as away.
  void drop_idle(uint32_t node);
  /// It counts as away, the longer the more often.
  void note_lost(uint32_t node, const Status& why);
  [[nodiscard]] bool is_away(uint32_t node) const;
  [[nodiscard]] bool are_all_away() const;
  /// Grows whenever a server may have lost what it had.
  [[nodiscard]] uint64_t losses() const noexcept { return losses_.load(); }

 private:
  struct Node {
    Address address;
    std::vector<std::unique_ptr<Connection>> idle;
    Clock::time_point away_until = {};
    std::chrono::milliseconds delay{0};
    Status why;
  };

  const Settings settings_;
  const std::unique_ptr<Encryption> encryption_;
  mutable std::mutex mutex_;
  std::deque<Node> nodes_;
  std::atomic<uint32_t> count_ = 1;
  std::atomic<uint64_t> losses_ = 0;
};

}  // namespace folio::inline v1::tier::redis
