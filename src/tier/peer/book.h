// SPDX-License-Identifier: Apache-2.0
/// tier/peer/book.h: what every transport keeps book of: regions, peers, transfers, messages, and
/// what is to be done next.
///
/// The public calls (folio/tier/transport.h) check what they are given, change the books and put a
/// `Command` for the wire; the wire tells what became of it. A region is *pinned* while a transfer
/// touches it, of this end or of a peer.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/tier/transport.h"
#include "tier/peer/address.h"

namespace folio::inline v1::tier {

struct TransferRecord {
  TransferId id;
  TransferDirection direction = TransferDirection::write;
  PeerId peer;
  std::vector<RegionRun> local = {}, remote = {};
  std::vector<Extent> memory = {};  ///< of the local runs
  std::vector<std::byte> message = {};
  int64_t bytes = 0;
  TransferState state = TransferState::pending;
  bool is_released = false;
};

/// Something for the wire to do.
struct Command {
  enum class Kind : uint8_t { connect, refresh, disconnect, post, cancel, send };
  Kind kind = Kind::connect;
  PeerId peer = {};
  TransferId transfer = {};
  std::vector<std::byte> bytes = {};
};

class Book {
 public:
  using Clock = std::chrono::steady_clock;
  Book(const TransportOptions& options, WireKind kind, const EndId& end)
      : options_(options), kind_(kind), end_(end) {}

  // Of the public calls: see there. Those that allocate throw bad_alloc, nothing changed then.
  [[nodiscard]] Result<RegionId> add_region(std::span<std::byte> memory);
  [[nodiscard]] Status remove_region(RegionId region);
  [[nodiscard]] Address address(std::vector<std::byte> endpoint) const;
  [[nodiscard]] Result<PeerId> connect(std::span<const std::byte> address);
  [[nodiscard]] Status disconnect(PeerId peer);
  [[nodiscard]] Result<PeerState> peer_state(PeerId peer) const;
  [[nodiscard]] Result<TransferId> post(const TransferRequest& request);
  [[nodiscard]] Result<TransferState> poll(TransferId transfer) const;
  [[nodiscard]] Status cancel(TransferId transfer);
  [[nodiscard]] Status release(TransferId transfer);
  [[nodiscard]] Status send(PeerId peer, std::span<const std::byte> message);
  [[nodiscard]] size_t receive(std::span<PeerMessage> messages) noexcept;
  [[nodiscard]] Status last_fault() const;

  // Of the thread that does the work.
  /// The oldest one.
  [[nodiscard]] std::optional<Command> next_command() noexcept;
  /// Null for a transfer that has ended.
  [[nodiscard]] const TransferRecord* find(TransferId transfer) noexcept;
  void ended(TransferId transfer, TransferState state, const Status& why = {}) noexcept;
  void connected(PeerId peer) noexcept;
  void lost(PeerId peer, const Status& why) noexcept;
  /// An end that has connected: its peer id, which it may have already. Errors: as `connect`
  [[nodiscard]] Result<PeerId> accepted(std::span<const std::byte> address) noexcept;
  /// Something came from there.
  void heard(PeerId peer) noexcept;
  /// A message came. Errors: busy where there is no room for it; out_of_memory
  [[nodiscard]] Status arrived(PeerId peer, std::span<const std::byte> message) noexcept;
  void left(PeerId peer, int64_t message_bytes) noexcept;
  /// The memory of runs that a peer names, pinned. Errors, no memory pinned then: invalid_argument
  /// for runs outside of regions; io for a peer that has been disconnected; out_of_memory
  [[nodiscard]] Status pin(PeerId peer, std::span<const RegionRun> runs,
                           std::vector<Extent>* memory) noexcept;
  void unpin(std::span<const RegionRun> runs) noexcept;
  /// A peer that owes something and has been silent for too long.
  [[nodiscard]] std::optional<PeerId> overdue() noexcept;

  [[nodiscard]] const TransportOptions& options() const noexcept { return options_; }
  [[nodiscard]] const EndId& end() const noexcept { return end_; }

 private:
  struct Region {
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t pins = 0;
  };
  struct Peer {
    PeerState state = PeerState::connecting;
    EndId end = {};
    std::map<RegionId, int64_t> regions;
    bool is_accepted = false;  ///< it came by itself, and goes so when it is lost
    int64_t pending = 0;       ///< transfers
    Clock::time_point heard;
  };

  // The books are locked.
  [[nodiscard]] Result<PeerId> enter(Address address, PeerState state);
  [[nodiscard]] bool make_room_for_peer() noexcept;
  [[nodiscard]] Status check_peer(const char* call, PeerId peer, std::string_view purpose) const;
  [[nodiscard]] Status check(const TransferRequest& request) const;
  [[nodiscard]] Result<int64_t> check_runs(const char* side, std::span<const RegionRun> runs,
                                           const std::map<RegionId, int64_t>* remote) const;
  [[nodiscard]] int64_t bytes_of(RegionId region) const noexcept;
  void fault(const Status& why) noexcept;
  // They are not.
  void announce() const noexcept;

  const TransportOptions options_;
  const WireKind kind_;
  const EndId end_;
  mutable std::mutex mutex_;
  std::map<RegionId, Region> regions_;
  std::map<PeerId, Peer> peers_;
  std::map<TransferId, TransferRecord> transfers_;
  std::deque<Command> commands_;
  std::list<PeerMessage> inbox_;
  int64_t inbox_bytes_ = 0, outgoing_bytes_ = 0;
  uint32_t next_region_ = 1, next_peer_ = 1;
  uint64_t next_transfer_ = 1;
  Status last_fault_;
};

[[nodiscard]] Status check_options(const TransportOptions& options) noexcept;

}  // namespace folio::inline v1::tier
