// SPDX-License-Identifier: Apache-2.0
/// folio/tier/transfer.h: hands sequences from a process that prefills to one that decodes.
///
/// A *handover* is a sequence on its way. The sender announces it before prefill begins, the
/// receiver reserves pages for it and says what it has already; pages of a layer are written to the
/// receiver as soon as prefill has completed them, and the last message makes the receiver commit.
/// Until then no page there is findable: the receiver has whole sequences or nothing of them.
///
///   sender:    begin -> push (each layer of each chunk) -> finish, poll -> take_ends
///   receiver:  poll -> take; arriving, to begin with the first layers while others come
///
/// The two ends may differ in page size, element type, scales, zero points and rotation, of K and
/// of V, and each may have a part of the heads: what differs lands in *staging slots* of the
/// receiver and is copied from there (folio/cache/copy.h). Several senders that have a part of the
/// heads each, and name the same request, fill one sequence. What cannot be converted is refused,
/// before anything is sent, with the reason.
///
/// What all pages share does not go with them: tensor scales, channel scales, scales without a slot
/// stride. A sender's are to be the receiver's, of the same heads and beside rows of the same form:
/// the ends compare a CRC32C of the values, layer by layer. A receiver may have some of its own.
///
/// Of a hybrid model (folio/pool/groups.h) both ends give their groups. Full layers send all
/// tokens, windows and chunks what the token behind the prompt needs, in whole pages of the
/// receiver, and states the one behind the prompt. Ends may group layers in other ways, as long as
/// each layer has one rule on both.
///
/// Time is what `poll` is told, in milliseconds of a clock that does not go back.
/// Memory:        planes are those of host memory; regions' memory stays until the ends are gone.
/// Thread safety: one thread calls an end: the one that calls its pool. The messages of an end's
///                transport are that end's: nobody else receives from it.
/// Errors:        an end that was moved from refuses calls as invalid_argument, does nothing, and
///                has no figures.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/cache/planes.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/pool/page_pool.h"
#include "folio/tier/cache_manager.h"
#include "folio/tier/device_copies.h"
#include "folio/tier/transport.h"

namespace folio::inline v1::tier {

/// A region of the transport, and its memory.
struct TransferRegion {
  RegionId id;
  std::span<std::byte> memory = {};
};

/// A group of an end's pool.
struct GroupOfTransfer {
  /// Its layers, which are equal but for their places; each page in bytes of its own. A leading
  /// group of 0 bytes has none.
  GroupOfCache pages = {};
  int32_t first_head = 0;   ///< as TransferEnd's, of these layers; of states, heads of theirs
  int32_t total_heads = 0;  ///< 0: all are here
  /// Of states that have heads: a layer's state is these parts behind one another, each of all
  /// heads that are here, head by head; so many bytes for a head, >= 1; 1 .. 4 of them. None: a
  /// state is one head's
  std::span<const int64_t> state_parts = {};
  /// Of layers whose rows lie in the pages of another group and are others, as an index cache lies
  /// beside K and V: that group, which has planes. -1: the pool's group of this number
  int32_t on_pages_of = -1;
};

/// One end: where its pages are, and what they are of.
struct TransferEnd {
  Transport* transport = nullptr;
  PagePool* pool = nullptr;  ///< with max_io_pins; of one group, unless `groups` are given
  /// of all layers, which are equal but for their places; each page in bytes of its own. K's rows
  /// may be others than V's. Layers that differ are `groups`
  std::span<const KVPlanes> planes = {};
  /// in which the planes, scales and states lie; a receiver that is `Landing::staged` needs none
  std::span<const TransferRegion> regions = {};
  Digest256 model = {};     ///< stands for the model; equal on both ends
  int32_t first_head = 0;   ///< the planes' first KV head among those of the model
  int32_t total_heads = 0;  ///< KV heads of the model; 0: the planes have all of them
  /// names what tokens, salt and adapter are, alike on both ends, or none
  NameFunction name = {};
  /// A handover ends when nothing has been heard of it for so long, >= 1. A sender with groups that
  /// is polled lets its receiver hear of it each third of that; without, pages are to come as often
  int64_t idle_ms = 10'000;
  /// All of the pool's, the leading one first, then those on their pages, instead of planes and
  /// heads. Ends with groups meet ends with groups: one whose pool has a single group says that,
  /// too. Copied
  std::span<const GroupOfTransfer> groups = {};
  /// In whose memory the pages lie; null: in the host's. Another one is refused: nothing copies
  /// there yet
  std::shared_ptr<DeviceCopies> device = nullptr;
};

/// How a handover ended, for its sender.
enum class HandoverOutcome : uint8_t {
  done = 0,       ///< the receiver has committed it
  refused = 1,    ///< by the receiver, which will not take it another time
  busy = 2,       ///< by the receiver, for want of room: it may take it later
  cancelled = 3,  ///< by either end
  late = 4,       ///< idle for too long; where all had been sent, the receiver may have it
  lost = 5,       ///< the peer is gone
  failed = 6,     ///< bytes could not be written, or came damaged
};
inline constexpr int num_handover_outcomes = 7;
FOLIO_EXPORT const char* name(HandoverOutcome outcome) noexcept;

/// Of one sender, never given twice.
struct HandoverId {
  uint64_t value = 0;
  auto operator<=>(const HandoverId&) const = default;
};

struct HandoverEnd {
  HandoverId id;
  HandoverOutcome outcome = HandoverOutcome::done;
  Status reason = {};  ///< ok when done
};

struct HandoverSenderOptions {
  TransferEnd end = {};
  uint32_t max_handovers = 1024;          ///< that have not ended, >= 1
  uint32_t max_posts = 64;                ///< writes under way, >= 1
  int64_t post_bytes = int64_t{1} << 20;  ///< of a write, if more than one page
};

/// A *piece* is what one page has of one layer.
struct HandoverSenderFigures {
  int64_t begun = 0;
  int64_t ended[num_handover_outcomes] = {};
  int64_t sent_pieces = 0, sent_bytes = 0;
  int64_t skipped_tokens = 0;                          ///< that receivers had
  int64_t refused_messages = 0;                        ///< that no receiver sends
  int64_t late_messages = 0;                           ///< of handovers that have ended
  int64_t handovers = 0, posts = 0, pinned_pages = 0;  ///< now
};

class FOLIO_EXPORT HandoverSender {
 public:
  /// Errors: invalid_argument, naming the option; unsupported for planes whose layers differ, whose
  /// scales are of pages, or whose zero points stand elsewhere than `make_planes` has them, for K
  /// and V of unlike heads, and for pages in a device's memory; out_of_memory
  [[nodiscard]] static Result<HandoverSender> create(const HandoverSenderOptions& options) noexcept;
  HandoverSender(HandoverSender&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  HandoverSender& operator=(HandoverSender&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// Cancels what has not ended, and waits until no write reads the planes' memory.
  ~HandoverSender();

  /// Announces to `peer` the sequence that is to have the tokens `prompt`; those that it has
  /// already are complete in all layers. `request` stands for it at the receiver, `options` as for
  /// admit (retention is not told). Keep the sequence until the handover has ended: if it is gone
  /// before, the handover fails. With a group of states, let it not go on behind the prompt before:
  /// its last state would be another. With windows or chunks, `poll` between the push of tokens and
  /// the commit that passes them, when the receiver has accepted, or their pages may be gone, and
  /// it fails. Errors: invalid_argument for no tokens, fewer than the sequence has, a
  /// stale id, options that no pool takes; busy for max_handovers; unsupported for a peer that has
  /// refused this end; io for a peer that is lost
  [[nodiscard]] Result<HandoverId> begin(PeerId peer, uint64_t request, SequenceId sequence,
                                         std::span<const TokenId> prompt,
                                         const SequenceOptions& options = {}) noexcept;
  /// K/V of the tokens [first_token, first_token + count) are in the cache's layer `layer`, the
  /// model's number with groups; of states, the one behind these tokens, of which the prompt's last
  /// goes. They go when their page is full or the prompt's last; nothing waits. Errors:
  /// invalid_argument for a handover that has ended, a layer that is not one, or tokens that do not
  /// follow those that the layer has, or go beyond the prompt
  [[nodiscard]] Status push(HandoverId id, int32_t layer, int32_t first_token,
                            int32_t count) noexcept;
  /// All tokens that the layer has not.
  [[nodiscard]] Status push_layer(HandoverId id, int32_t layer) noexcept;
  /// All layers are complete; `output` are tokens without K/V behind the prompt, which the receiver
  /// goes on with. Errors: invalid_argument for a handover that has ended or has been finished, or
  /// layers that are not complete
  [[nodiscard]] Status finish(HandoverId id, std::span<const TokenId> output = {}) noexcept;
  /// Ends it soon, as cancelled. Nothing for one that has ended.
  void cancel(HandoverId id) noexcept;

  void poll(int64_t now_ms) noexcept;
  /// Moves ends out, in their order; returns how many.
  [[nodiscard]] size_t take_ends(std::span<HandoverEnd> ends) noexcept;
  [[nodiscard]] HandoverSenderFigures figures() const noexcept;

 private:
  struct State;
  explicit HandoverSender(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

/// Where a sender's bytes go.
enum class Landing : uint8_t {
  /// into the sequence's pages where they need no conversion, else into staging slots
  direct = 0,
  /// into staging slots: no peer has a way to pages
  staged = 1,
};

struct HandoverReceiverOptions {
  TransferEnd end = {};
  Landing landing = Landing::direct;
  uint32_t staging_slots = 64;  ///< for a piece each, 1 .. 2^20
  /// A sender whose pieces are larger is refused, but for states that go straight into pages; 0:
  /// four times what a piece of this end takes, or the largest state
  int64_t staging_slot_bytes = 0;
  Executor executor = {};        ///< converts; no functions: the calling thread
  uint32_t max_handovers = 256;  ///< that have not ended, >= 1
  int32_t max_tokens = 1 << 20;  ///< of a prompt, >= 1
  int64_t total_ms = 600'000;    ///< from a sequence's announcement to its end, >= 1
};

/// A sequence that has come: its pages hold `tokens`, and the pool has committed them.
struct ReceivedSequence {
  uint64_t request = 0;
  SequenceId id;
  std::vector<TokenId> tokens = {};
  std::vector<TokenId> output = {};  ///< as its sender finished it
  int32_t cached_tokens = 0;         ///< of `tokens`: did not have to come
};

/// A sequence that is coming. Its pages are reserved for `id` in the pool, which has not committed
/// its tokens.
struct ArrivingSequence {
  uint64_t request = 0;
  SequenceId id;                         ///< the receiver's: to be read, not to be changed
  std::span<const TokenId> tokens = {};  ///< until the receiver's next call that is not const
  int32_t cached_tokens = 0;
  /// Leading layers of the model whose K/V or states are in the pages, all that the token behind
  /// the prompt needs, of all heads, checked. Work that begins early is void, and to be done again,
  /// where the handover fails.
  int32_t layers_ready = 0;
};

struct HandoverReceiverFigures {
  int64_t announced = 0;  ///< by senders, as all below but `committed`
  int64_t accepted = 0, refused = 0, busy = 0;
  int64_t committed = 0;  ///< sequences
  int64_t failed = 0;     ///< accepted, and ended without commit
  int64_t direct_pieces = 0, staged_pieces = 0, bytes = 0;
  int64_t corrupt_pieces = 0;    ///< of another checksum than their sender's
  int64_t refused_messages = 0;  ///< that no sender sends: damaged, or out of all order
  int64_t late_messages = 0;     ///< of handovers that have ended, or of peers that are lost
  int64_t refused_peers = 0, lost_peers = 0;
  int64_t handovers = 0, sequences = 0, used_slots = 0, pinned_pages = 0;  ///< now
};

class FOLIO_EXPORT HandoverReceiver {
 public:
  /// Adds a region for the staging slots to the transport: before its address is handed out.
  /// Errors: as HandoverSender::create, and the transport's
  [[nodiscard]] static Result<HandoverReceiver> create(
      const HandoverReceiverOptions& options) noexcept;
  HandoverReceiver(HandoverReceiver&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  HandoverReceiver& operator=(HandoverReceiver&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// Disconnects the peers that have handovers here, and releases what has not been taken. While
  /// `figures().handovers` is not 0 a write may be under way that still reaches released pages: to
  /// use the pool further, end them by `cancel` and `poll`, or end the transport, before.
  ~HandoverReceiver();

  void poll(int64_t now_ms) noexcept;
  /// Moves sequences out, in the order in which they were committed; from then on they are the
  /// caller's. Returns how many.
  [[nodiscard]] size_t take(std::span<ReceivedSequence> sequences) noexcept;
  /// What is on its way, in the order of requests; returns how many.
  [[nodiscard]] size_t arriving(std::span<ArrivingSequence> sequences) const noexcept;
  /// Ends all handovers of a request; nothing if there is none.
  void cancel(uint64_t request) noexcept;
  [[nodiscard]] HandoverReceiverFigures figures() const noexcept;
  /// Why a peer or a handover was refused or failed, the latest; ok before the first one.
  [[nodiscard]] Status last_fault() const noexcept;

 private:
  struct State;
  explicit HandoverReceiver(State* state) noexcept : state_(state) {}
  State* state_ = nullptr;
};

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {  // flat names, for one release
using tier::ArrivingSequence;
using tier::HandoverEnd;
using tier::HandoverId;
using tier::HandoverOutcome;
using tier::HandoverReceiver;
using tier::HandoverReceiverFigures;
using tier::HandoverReceiverOptions;
using tier::HandoverSender;
using tier::HandoverSenderFigures;
using tier::HandoverSenderOptions;
using tier::Landing;
using tier::name;
using tier::num_handover_outcomes;
using tier::ReceivedSequence;
using tier::TransferEnd;
using tier::TransferRegion;
}  // namespace folio::inline v1
