// SPDX-License-Identifier: Apache-2.0
/// folio/tier/transport.h: moves runs of bytes between memory of this process and of others, and
/// messages with them.
///
/// Memory is registered once, as *regions*. An *address* is bytes that one end hands to another by
/// whatever way they have; it describes the end and its regions at that time. Who has it connects,
/// and the other side then knows this end as well, by the regions it had when it connected.
/// A *transfer* writes local runs to a peer's regions or reads from there: run behind run on either
/// side, whose cuts need not agree. Nothing blocks; what has been asked for is seen by `poll`.
///
/// A peer is *connecting*, *connected*, then *lost*: its process has ended, what lies between has
/// failed, or it has not answered for `TransportOptions::timeout_ms`. All its transfers end then.
/// A transfer's bytes are touched until it has ended, and never after.
///
/// Threads: any thread may call anything. Regions' memory must stay until `remove_region` or the
/// end of the transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1::tier {

/// Numbers that a transport gives, never twice and never 0.
struct RegionId {
  uint32_t value = 0;
  auto operator<=>(const RegionId&) const = default;
};
struct PeerId {
  uint32_t value = 0;
  auto operator<=>(const PeerId&) const = default;
};
struct TransferId {
  uint64_t value = 0;
  auto operator<=>(const TransferId&) const = default;
};

/// Bytes of a region: [offset, offset + bytes).
struct RegionRun {
  RegionId region;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const RegionRun&) const = default;
};

enum class TransferDirection : uint8_t {
  write = 0,  ///< from local runs to the peer's
  read = 1,   ///< from the peer's runs to local ones
};

struct TransferRequest {
  TransferDirection direction = TransferDirection::write;
  PeerId peer;
  std::span<const RegionRun> local = {};   ///< copied, as all of these
  std::span<const RegionRun> remote = {};  ///< as many bytes as the local ones; the peer's regions
  /// The peer receives it when all bytes of a write are visible there, or all bytes of a read have
  /// been read; not at all if the transfer does not become done. None: no message.
  std::span<const std::byte> message = {};
};

enum class TransferState : uint8_t {
  pending = 0,
  done = 1,       ///< all bytes are where they are to be, visible to whoever owns the memory
  failed = 2,     ///< any of the bytes may be there; `Transport::last_fault` says why
  cancelled = 3,  ///< the same, as the caller wished
};
FOLIO_EXPORT const char* name(TransferState state) noexcept;

enum class PeerState : uint8_t { connecting = 0, connected = 1, lost = 2 };
FOLIO_EXPORT const char* name(PeerState state) noexcept;

struct PeerMessage {
  PeerId peer;
  std::vector<std::byte> bytes;
};

struct TransportOptions {
  uint32_t max_peers = 256;
  uint32_t max_transfers = 1 << 12;  ///< that are not released
  uint32_t max_runs = 1 << 16;       ///< of a transfer, on either side
  int64_t max_message_bytes = int64_t{1} << 20;
  /// Of messages that have not left for their peers, and, apart, of those that are not received: a
  /// peer that sends more is lost
  int64_t max_queued_bytes = int64_t{64} << 20;
  /// A peer that owes an answer and is silent for so long is lost
  int64_t timeout_ms = 10'000;
  /// Is called when a transfer has ended, a message waits or a peer is lost, by a thread of the
  /// transport: it may note that, and no more
  void (*on_event)(void* context) noexcept = nullptr;
  void* context = nullptr;
};

class FOLIO_EXPORT Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// Ends all transfers; to its peers this end is lost.
  virtual ~Transport() = default;

  /// The memory must stay until the region is removed or the transport is gone: peers write to it.
  /// May take as long as the system needs to register memory. Errors: invalid_argument for no
  /// bytes, or bytes that another region has; out_of_memory; io where the system refuses
  [[nodiscard]] virtual Result<RegionId> add_region(std::span<std::byte> memory) noexcept = 0;
  /// From then on no peer can touch it. Errors: invalid_argument for an id that is not a region's;
  /// busy while a transfer touches it, ours or a peer's
  [[nodiscard]] virtual Status remove_region(RegionId region) noexcept = 0;

  /// What a peer connects with: a version, a checksum, this end, the regions there are now.
  [[nodiscard]] virtual Result<std::vector<std::byte>> address() const noexcept = 0;
  /// The peer is connecting. A later address of a peer that is not lost brings its regions up to
  /// date and gives the same id. Errors: invalid_argument for bytes that are cut, damaged, of
  /// another kind of transport or of this end itself; unsupported for those of another version;
  /// busy for more than max_peers; out_of_memory
  [[nodiscard]] virtual Result<PeerId> connect(std::span<const std::byte> address) noexcept = 0;
  /// Its transfers end as failed, and its id is gone. It begins nothing here any more; what it had
  /// begun may move bytes for a moment yet, and keeps regions from being removed. Errors:
  /// invalid_argument for an id that is not a peer's
  [[nodiscard]] virtual Status disconnect(PeerId peer) noexcept = 0;
  /// Errors: invalid_argument for an id that is not a peer's
  [[nodiscard]] virtual Result<PeerState> peer_state(PeerId peer) const noexcept = 0;

  /// Transfers have no order among themselves. Errors, nothing posted then: invalid_argument for
  /// ids that are not a peer's or region's, runs outside of regions or without bytes, no runs, more
  /// than max_runs, sums of bytes that differ, runs to be written that share bytes, a message of
  /// more than max_message_bytes; busy for more than max_transfers or max_queued_bytes; io for a
  /// peer that is lost; out_of_memory
  [[nodiscard]] virtual Result<TransferId> post(const TransferRequest& request) noexcept = 0;
  /// The same once more for a transfer that has ended, until it is released. Errors:
  /// invalid_argument for an id that is not a transfer's, or one that has been released
  [[nodiscard]] virtual Result<TransferState> poll(TransferId transfer) noexcept = 0;
  /// It ends soon: as cancelled, unless it became something else before. Errors: as `poll`
  [[nodiscard]] virtual Status cancel(TransferId transfer) noexcept = 0;
  /// Its id is gone. One that is pending is cancelled, and its regions cannot be removed before it
  /// has ended. Errors: as `poll`
  [[nodiscard]] virtual Status release(TransferId transfer) noexcept = 0;

  /// Messages to one peer arrive in the order of these calls, once, or the peer is lost. Errors:
  /// invalid_argument for an id that is not a peer's, no bytes, or more than max_message_bytes;
  /// busy beyond max_queued_bytes; io for a peer that is lost; out_of_memory
  [[nodiscard]] virtual Status send(PeerId peer, std::span<const std::byte> message) noexcept = 0;
  /// Moves messages out, in the order in which they came; returns how many.
  [[nodiscard]] virtual size_t receive(std::span<PeerMessage> messages) noexcept = 0;

  /// Why a transfer failed or a peer was lost, the latest; ok before the first one.
  [[nodiscard]] virtual Status last_fault() const noexcept = 0;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::name;
using tier::PeerId;
using tier::PeerMessage;
using tier::PeerState;
using tier::RegionId;
using tier::RegionRun;
using tier::TransferDirection;
using tier::TransferId;
using tier::TransferRequest;
using tier::TransferState;
using tier::Transport;
using tier::TransportOptions;
}  // namespace folio::inline v1
