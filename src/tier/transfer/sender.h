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
    tier::Geometry geometry = {};
    bool is_direct = false;
    std::vector<tier::Place> places = {};
    tier::StagingPlace staging = {};
    tier::HeadRange heads = {};
  };
  /// A page that is written from.
  struct Page {
    IoPin pin = {};
    uint32_t page = 0;
    bool is_held = false;
    int32_t open_layers = 0;  ///< that have not landed
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
    std::vector<int32_t> next = {};  ///< by layer: the page to post
    int32_t first_page = 0, end_page = 0;
    std::vector<Page> pages = {};             ///< from first_page on
    std::vector<uint32_t> remote_pages = {};  ///< if direct: the same
    std::vector<uint32_t> slots = {};         ///< that may be written to
    uint32_t wanted_slots = 0, got_slots = 0;
    int32_t posts = 0;
    int64_t open_pieces = 0;  ///< that have not landed
    int64_t heard_ms = 0;
    HandoverEnd end = {};  ///< when ending
  };
  struct Post {
    TransferId transfer = {};
    uint64_t id = 0;  ///< of its handover
    tier::Landed landed = {};
    int64_t bytes = 0;
  };

  HandoverSenderOptions options;
  std::vector<KVPlanes> planes = {};
  std::vector<TransferRegion> regions = {};
  tier::Geometry geometry = {};
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

  State(const HandoverSenderOptions& given, const tier::Geometry& own,
        std::vector<tier::Place> own_places)
      : options(given),
        planes(given.end.planes.begin(), given.end.planes.end()),
        regions(given.end.regions.begin(), given.end.regions.end()),
        geometry(own),
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
  void take(uint64_t id, Outgoing& h, tier::Accept& accept);
  void take(uint64_t id, Outgoing& h, const tier::Slots& slots);
  void take(uint64_t id, Outgoing& h, const tier::Abort& abort);
  void take(uint64_t id, Outgoing& h, const tier::Committed& committed);
  template <class Message>
  void take_for(PeerId peer, std::span<const std::byte> bytes);

  // Writes.
  void poll_posts();
  void landed(const Post& post, Outgoing& h);
  void advance(uint64_t id, Outgoing& h);
  [[nodiscard]] bool is_ready(const Outgoing& h, size_t layer) const;
  [[nodiscard]] int32_t tokens_of(const Outgoing& h, int32_t page) const;
  [[nodiscard]] int64_t ready_pieces(const Outgoing& h) const;
  enum class Posted : uint8_t { yes, not_now };
  Posted post_layer(uint64_t id, Outgoing& h, size_t layer);
  [[nodiscard]] bool hold(Outgoing& h, int32_t page);
  int64_t add_piece(const Link& link, const Outgoing& h, size_t layer, tier::LandedPiece& piece,
                    std::vector<RegionRun>& local, std::vector<RegionRun>& remote);
  void want_slots(uint64_t id, Outgoing& h);
  void send_done(uint64_t id, Outgoing& h);

  // Ends.
  void end(uint64_t id, Outgoing& h, HandoverOutcome outcome, Status reason);
  void check_deadline(uint64_t id, Outgoing& h);
  /// Of what could not be sent.
  [[nodiscard]] HandoverOutcome failure_of(PeerId peer) const;
  void check_peers();
  void remove_ended();
};

}  // namespace folio::inline v1::tier
