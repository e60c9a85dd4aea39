// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/sender.h: the state of a HandoverSender.
///
/// A handover is *announced* (its receiver has not answered), *accepted*, *done* (the last message
/// has gone, its receiver has not answered), then *ending* until no write of it is under way.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/transfer.h"
#include "tier/transfer/geometry.h"
#include "tier/transfer/outbox.h"
#include "tier/transfer/wire.h"

namespace folio::inline v1::tier {

struct HandoverSender::State {
  enum class Step : uint8_t { announced, accepted, done, ending };

  /// What is known of a receiver.
  struct Link {
    bool is_welcome = false;
    Status refusal = {};
    tier::Layout layout = {};
    tier::Bundles bundles = {};
    std::vector<tier::Place> places = {};
    tier::StagingPlace staging = {};
  };
  /// A page that is written from.
  struct Page {
    int32_t entry = 0;        ///< of the sequence's row
    uint32_t remote = 0;      ///< if direct: the receiver's
    int32_t open_layers = 0;  ///< that have not landed
    bool is_held = false;
    IoPin pin = {};
    uint32_t page = 0;
  };
  struct Outgoing {
    PeerId peer = {};
    SequenceId sequence = {};
    std::vector<TokenId> tokens = {};
    std::string salt = {};
    uint64_t adapter = 0;
    std::vector<ContentSpan> spans = {};
    std::vector<TokenId> output = {};
    Step step = Step::announced;
    bool is_finished = false;
    std::vector<int32_t> ready = {};  ///< by layer: tokens
    // From `accept` on.
    std::vector<size_t> next = {};              ///< by layer: the page of its bundle to post
    std::vector<std::vector<Page>> pages = {};  ///< by bundle, ascending
    /// bundles and pages of them that the pool gives up as the sequence goes on: held before
    std::vector<std::pair<size_t, size_t>> passing = {};
    std::vector<uint32_t> slots = {};  ///< that may be written to
    uint32_t wanted_slots = 0, got_slots = 0;
    int32_t posts = 0;
    int64_t pieces = 0, open_pieces = 0;  ///< in all, and those that have not landed
    int64_t heard_ms = 0;
    int64_t said_ms = 0;   ///< of its pieces, or that they are to come
    HandoverEnd end = {};  ///< when ending
  };
  struct Post {
    TransferId transfer = {};
    uint64_t id = 0;  ///< of its handover
    tier::Landed landed = {};
    int64_t bytes = 0;
  };

  HandoverSenderOptions options;
  std::vector<TransferRegion> regions = {};
  tier::Layout layout = {};
  std::vector<uint32_t> pool_group = {};  ///< by group: in whose pages its layers lie
  bool has_groups = false;                ///< speaks groups_version
  std::vector<tier::Place> places = {};
  Transport& transport;
  PagePool& pool;
  tier::Outbox outbox;
  std::map<PeerId, Link> links;
  std::map<uint64_t, Outgoing> handovers;
  std::list<Post> posts;
  std::deque<HandoverEnd> ends;
  uint64_t next_id = 1;
  int64_t now_ms = 0;
  bool is_timed = false;  ///< since the first `poll`
  HandoverSenderFigures figures = {};

  State(const HandoverSenderOptions& given, tier::EndPages own, std::vector<tier::Place> own_places)
      : options(given),
        regions(given.end.regions.begin(), given.end.regions.end()),
        layout(std::move(own.layout)),
        pool_group(std::move(own.pool_group)),
        has_groups(!given.end.groups.empty()),
        places(std::move(own_places)),
        transport(*given.end.transport),
        pool(*given.end.pool),
        outbox(transport) {}

  [[nodiscard]] Result<HandoverId> begin(PeerId peer, uint64_t request, SequenceId sequence,
                                         std::span<const TokenId> prompt,
                                         const SequenceOptions& options_of_sequence);
  [[nodiscard]] Outgoing* find(HandoverId id);
  void poll();

  // Messages.
  void receive();
  void take(const PeerMessage& message);
  void take(Link& link, const tier::Welcome& welcome);
  void take(Link& link, tier::WelcomeGroups& welcome);
  void take(uint64_t id, Outgoing& h, tier::Accept& accept);
  void take(uint64_t id, Outgoing& h, const tier::AcceptGroups& accept);
  void take(uint64_t id, Outgoing& h, const tier::Slots& slots);
  void take(uint64_t id, Outgoing& h, const tier::Abort& abort);
  void take(uint64_t id, Outgoing& h, const tier::Committed& committed);
  template <class Message>
  void take_for(PeerId peer, std::span<const std::byte> bytes);
  /// What the receiver asks for is one of what this end has.
  [[nodiscard]] const char* fault_of(const Outgoing& h, const tier::AcceptGroups& accept) const;
  void accept(Outgoing& h, const tier::AcceptGroups& accept);
  void refuse_accept(uint64_t id, Outgoing& h, const char* what);

  // Writes.
  void poll_posts();
  void landed(const Post& post, Outgoing& h);
  void advance(uint64_t id, Outgoing& h);
  [[nodiscard]] size_t num_layers() const { return layout.num_layers(); }
  /// The page of the layer's bundle.
  [[nodiscard]] bool is_ready(const Outgoing& h, size_t layer, const Page& page) const;
  [[nodiscard]] int64_t waiting_pieces(const Outgoing& h) const;
  enum class Posted : uint8_t { yes, not_now };
  Posted post_layer(uint64_t id, Outgoing& h, size_t layer);
  [[nodiscard]] bool hold(Outgoing& h, const tier::Bundle& bundle, Page& page);
  [[nodiscard]] Result<IoPin> pin(const Outgoing& h, const tier::Bundle& bundle, const Page& page);
  void hold_passing(Outgoing& h);
  int64_t add_piece(const Link& link, const Outgoing& h, size_t layer, const Page& page,
                    tier::LandedPiece& piece, std::vector<RegionRun>& local,
                    std::vector<RegionRun>& remote);
  void want_slots(uint64_t id, Outgoing& h);
  void send_done(uint64_t id, Outgoing& h);

  // Ends.
  void end(uint64_t id, Outgoing& h, HandoverOutcome outcome, Status reason);
  void check_deadline(uint64_t id, Outgoing& h);
  /// To a receiver that hears nothing while there is nothing to send.
  void say_computing(uint64_t id, Outgoing& h);
  /// Of what could not be sent.
  [[nodiscard]] HandoverOutcome failure_of(PeerId peer) const;
  void check_peers();
  void remove_ended();
};

}  // namespace folio::inline v1::tier
