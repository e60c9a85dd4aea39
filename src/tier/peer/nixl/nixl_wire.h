// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_wire.h: ends that write to one another's memory by NIXL.
///
/// A *station* is the agent that an address tells of: it takes greetings. A link has an agent of
/// its own at either end, which knows no other: frames are notifications of it, with a number,
/// taken in that order. Whoever has the bytes writes them to memory that the other side has
/// pinned, told and given to its agent: UCX may end the process of who is read from over TCP when
/// who reads is killed.
///
/// A link that ends takes its agent with it, before memory that a peer may write to is let go of:
/// it has no connection then, and no device has its keys. That holds for connections and devices,
/// not for writes of one process to another's memory, so `shm` of UCX is not used.
///
/// NIXL cannot be waited for without its own threads, and says that a peer has gone when something
/// is sent to it: links are looked at again and again, and ask whether the other side is there.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tier/peer/book.h"
#include "tier/peer/descriptor.h"
#include "tier/peer/frame.h"
#include "tier/peer/nixl/nixl_agent.h"
#include "tier/peer/pieces.h"
#include "tier/peer/wire.h"

namespace folio::inline v1::tier {

class NixlWire final : public Wire {
 public:
  NixlWire(Book& book, const NixlLibrary& nixl, std::string transports)
      : book_(book), nixl_(nixl), transports_(std::move(transports)) {}
  /// Before all others. Errors: io
  [[nodiscard]] Status open();
  ~NixlWire() override;

  Status add_region(RegionId region, std::span<std::byte> memory) noexcept override;
  void remove_region(RegionId region) noexcept override;
  std::vector<std::byte> endpoint() const override { return endpoint_; }
  void connect(PeerId peer, std::span<const std::byte> endpoint) noexcept override;
  void disconnect(PeerId peer) noexcept override;
  void post(const TransferRecord& transfer) noexcept override;
  void cancel(TransferId transfer) noexcept override;
  void send(PeerId peer, std::vector<std::byte> message) noexcept override;
  bool progress() noexcept override;
  void wait(int64_t most_ms) noexcept override;
  void wake() noexcept override { waker_.wake(); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class NoteKind : uint32_t {
    frame = 1,
    regions = 2,  ///< of the sender's agent, and all it has to say of itself
    ask = 3,      ///< for an answer; not numbered, nor is that
    answer = 4,
  };
  struct NoteHeader {
    uint64_t number = 0;
    uint64_t taken = 0;  ///< notes of the other side, without a gap
    NoteKind kind = NoteKind::frame;
    uint32_t reserved = 0;
  };
  /// What this side writes.
  struct Push {
    uint64_t transfer = 0;
    bool is_own = false;               ///< a write that this end asked for; else a peer's read
    bool is_dropped = false;           ///< who asked wants no more
    std::vector<RegionRun> runs = {};  ///< pinned, of a peer's
    std::vector<Extent> here = {}, there = {};
    Pieces pieces{{}, {}};
    uint32_t writes = 0;  ///< NIXL's, that have not ended
  };
  struct Write {
    nixl::Request* request = nullptr;
    Push* push = nullptr;
  };
  struct Note {
    NoteKind kind = NoteKind::frame;
    std::vector<std::byte> body;
    int64_t message_bytes = 0;
  };
  struct Sent {
    uint64_t number = 0;
    int64_t message_bytes = 0;
  };
  struct Link {
    enum class State : uint8_t { greeting, open, closed } state = State::greeting;
    uint64_t connection = 0;
    PeerId peer = {};
    EndId end = {};  ///< of who has connected
    bool is_accepted = false;
    std::unique_ptr<NixlAgent> agent;
    std::string other;    ///< the agent at the other side
    std::string station;  ///< the other end's, while greeting
    std::vector<std::byte> greeting = {};
    std::deque<Note> held;  ///< until it is open
    uint64_t next_out = 0, next_in = 0;
    std::map<uint64_t, std::vector<std::byte>> early;  ///< notes behind one that is missing
    std::deque<Sent> untaken;                          ///< messages among notes that have left
    uint64_t unsaid = 0;                               ///< notes taken since that was said
    bool is_told = false;                              ///< what this agent has
    NixlRegions own, theirs;                           ///< what either agent has
    std::map<uint64_t, std::vector<RegionRun>> lent;   ///< to the peer's writes, pinned
    std::list<Push> pushes;
    std::deque<Write> writes;
    Status failed = {};  ///< it is to be closed for that
    Clock::time_point sent = {}, heard = {};
  };
  struct Asked {
    const TransferRecord* transfer = nullptr;
    Link* link = nullptr;
    bool is_granted = false;
    bool is_dropped = false;
  };

  // nixl_wire.cpp; the lock is held, here and below.
  [[nodiscard]] Result<std::unique_ptr<NixlAgent>> take_agent();
  void keep_alive(Link& link);
  /// Errors, and bad_alloc that is thrown, end the link soon.
  template <class Call>
  void guard(Link& link, Call call) noexcept {
    if (const Status s = attempt(std::move(call)); !s.is_ok() && link.failed.is_ok())
      link.failed = s;
  }

  // nixl_links.cpp: links to peers.
  [[nodiscard]] Link* link_to(PeerId peer) noexcept;
  void take_greetings();
  [[nodiscard]] Status accept(uint64_t connection, const Frame& frame);
  [[nodiscard]] Status on_welcome(Link& link, const Frame& frame);
  void close(Link& link, const Status& why) noexcept;
  void end_flows(Link& link, const Status& why) noexcept;

  // nixl_notes.cpp: what they say.
  void put(Link& link, const Frame& frame, int64_t message_bytes = 0);
  void put(Link& link, Note note);
  void put_now(Link& link, const Note& note);
  void say(Link& link, NoteKind kind);
  /// Whether there were any.
  [[nodiscard]] bool take_notes(Link& link);
  [[nodiscard]] Status take(Link& link, std::vector<std::byte> note);
  void heed(Link& link, const NoteHeader& header);
  [[nodiscard]] Status on_note(Link& link, NoteKind kind, std::span<const std::byte> body);

  // nixl_flows.cpp: transfers.
  /// The agent has these regions, and the peer knows them.
  [[nodiscard]] Status ready(Link& link, std::span<const RegionRun> runs);
  [[nodiscard]] Status ask(Link& link, const TransferRecord& transfer);
  [[nodiscard]] Status on_frame(Link& link, const Frame& frame);
  [[nodiscard]] Status on_write(Link& link, const Frame& frame);
  [[nodiscard]] Status on_read(Link& link, const Frame& frame);
  [[nodiscard]] Status on_granted(Link& link, const Frame& frame);
  [[nodiscard]] Status on_ended(Link& link, const Frame& frame);
  [[nodiscard]] Status on_fetched(Link& link, const Frame& frame);
  void on_dropped(Link& link, uint64_t transfer);

  // nixl_bytes.cpp: what they move.
  /// Whether anything was done.
  [[nodiscard]] Result<bool> push_some(Link& link);
  [[nodiscard]] Result<bool> begin_writes(Link& link);
  [[nodiscard]] Result<bool> look_at_writes(Link& link);
  void settle(Link& link);
  void finish(Link& link, const Push& push);

  Book& book_;
  const NixlLibrary& nixl_;
  const std::string transports_;
  std::vector<std::byte> endpoint_;
  Waker waker_;
  std::mutex mutex_;  ///< of all below: regions come and go in any thread
  std::map<RegionId, std::span<std::byte>> regions_;
  std::unique_ptr<NixlAgent> station_, spare_;
  uint64_t next_agent_ = 0;
  std::list<Link> links_;
  std::map<TransferId, Asked> asked_;
  Clock::time_point busy_ = {};     ///< when there was something to do
  Clock::time_point greeted_ = {};  ///< when the station was looked at
};

}  // namespace folio::inline v1::tier
