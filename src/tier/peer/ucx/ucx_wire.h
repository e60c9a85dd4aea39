// SPDX-License-Identifier: Apache-2.0
/// tier/peer/ucx/ucx_wire.h: ends that send active messages by UCX.
///
/// Frames are active messages with a number, taken in that order; the bytes of transfers go in
/// others, with their place in the transfer. The side that has the bytes pushes them: a writer when
/// its write is granted, whoever is asked when he is asked to read. The side that receives them
/// looks every one up in what it has pinned or asked for, so that nobody can write elsewhere.
///
/// A link ends when UCX tells that the peer has gone, when the peer says so, or is silent for too
/// long. Its endpoint is closed, and what belonged to it ends when UCX has given back the last
/// operation: only then is memory not touched any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tier/peer/book.h"
#include "tier/peer/descriptor.h"
#include "tier/peer/frame.h"
#include "tier/peer/ucx/ucx_library.h"
#include "tier/peer/wire.h"

namespace folio::inline v1::tier {

class UcxWire final : public Wire {
 public:
  /// How bytes go: UCX's rendezvous writes into the receiver's memory where it has a way for that,
  /// and sends it piece by piece with twice the messages where it has none.
  enum class Way : uint8_t { unknown, rendezvous, eager };
  /// `way` of all links; unknown: as each of them is
  UcxWire(Book& book, const UcxLibrary& ucx, Way way = Way::unknown) noexcept
      : book_(book), ucx_(ucx), way_(way) {}
  /// Before all others. Errors: io
  [[nodiscard]] Status open(std::string_view transports);
  ~UcxWire() override;

  std::vector<std::byte> endpoint() const override { return address_; }
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
  /// Numbers of active messages.
  static constexpr unsigned frame_message = 1, data_message = 2;
  /// Whether the peer is told that this end goes.
  enum class Farewell : uint8_t { none, said };
  /// Of an active message with a frame, and of one with bytes.
  struct FrameHeader {
    uint64_t connection = 0, number = 0;
  };
  struct DataHeader {
    uint64_t connection = 0, transfer = 0;
    int64_t offset = 0;
    uint8_t is_of_asker = 0;  ///< who sends it has asked for the transfer
    uint8_t padding[7] = {};
  };
  /// Of a transfer in a link, of which both sides have one with the same number.
  struct FlowKey {
    bool is_own = false;  ///< asked for by this end
    uint64_t transfer = 0;
    auto operator<=>(const FlowKey&) const = default;
  };
  struct Flow {
    const TransferRecord* record = nullptr;  ///< if it is this end's own
    bool is_source = false;
    bool is_dropped = false;  ///< the asker wants no more
    bool is_moving = false;   ///< a source that may send
    bool is_over = false;     ///< the other side has said how it ends
    TransferState outcome = TransferState::done;
    Status why = {};
    std::vector<RegionRun> runs = {};  ///< pinned, of a peer's transfer
    std::vector<Extent> memory = {};
    std::vector<int64_t> starts = {};         ///< of the extents in the transfer
    std::vector<int64_t> remote_starts = {};  ///< of the peer's runs, where they are known
    std::vector<std::byte> message = {};
    int64_t bytes = 0;
    int64_t moved = 0;        ///< handed to UCX by a source, or arrived
    uint32_t operations = 0;  ///< of UCX, that touch the memory
  };
  struct Link {
    enum class State : uint8_t { greeting, open, closing, closed } state = State::greeting;
    uint64_t connection = 0;
    PeerId peer = {};
    EndId end = {};
    bool is_accepted = false;
    ucp_ep_h ep = nullptr;
    void* flush_request = nullptr;
    void* close_request = nullptr;
    struct Held {
      Frame frame;
      int64_t message_bytes = 0;
    };
    std::deque<Held> held;  ///< until it is open
    uint64_t next_out = 0, next_in = 0;
    std::map<uint64_t, std::vector<std::byte>> early;  ///< frames behind one that is missing
    std::map<FlowKey, Flow> flows;
    std::deque<FlowKey> sources;  ///< with bytes to be sent
    Way way = Way::unknown;       ///< until there are bytes to be sent
    uint32_t operations = 0;      ///< of UCX, that have not ended
    uint32_t sends = 0;           ///< among them, of data
    bool has_heard = false;       ///< bytes, since it said something itself
    Status failed = {};           ///< to be closed for that
    Farewell farewell = Farewell::none;
    bool is_broken = false;  ///< UCX says so
    Status why = {};         ///< it is closed
    Clock::time_point sent = {}, closing_since = {};
  };
  /// What UCX has been given and not given back.
  struct Operation {
    UcxWire* wire = nullptr;
    Link* link = nullptr;
    enum class Kind : uint8_t { frame_out, frame_in, data_out, data_in } kind = Kind::frame_out;
    FlowKey flow = {};
    FrameHeader frame_header = {};
    DataHeader data_header = {};
    int64_t bytes = 0;                 ///< of data, or of the message that a frame carries
    std::vector<std::byte> body = {};  ///< a frame's, or data that is not where it belongs
  };

  struct Arrived {
    FrameHeader header;
    std::vector<std::byte> body;
  };

  // Of UCX, called within `ucp_worker_progress` and others.
  static ucs_status_t on_frame_message(void* wire, const void* header, size_t header_bytes,
                                       void* data, size_t bytes,
                                       const ucp_am_recv_param_t* param) noexcept;
  static ucs_status_t on_data_message(void* wire, const void* header, size_t header_bytes,
                                      void* data, size_t bytes,
                                      const ucp_am_recv_param_t* param) noexcept;
  static void on_sent(void* request, ucs_status_t status, void* operation) noexcept;
  static void on_received(void* request, ucs_status_t status, size_t bytes,
                          void* operation) noexcept;
  static void on_error(void* wire, ucp_ep_h ep, ucs_status_t status) noexcept;

  // ucx_links.cpp: links and frames.
  [[nodiscard]] Link* find(uint64_t connection) noexcept;
  [[nodiscard]] Link* link_to(PeerId peer) noexcept;
  [[nodiscard]] Status open_endpoint(Link& link, std::span<const std::byte> endpoint);
  void put(Link& link, const Frame& frame, int64_t message_bytes = 0);
  void put_now(Link& link, const Frame& frame, int64_t message_bytes);
  void take(Arrived arrived) noexcept;
  void take_all() noexcept;
  [[nodiscard]] Status accept(uint64_t connection, const Frame& frame);
  /// It is closed soon, not within what UCX calls.
  void fail_link(Link& link, const Status& why) noexcept;
  void close(Link& link, const Status& why, Farewell farewell) noexcept;
  void move_on(Link& link) noexcept;
  void force(Link& link) noexcept;
  void finish(Link& link) noexcept;
  /// Errors, and bad_alloc that is thrown, end the link soon.
  template <class Call>
  void guard(Link& link, Call call) noexcept {
    if (const Status s = attempt(std::move(call)); !s.is_ok()) fail_link(link, s);
  }

  // ucx_flows.cpp: transfers.
  [[nodiscard]] Status on_frame(Link& link, Frame frame);
  [[nodiscard]] Status on_asked(Link& link, Frame frame);
  [[nodiscard]] Status on_granted(Link& link, const Frame& frame);
  [[nodiscard]] Status on_ended(Link& link, const Frame& frame);
  [[nodiscard]] Status on_fetched(Link& link, Frame frame);
  [[nodiscard]] Status on_dropped(Link& link, const Frame& frame);
  /// Whether it is over, and what is to be said then.
  [[nodiscard]] Status settle(Link& link, FlowKey key);
  void erase(Link& link, FlowKey key) noexcept;

  // ucx_bytes.cpp: what transfers move.
  /// Hands bytes to UCX as long as it takes them; whether there were any.
  bool pump(Link& link) noexcept;
  [[nodiscard]] Way way_of(const Link& link) const noexcept;
  [[nodiscard]] Status send_some(Link& link, FlowKey key, Flow& flow);
  [[nodiscard]] ucs_status_t receive(Link& link, const DataHeader& header, void* data, size_t bytes,
                                     bool is_descriptor) noexcept;
  void ended(Operation& operation, ucs_status_t status) noexcept;
  /// What `ucp_..._nbx` returned for an operation.
  void started(std::unique_ptr<Operation> operation, ucs_status_ptr_t request) noexcept;

  [[nodiscard]] Status fault(const char* what, ucs_status_t status) const noexcept;

  Book& book_;
  const UcxLibrary& ucx_;
  const Way way_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<std::byte> address_;  ///< the TCP segment it expects, and UCX's
  int worker_fd_ = -1;
  Waker waker_;
  std::list<Link> links_;
  std::map<TransferId, Link*> asked_;
  std::deque<Arrived> arrived_;  ///< frames, in the order in which they came
};

}  // namespace folio::inline v1::tier
