// SPDX-License-Identifier: Apache-2.0
/// tier/peer/book_events.cpp: what wires tell.
#include <new>
#include <utility>

#include "tier/peer/book.h"

namespace folio::inline v1::tier {

void Book::announce() const noexcept {
  if (options_.on_event != nullptr) options_.on_event(options_.context);
}

void Book::fault(const Status& why) noexcept {
  if (!why.is_ok()) last_fault_ = why;
}

std::optional<Command> Book::next_command() noexcept {
  const std::lock_guard lock(mutex_);
  if (commands_.empty()) return std::nullopt;
  Command command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

// ---- Transfers

const TransferRecord* Book::find(TransferId transfer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = transfers_.find(transfer);
  return found != transfers_.end() && found->second.state == TransferState::pending ? &found->second
                                                                                    : nullptr;
}

void Book::ended(TransferId transfer, TransferState state, const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = transfers_.find(transfer);
    if (found == transfers_.end() || found->second.state != TransferState::pending) return;
    TransferRecord& record = found->second;
    for (const RegionRun& run : record.local) --regions_.at(run.region).pins;
    outgoing_bytes_ -= static_cast<int64_t>(record.message.size());
    if (const auto peer = peers_.find(record.peer); peer != peers_.end()) --peer->second.pending;
    if (state == TransferState::failed) fault(why);
    if (record.is_released) {
      transfers_.erase(found);
    } else {  // what it was made of is no longer needed
      record = {.id = transfer, .peer = record.peer, .state = state};
    }
  }
  announce();
}

// ---- Peers

void Book::connected(PeerId peer) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.state == PeerState::lost) return;
  found->second.state = PeerState::connected;
  found->second.heard = Clock::now();
}

void Book::lost(PeerId peer, const Status& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    const auto found = peers_.find(peer);
    if (found == peers_.end() || found->second.state == PeerState::lost) return;
    found->second.state = PeerState::lost;
    fault(why);
  }
  announce();
}

Result<PeerId> Book::accepted(std::span<const std::byte> address) noexcept {
  try {
    auto read = decode_address(address, kind_);
    if (!read) return read.error();
    if (read->end == end_)
      return fail(Errc::invalid_argument, "Transport: an end that claims to be this one connects");
    const std::lock_guard lock(mutex_);
    for (auto& [id, peer] : peers_) {
      if (peer.end != read->end || peer.state == PeerState::lost) continue;
      peer.regions = std::move(read->regions);
      return id;
    }
    auto id = enter(std::move(*read), PeerState::connected);
    if (id) peers_.at(*id).is_accepted = true;
    return id;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport: no memory for another peer");
  }
}

void Book::heard(PeerId peer) noexcept {
  const std::lock_guard lock(mutex_);
  if (const auto found = peers_.find(peer); found != peers_.end())
    found->second.heard = Clock::now();
}

std::optional<PeerId> Book::overdue() noexcept {
  const std::lock_guard lock(mutex_);
  const auto since = Clock::now() - std::chrono::milliseconds(options_.timeout_ms);
  for (const auto& [id, peer] : peers_) {
    const bool owes = peer.state == PeerState::connecting ||
                      (peer.state == PeerState::connected && peer.pending > 0);
    if (owes && peer.heard < since) return id;
  }
  return std::nullopt;
}

// ---- Messages

Status Book::arrived(PeerId peer, std::span<const std::byte> message) noexcept {
  const auto bytes = static_cast<int64_t>(message.size());
  try {
    std::list<PeerMessage> one(1);
    one.front() = {peer, std::vector<std::byte>(message.begin(), message.end())};
    const std::lock_guard lock(mutex_);
    if (!peers_.contains(peer)) return {};
    if (bytes > options_.max_queued_bytes - inbox_bytes_)
      return fail(Errc::busy,
                  "Transport: peer {} sends {} bytes, but {} wait to be received, expected at most "
                  "{} in all",
                  peer.value, bytes, inbox_bytes_, options_.max_queued_bytes);
    inbox_bytes_ += bytes;
    inbox_.splice(inbox_.end(), one);
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport: no memory for a message of {} bytes", bytes);
  }
  announce();
  return {};
}

void Book::left(PeerId, int64_t message_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  outgoing_bytes_ -= message_bytes;
}

// ---- Memory that peers name

Status Book::pin(PeerId peer, std::span<const RegionRun> runs,
                 std::vector<Extent>* memory) noexcept {
  const std::lock_guard lock(mutex_);
  if (!peers_.contains(peer))
    return fail(Errc::io, "Transport: peer {} has been disconnected", peer.value);
  try {
    memory->clear();
    memory->reserve(runs.size());
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport: no memory for {} runs", runs.size());
  }
  for (const RegionRun& run : runs) {
    const int64_t bytes = bytes_of(run.region);
    if (run.bytes < 1 || run.offset < 0 || run.offset > bytes || run.bytes > bytes - run.offset)
      return fail(Errc::invalid_argument,
                  "Transport: a peer names {} bytes at {} of region {}, which has {}", run.bytes,
                  run.offset, run.region.value, bytes);
    memory->push_back({regions_.at(run.region).data + run.offset, run.bytes});
  }
  for (const RegionRun& run : runs) ++regions_.at(run.region).pins;
  return {};
}

void Book::unpin(std::span<const RegionRun> runs) noexcept {
  const std::lock_guard lock(mutex_);
  for (const RegionRun& run : runs)
    if (const auto found = regions_.find(run.region); found != regions_.end()) --found->second.pins;
}

}  // namespace folio::inline v1::tier
