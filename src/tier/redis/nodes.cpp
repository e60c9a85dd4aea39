// SPDX-License-Identifier: Apache-2.0
/// tier/redis/nodes.cpp: connections taken, given back and lost.
#include "tier/redis/nodes.h"

#include <algorithm>

namespace folio::inline v1::tier::redis {
namespace {

constexpr std::chrono::milliseconds first_delay{50}, last_delay{5000};

}  // namespace

Nodes::Nodes(const Settings& settings, std::unique_ptr<Encryption> encryption)
    : settings_(settings), encryption_(std::move(encryption)) {
  nodes_.emplace_back().address = settings.address;
}

Result<uint32_t> Nodes::number_of(const Address& address) {
  const std::lock_guard lock(mutex_);
  for (uint32_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].address == address) return i;
  if (nodes_.size() == most_nodes)
    return fail(Errc::io, "the servers name more than {} others", most_nodes);
  nodes_.emplace_back().address = address;
  count_ = static_cast<uint32_t>(nodes_.size());
  return count_ - 1;
}

Address Nodes::address(uint32_t node) const {
  const std::lock_guard lock(mutex_);
  return nodes_[node].address;
}

Result<std::unique_ptr<Connection>> Nodes::take(uint32_t node) {
  Address address;
  {
    const std::lock_guard lock(mutex_);
    Node& n = nodes_[node];
    if (!n.idle.empty()) {
      std::unique_ptr<Connection> connection = std::move(n.idle.back());
      n.idle.pop_back();
      return connection;
    }
    if (Clock::now() < n.away_until) return n.why;
    address = n.address;
  }
  Result<std::unique_ptr<Connection>> connection =
      Connection::open(settings_, address, encryption_.get());
  if (!connection && connection.error().code() != Errc::out_of_memory)
    note_lost(node, connection.error());
  return connection;
}

void Nodes::give_back(uint32_t node, std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  Node& n = nodes_[node];
  n.delay = {};
  n.away_until = {};
  n.idle.push_back(std::move(connection));
}

void Nodes::drop_idle(uint32_t node) {
  std::vector<std::unique_ptr<Connection>> dropped;
  const std::lock_guard lock(mutex_);
  dropped.swap(nodes_[node].idle);
  ++losses_;
}

void Nodes::note_lost(uint32_t node, const Status& why) {
  drop_idle(node);
  const std::lock_guard lock(mutex_);
  Node& n = nodes_[node];
  n.why = why;
  const Clock::time_point now = Clock::now();
  if (now < n.away_until) return;  // another thread has noticed it, too
  n.delay = n.delay.count() == 0 ? first_delay : std::min(2 * n.delay, last_delay);
  n.away_until = now + n.delay;
}

bool Nodes::is_away(uint32_t node) const {
  const std::lock_guard lock(mutex_);
  return nodes_[node].idle.empty() && Clock::now() < nodes_[node].away_until;
}

bool Nodes::are_all_away() const {
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  return std::all_of(nodes_.begin(), nodes_.end(),
                     [&](const Node& n) { return n.idle.empty() && now < n.away_until; });
}

}  // namespace folio::inline v1::tier::redis
