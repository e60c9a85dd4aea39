// SPDX-License-Identifier: Apache-2.0
/// tier/peer/shared_memory/shared_memory_wire.h: processes of one host read one another's memory.
///
/// Frames go over a local socket, whose end tells that a process has gone. The side that receives
/// bytes copies them: whoever is asked to take a write, whoever asked for a read. After the last
/// byte it looks whether the socket still stands: while it does, the process at its other side is
/// the one that was connected, and has not taken back its memory. So a side first closes the
/// socket, and then lets go of what it had lent.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "tier/peer/book.h"
#include "tier/peer/pieces.h"
#include "tier/peer/shared_memory/socket_link.h"
#include "tier/peer/wire.h"

namespace folio::inline v1::tier {

class SharedMemoryWire final : public Wire {
 public:
  explicit SharedMemoryWire(Book& book) noexcept : book_(book) {}
  /// Before all others. Errors: io
  [[nodiscard]] Status open() noexcept;
  ~SharedMemoryWire() override;

  std::vector<std::byte> endpoint() const override;
  void connect(PeerId peer, std::span<const std::byte> endpoint) noexcept override;
  void disconnect(PeerId peer) noexcept override;
  void post(const TransferRecord& transfer) noexcept override;
  void cancel(TransferId transfer) noexcept override;
  void send(PeerId peer, std::vector<std::byte> message) noexcept override;
  bool progress() noexcept override;
  void wait(int64_t milliseconds) noexcept override;
  void wake() noexcept override { waker_.wake(); }

 private:
  using Clock = std::chrono::steady_clock;
  /// Bytes that this side copies.
  struct Job {
    uint64_t transfer = 0;
    bool is_own = false;               ///< a read of this end's
    std::vector<RegionRun> runs = {};  ///< pinned for a peer's write
    std::vector<Extent> here = {}, there = {};
    std::vector<std::byte> message = {};
    Pieces pieces{{}, {}};
  };
  struct Link {
    explicit Link(SocketLink s) noexcept : socket(std::move(s)) {}
    enum class State : uint8_t { unknown, greeting, open, closed } state = State::unknown;
    SocketLink socket;
    PeerId peer = {};  ///< 0: not yet known
    EndId end = {};    ///< that was connected to
    pid_t process = 0;
    std::deque<Job> jobs;
    std::map<uint64_t, std::vector<RegionRun>> lent;  ///< to the peer's reads, pinned
    Clock::time_point opened = Clock::now(), sent = opened;
    uint32_t watched = 0;  ///< epoll's events
  };
  struct Asked {
    const TransferRecord* transfer = nullptr;
    Link* link = nullptr;
    bool is_granted = false;
  };

  void accept_all() noexcept;
  [[nodiscard]] Link* add(SocketLink socket, Link::State state) noexcept;
  [[nodiscard]] Link* link_to(PeerId peer) noexcept;
  void on_event(Link& link, uint32_t events) noexcept;
  void read(Link& link) noexcept;
  void watch(Link& link) noexcept;
  void put(Link& link, const Frame& frame, int64_t message_bytes = 0);
  void flush(Link& link) noexcept;
  /// The peer is lost, and with it its other links.
  void close(Link& link, const Status& why) noexcept;
  void erase_closed() noexcept;

  // Of the protocol: errors, and bad_alloc that is thrown, close the link.
  template <class Call>
  void guard(Link& link, Call call) noexcept {
    if (const Status s = attempt(std::move(call)); !s.is_ok()) close(link, s);
  }
  [[nodiscard]] Status on_frame(Link& link, Frame frame);
  [[nodiscard]] Status on_hello(Link& link, const Frame& frame);
  [[nodiscard]] Status welcome(Link& link, const Frame& frame);
  [[nodiscard]] Status on_write(Link& link, Frame frame);
  [[nodiscard]] Status on_read(Link& link, Frame frame);
  [[nodiscard]] Status on_granted(Link& link, Frame frame);
  [[nodiscard]] Status on_ended(Link& link, const Frame& frame);
  [[nodiscard]] Status on_fetched(Link& link, const Frame& frame);
  void on_dropped(Link& link, uint64_t transfer);
  /// That what the link says where its end id is reads as that.
  [[nodiscard]] Status check_process(Link& link, const Frame& frame, const EndId& end) noexcept;
  [[nodiscard]] Extent own_end() const noexcept;
  [[nodiscard]] Status copy_some(Link& link);
  [[nodiscard]] Status finish(Link& link);

  Book& book_;
  Descriptor listener_, poller_;
  Waker waker_;
  std::list<Link> links_;
  std::map<PeerId, Link*> by_peer_;
  std::map<TransferId, Asked> asked_;  ///< of peers, that have not ended
  std::array<epoll_event, 64> events_ = {};
  int num_events_ = 0;
};

}  // namespace folio::inline v1::tier
