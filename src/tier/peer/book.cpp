// SPDX-License-Identifier: Apache-2.0
/// tier/peer/book.cpp: the public calls; what the wire tells is in book_events.cpp.
#include "tier/peer/book.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

namespace folio::inline v1::tier {

// ---- Regions

Result<RegionId> Book::add_region(std::span<std::byte> memory) {
  if (memory.data() == nullptr || memory.empty())
    return fail(Errc::invalid_argument,
                "Transport::add_region: memory is {} with {} bytes, expected 1 or more",
                memory.data() == nullptr ? "null" : "there", memory.size());
  if (memory.size() > UINTPTR_MAX - reinterpret_cast<uintptr_t>(memory.data()))
    return fail(Errc::invalid_argument,
                "Transport::add_region: memory has {} bytes, expected none behind the last address",
                memory.size());
  const std::lock_guard lock(mutex_);
  const std::less<const std::byte*> before;
  for (const auto& [id, region] : regions_) {
    if (before(region.data, memory.data() + memory.size()) &&
        before(memory.data(), region.data + region.bytes))
      return fail(Errc::invalid_argument,
                  "Transport::add_region: memory shares bytes with region {}", id.value);
  }
  const RegionId id{next_region_};
  regions_[id] = {.data = memory.data(), .bytes = static_cast<int64_t>(memory.size())};
  ++next_region_;
  return id;
}

Status Book::remove_region(RegionId region) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(region);
  if (found == regions_.end())
    return fail(Errc::invalid_argument,
                "Transport::remove_region: region is {}, expected the id of one", region.value);
  if (found->second.pins > 0)
    return fail(Errc::busy, "Transport::remove_region: {} transfers touch region {}",
                found->second.pins, region.value);
  regions_.erase(found);
  return {};
}

// ---- Peers

Address Book::address(std::vector<std::byte> endpoint) const {
  const std::lock_guard lock(mutex_);
  Address address{.kind = kind_, .end = end_, .regions = {}, .endpoint = std::move(endpoint)};
  for (const auto& [id, region] : regions_) address.regions[id] = region.bytes;
  return address;
}

bool Book::make_room_for_peer() noexcept {
  if (peers_.size() < options_.max_peers) return true;
  const auto gone = std::find_if(peers_.begin(), peers_.end(), [](const auto& peer) {
    return peer.second.is_accepted && peer.second.state == PeerState::lost;
  });
  if (gone == peers_.end()) return false;
  peers_.erase(gone);
  return true;
}

Result<PeerId> Book::enter(Address address, PeerState state) {
  if (!make_room_for_peer())
    return fail(Errc::busy, "Transport::connect: there are {} peers, expected at most {}",
                peers_.size(), options_.max_peers);
  const PeerId id{next_peer_};
  Peer& peer = peers_[id];
  peer.state = state;
  peer.end = address.end;
  peer.regions = std::move(address.regions);
  peer.heard = Clock::now();
  ++next_peer_;
  return id;
}

Result<PeerId> Book::connect(std::span<const std::byte> address) {
  auto read = decode_address(address, kind_);
  if (!read) return read.error();
  if (read->end == end_)
    return fail(Errc::invalid_argument,
                "Transport::connect: address is of this end, expected another one's");
  std::vector<std::byte> endpoint = std::move(read->endpoint);
  const std::lock_guard lock(mutex_);
  for (auto& [id, peer] : peers_) {
    if (peer.end != read->end || peer.state == PeerState::lost) continue;
    commands_.push_back({.kind = Command::Kind::refresh, .peer = id, .bytes = std::move(endpoint)});
    peer.regions = std::move(read->regions);
    return id;
  }
  const auto id = enter(std::move(*read), PeerState::connecting);
  if (!id) return id.error();
  commands_.push_back({.kind = Command::Kind::connect, .peer = *id, .bytes = std::move(endpoint)});
  return *id;
}

Status Book::disconnect(PeerId peer) {
  const std::lock_guard lock(mutex_);
  if (Status s = check_peer("disconnect", peer, "end"); !s.is_ok()) return s;
  commands_.push_back({.kind = Command::Kind::disconnect, .peer = peer});
  peers_.erase(peer);
  return {};
}

Result<PeerState> Book::peer_state(PeerId peer) const {
  const std::lock_guard lock(mutex_);
  if (Status s = check_peer("peer_state", peer, "look"); !s.is_ok()) return s;
  return peers_.at(peer).state;
}

// ---- Transfers

Result<TransferId> Book::post(const TransferRequest& request) {
  const std::lock_guard lock(mutex_);
  if (Status s = check(request); !s.is_ok()) return s;
  const auto message_bytes = static_cast<int64_t>(request.message.size());
  if (transfers_.size() >= options_.max_transfers ||
      message_bytes > options_.max_queued_bytes - outgoing_bytes_)
    return fail(Errc::busy,
                "Transport::post: {} transfers are not released and {} bytes of messages wait, "
                "expected less than {} and {}",
                transfers_.size(), outgoing_bytes_, options_.max_transfers,
                options_.max_queued_bytes);
  const TransferId id{next_transfer_};
  TransferRecord record{.id = id, .direction = request.direction, .peer = request.peer};
  record.local.assign(request.local.begin(), request.local.end());
  record.remote.assign(request.remote.begin(), request.remote.end());
  record.message.assign(request.message.begin(), request.message.end());
  for (const RegionRun& run : request.local) {
    record.memory.push_back({regions_.at(run.region).data + run.offset, run.bytes});
    record.bytes += run.bytes;
  }
  commands_.push_back({.kind = Command::Kind::post, .peer = request.peer, .transfer = id});
  try {
    transfers_.emplace(id, std::move(record));
  } catch (...) {
    commands_.pop_back();
    throw;
  }
  ++next_transfer_;
  for (const RegionRun& run : request.local) ++regions_.at(run.region).pins;
  outgoing_bytes_ += message_bytes;
  Peer& peer = peers_.at(request.peer);
  if (peer.pending++ == 0) peer.heard = Clock::now();
  return id;
}

Result<TransferState> Book::poll(TransferId transfer) const {
  const std::lock_guard lock(mutex_);
  const auto found = transfers_.find(transfer);
  if (found == transfers_.end() || found->second.is_released)
    return fail(Errc::invalid_argument, "Transport::poll: transfer is {}, expected the id of one",
                transfer.value);
  return found->second.state;
}

Status Book::cancel(TransferId transfer) {
  const std::lock_guard lock(mutex_);
  const auto found = transfers_.find(transfer);
  if (found == transfers_.end() || found->second.is_released)
    return fail(Errc::invalid_argument, "Transport::cancel: transfer is {}, expected the id of one",
                transfer.value);
  if (found->second.state == TransferState::pending)
    commands_.push_back({.kind = Command::Kind::cancel, .transfer = transfer});
  return {};
}

Status Book::release(TransferId transfer) {
  const std::lock_guard lock(mutex_);
  const auto found = transfers_.find(transfer);
  if (found == transfers_.end() || found->second.is_released)
    return fail(Errc::invalid_argument,
                "Transport::release: transfer is {}, expected the id of one", transfer.value);
  if (found->second.state != TransferState::pending) {
    transfers_.erase(found);
    return {};
  }
  commands_.push_back({.kind = Command::Kind::cancel, .transfer = transfer});
  found->second.is_released = true;
  return {};
}

// ---- Messages

Status Book::send(PeerId peer, std::span<const std::byte> message) {
  const std::lock_guard lock(mutex_);
  if (Status s = check_peer("send", peer, "use"); !s.is_ok()) return s;
  const auto bytes = static_cast<int64_t>(message.size());
  if (message.data() == nullptr || bytes < 1 || bytes > options_.max_message_bytes)
    return fail(Errc::invalid_argument, "Transport::send: message has {} bytes, expected 1 .. {}",
                bytes, options_.max_message_bytes);
  if (bytes > options_.max_queued_bytes - outgoing_bytes_)
    return fail(Errc::busy,
                "Transport::send: message has {} bytes and {} wait, expected at most {} in all",
                bytes, outgoing_bytes_, options_.max_queued_bytes);
  commands_.push_back({.kind = Command::Kind::send,
                       .peer = peer,
                       .bytes = std::vector<std::byte>(message.begin(), message.end())});
  outgoing_bytes_ += bytes;
  return {};
}

size_t Book::receive(std::span<PeerMessage> messages) noexcept {
  if (messages.data() == nullptr) return 0;
  const std::lock_guard lock(mutex_);
  size_t count = 0;
  while (count < messages.size() && !inbox_.empty()) {
    inbox_bytes_ -= static_cast<int64_t>(inbox_.front().bytes.size());
    messages[count++] = std::move(inbox_.front());
    inbox_.pop_front();
  }
  return count;
}

Status Book::last_fault() const {
  const std::lock_guard lock(mutex_);
  return last_fault_;
}

}  // namespace folio::inline v1::tier
