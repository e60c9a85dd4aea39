// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver.h: the state of a HandoverReceiver.
///
/// An *incoming* sequence has *parts*: a handover each, of one sender. A part is *filling*, *done*
/// (its last message has come), and gone when the sequence is committed. Where a sequence fails, it
/// is released at once, and its parts are *fencing* until their senders say that no write is under
/// way, or the transport says that they are lost. A sender that says neither is disconnected, and
/// its parts are *cut off* for as long again, for a write that the transport ends just now. Pages
/// and slots that a part may write to belong to it until it is gone.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/transfer.h"
#include "tier/transfer/geometry.h"
#include "tier/transfer/outbox.h"
#include "tier/transfer/staging.h"
#include "tier/transfer/wire.h"

namespace folio::inline v1::tier {

struct HandoverReceiver::State {
  enum class Step : uint8_t { filling, done, fencing, cut_off };

  /// Pages that parts write to.
  struct Pins {
    explicit Pins(PagePool& of) : pool(of) {}
    Pins(const Pins&) = delete;
    Pins& operator=(const Pins&) = delete;
    ~Pins() {
      for (const IoPin pin : pins) static_cast<void>(pool.end_io(pin));
    }
    PagePool& pool;
    std::vector<IoPin> pins = {};
  };
  /// A sender that has said hello.
  struct Peer {
    bool is_refused = false;
    bool is_known = false;  ///< has said what its layers are like
    tier::Layout layout = {};
    tier::Bundles bundles = {};
    uint64_t last_id = 0;  ///< that it announced
  };
  using PartId = std::pair<PeerId, uint64_t>;
  struct Part {
    uint64_t request = 0;
    Step step = Step::filling;
    std::shared_ptr<Pins> pins = {};                 ///< if direct
    std::vector<std::vector<int32_t>> entries = {};  ///< by bundle: of the sender's row, ascending
    std::vector<std::vector<bool>> has_landed = {};  ///< by layer, as the entries of its bundle
    std::vector<size_t> landed = {};                 ///< pieces, by layer
    int64_t pieces = 0, open_pieces = 0;
    uint32_t wanted_slots = 0, got_slots = 0;
    std::set<uint32_t> slots = {};  ///< that it may write to
    int64_t heard_ms = 0;           ///< fencing and cut off: since then
  };
  struct Incoming {
    SequenceId id = {};
    std::vector<TokenId> tokens = {};
    std::string salt = {};
    uint64_t adapter = 0;
    std::vector<ContentSpan> spans = {};
    int32_t cached_tokens = 0;
    std::vector<tier::TokenRun> runs = {};          ///< to be filled
    std::vector<std::vector<uint32_t>> pages = {};  ///< by group and entry; no_page: not to fill
    std::weak_ptr<Pins> pins = {};
    std::vector<TokenId> output = {};
    std::vector<PartId> parts = {};
    int64_t begun_ms = 0, heard_ms = 0;
  };

  static constexpr uint32_t no_page = 0xffffffffU;

  HandoverReceiverOptions options;
  std::vector<TransferRegion> regions = {};
  tier::EndPages own;
  bool has_groups = false;               ///< speaks groups_version
  std::vector<tier::Place> places = {};  ///< unless all is staged
  tier::Staging staging;
  Transport& transport;
  PagePool& pool;
  tier::Outbox outbox;
  std::map<PeerId, Peer> peers;
  std::map<PartId, Part> parts;
  std::map<uint64_t, Incoming> sequences;  ///< by request
  PartId last_served = {};                 ///< with a slot
  std::deque<ReceivedSequence> received;
  int64_t now_ms = 0;
  HandoverReceiverFigures figures = {};
  Status fault = {};

  State(const HandoverReceiverOptions& given, tier::EndPages pages,
        std::vector<tier::Place> own_places, tier::Staging own_staging)
      : options(given),
        regions(given.end.regions.begin(), given.end.regions.end()),
        own(std::move(pages)),
        has_groups(!given.end.groups.empty()),
        places(std::move(own_places)),
        staging(std::move(own_staging)),
        transport(*given.end.transport),
        pool(*given.end.pool),
        outbox(transport) {}

  void poll();

  // Messages.
  void receive();
  void take(const PeerMessage& message);
  void take(PeerId peer, const tier::Hello& hello);
  void take(PeerId peer, tier::Groups& groups);
  void refuse_peer(PeerId peer, const Status& why);
  void welcome(PeerId peer, Peer& known);
  void take(PeerId peer, tier::Announce& announce);
  void take(PartId id, Part& part, const tier::Want& want);
  void take(PartId, Part&, const tier::Computing&) {}  // has been heard
  void take(PartId id, Part& part, const tier::Landed& landed);
  void take(PartId id, Part& part, tier::Done& done);
  void take(PartId id, Part& part, const tier::Ended& ended);
  template <class Message>
  void take_for(PeerId peer, std::span<const std::byte> bytes);
  void refuse_message(PeerId peer, const char* what);
  /// The message is out of order, and so all that the part brings.
  void refuse_part(PartId id, const char* what);
  [[nodiscard]] Status check_sender(const tier::Layout& sender, const tier::Bundles& bundles);

  // Announcements.
  [[nodiscard]] Status open(const tier::Announce& announce);
  /// Room for all tokens, and the runs that are to be filled.
  [[nodiscard]] Status reserve(Incoming& sequence);
  [[nodiscard]] Status reserve_groups(Incoming& sequence);
  void add_run(Incoming& sequence, tier::TokenRun run);
  [[nodiscard]] std::vector<uint32_t> direct_pages(const Incoming& sequence,
                                                   const tier::Bundles& bundles) const;
  [[nodiscard]] Part make_part(const Incoming& sequence, const Peer& peer, uint64_t request) const;
  [[nodiscard]] Status join(const Incoming& sequence, const Peer& peer,
                            const tier::Announce& announce) const;
  [[nodiscard]] Status pin(Incoming& sequence, std::shared_ptr<Pins>& pins);
  void refuse(PeerId peer, uint64_t id, const Status& why);

  // Pieces.
  /// A piece that is told of: by number, and what it is of.
  struct Told {
    const tier::Bundle& bundle;
    const tier::GroupLayout& from;
    tier::Geometry theirs;
    size_t layer;
    tier::LandedPiece piece;
  };
  [[nodiscard]] const char* fault_of(const Peer& peer, const Part& part, uint32_t layer,
                                     const tier::LandedPiece& piece) const;
  [[nodiscard]] bool is_intact(const Told& told, const Incoming& sequence);
  [[nodiscard]] Status convert(const Told& told, const Incoming& sequence);
  void copy_state(const Told& told, const Incoming& sequence) const;
  /// Whether the part ends here.
  [[nodiscard]] bool take(PartId id, Part& part, const Told& told);
  /// What has landed of a layer is of these heads, if it is whole.
  [[nodiscard]] int32_t heads_at(const PartId& id, size_t layer) const;
  /// Of a piece whose page is as large as ours.
  [[nodiscard]] uint32_t page_of(const Told& told, const Incoming& sequence) const {
    const std::vector<uint32_t>& pages = sequence.pages[told.bundle.to];
    return told.from.is_state() ? pages.back() : pages[told.piece.page];
  }
  void give_slots();

  /// Leading layers of which all has landed, of all heads.
  [[nodiscard]] int32_t layers_ready(const Incoming& sequence) const;

  // Ends.
  void commit_if_whole(uint64_t request);
  void fail_sequence(uint64_t request, tier::AbortCode code, const Status& why);
  /// Its sequence is on its way; another one may have the request of a part that is not.
  [[nodiscard]] static bool is_open(const Part& part) {
    return part.step == Step::filling || part.step == Step::done;
  }
  void remove_part(PartId id);
  void drop_peer(PeerId peer);
  void cut_off_peer(PeerId peer);
  void check_peers();
  void check_deadlines();
};

}  // namespace folio::inline v1::tier
