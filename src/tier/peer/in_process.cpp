// SPDX-License-Identifier: Apache-2.0
/// tier/peer/in_process.cpp: ends of one process: a network that does one thing after another, in
/// the thread of whoever asks.
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "folio/tier/transports.h"
#include "tier/peer/booked_transport.h"
#include "tier/peer/bytes.h"
#include "tier/peer/pieces.h"

namespace folio::inline v1::tier {
namespace {

class InProcessWire;

}  // namespace
/// The lock is held while anything is done, of all ends.
struct InProcessNetwork::State {
  explicit State(Pace p) : pace(p) {}
  const Pace pace;
  std::recursive_mutex mutex;
  std::map<uint64_t, tier::InProcessWire*> ends;
  uint64_t next_end = 1;
  uint64_t turn = 0;  ///< the end that had the last step
  bool step() noexcept;
};

namespace {

class InProcessWire final : public Wire {
 public:
  using Network = InProcessNetwork::State;
  InProcessWire(std::shared_ptr<Network> network, Book& book)
      : network_(std::move(network)), book_(book) {
    const std::lock_guard lock(network_->mutex);
    network_->ends[number_ = network_->next_end] = this;
    ++network_->next_end;
  }
  ~InProcessWire() override {
    cut();
    const std::lock_guard lock(network_->mutex);
    network_->ends.erase(number_);
  }

  std::vector<std::byte> endpoint() const override {
    ByteWriter writer;
    writer.put(reinterpret_cast<uintptr_t>(network_.get()));
    writer.put(number_);
    return std::move(writer.bytes());
  }
  void connect(PeerId peer, std::span<const std::byte> endpoint) noexcept override;
  void disconnect(PeerId peer) noexcept override;
  void post(const TransferRecord& transfer) noexcept override;
  void cancel(TransferId transfer) noexcept override;
  void send(PeerId peer, std::vector<std::byte> message) noexcept override;
  bool progress() noexcept override;
  void wait(int64_t) noexcept override {}
  void wake() noexcept override {}
  void drive() noexcept override {
    if (network_->pace == InProcessNetwork::Pace::on_poll)
      while (network_->step()) {}
  }

  [[nodiscard]] bool step() noexcept {
    return BookedTransport::run_command(book_, *this) || progress();
  }
  void cut() noexcept;

 private:
  struct Link {
    InProcessWire* wire = nullptr;
    PeerId back;  ///< this end's id there
  };
  struct Active {
    const TransferRecord* transfer = nullptr;
    std::vector<Extent> there;
    Pieces pieces{{}, {}};
  };
  [[nodiscard]] Link* link_of(PeerId peer) noexcept {
    const auto found = links_.find(peer);
    return found == links_.end() ? nullptr : &found->second;
  }
  void end(const std::deque<Active>::iterator& active, TransferState state,
           const Status& why) noexcept;
  /// Its transfers fail, and the books of both say so.
  void lose(PeerId peer, const Status& why) noexcept;

  const std::shared_ptr<Network> network_;
  Book& book_;
  uint64_t number_ = 0;
  bool is_cut_ = false;
  std::map<PeerId, Link> links_;
  std::deque<Active> active_;
};

void InProcessWire::connect(PeerId peer, std::span<const std::byte> endpoint) noexcept {
  ByteReader reader(endpoint);
  const bool is_ours = reader.get<uintptr_t>() == reinterpret_cast<uintptr_t>(network_.get());
  const auto found = network_->ends.find(reader.get<uint64_t>());
  if (is_cut_ || !is_ours || !reader.is_at_end() || found == network_->ends.end() ||
      found->second->is_cut_)
    return book_.lost(peer, fail(Errc::io, "Transport: peer {} is not there", peer.value));
  InProcessWire& other = *found->second;
  try {
    const auto back = other.book_.accepted(encode(book_.address(this->endpoint())));
    if (!back) return book_.lost(peer, back.error());
    links_[peer] = {&other, *back};
    other.links_[*back] = {this, peer};
    book_.connected(peer);
    other.book_.connected(*back);
  } catch (const std::bad_alloc&) {
    lose(peer, fail(Errc::out_of_memory, "Transport: no memory for peer {}", peer.value));
  }
}

void InProcessWire::lose(PeerId peer, const Status& why) noexcept {
  for (size_t i = active_.size(); i-- > 0;)
    if (active_[i].transfer->peer == peer)
      end(active_.begin() + static_cast<ptrdiff_t>(i), TransferState::failed, why);
  book_.lost(peer, why);
  const auto found = links_.find(peer);
  if (found == links_.end()) return;
  const Link link = found->second;
  links_.erase(found);
  link.wire->lose(link.back, fail(Errc::io, "Transport: peer {} has gone", link.back.value));
}

void InProcessWire::disconnect(PeerId peer) noexcept {
  lose(peer, fail(Errc::io, "Transport: peer {} was disconnected", peer.value));
}

void InProcessWire::cut() noexcept {
  const std::lock_guard lock(network_->mutex);
  is_cut_ = true;
  while (!links_.empty())
    lose(links_.begin()->first, fail(Errc::io, "Transport: this end was cut off"));
}

void InProcessWire::end(const std::deque<Active>::iterator& active, TransferState state,
                        const Status& why) noexcept {
  const TransferRecord& transfer = *active->transfer;
  if (Link* const link = link_of(transfer.peer); link != nullptr)
    link->wire->book_.unpin(transfer.remote);
  active_.erase(active);
  book_.ended(transfer.id, state, why);
}

void InProcessWire::post(const TransferRecord& transfer) noexcept {
  Link* const link = link_of(transfer.peer);
  if (link == nullptr)
    return book_.ended(transfer.id, TransferState::failed,
                       fail(Errc::io, "Transport: peer {} is lost", transfer.peer.value));
  std::vector<Extent> there;
  const Status s = link->wire->book_.pin(link->back, transfer.remote, &there);
  if (s.code() == Errc::io) lose(transfer.peer, s);
  if (!s.is_ok()) return book_.ended(transfer.id, TransferState::failed, s);
  try {
    active_.push_back({.transfer = &transfer, .there = std::move(there)});
    Active& active = active_.back();
    active.pieces = Pieces(transfer.memory, active.there);
  } catch (const std::bad_alloc&) {
    link->wire->book_.unpin(transfer.remote);
    book_.ended(transfer.id, TransferState::failed, fail(Errc::out_of_memory, "Transport: memory"));
  }
}

bool InProcessWire::progress() noexcept {
  if (active_.empty()) return false;
  Active& active = active_.front();
  const TransferRecord& transfer = *active.transfer;
  if (!active.pieces.is_at_end()) {
    const Piece piece = active.pieces.next(int64_t{1} << 30);
    const bool is_write = transfer.direction == TransferDirection::write;
    std::memcpy(is_write ? piece.there : piece.here, is_write ? piece.here : piece.there,
                static_cast<size_t>(piece.bytes));
    return true;
  }
  const Link link = *link_of(transfer.peer);  // without it, the transfer would have ended
  Status arrived;
  if (!transfer.message.empty()) arrived = link.wire->book_.arrived(link.back, transfer.message);
  if (!arrived.is_ok()) {
    lose(transfer.peer, arrived);
  } else {
    end(active_.begin(), TransferState::done, {});
  }
  return true;
}

void InProcessWire::cancel(TransferId transfer) noexcept {
  for (auto at = active_.begin(); at != active_.end(); ++at)
    if (at->transfer->id == transfer) return end(at, TransferState::cancelled, {});
}

void InProcessWire::send(PeerId peer, std::vector<std::byte> message) noexcept {
  book_.left(peer, static_cast<int64_t>(message.size()));
  Link* const link = link_of(peer);
  if (link == nullptr) return;
  if (Status s = link->wire->book_.arrived(link->back, message); !s.is_ok()) lose(peer, s);
}

}  // namespace
// ---- The network

bool InProcessNetwork::State::step() noexcept {
  const std::lock_guard lock(mutex);
  // the ends take turns, from the one behind the last
  for (size_t tries = 0; tries < ends.size(); ++tries) {
    auto next = ends.upper_bound(turn);
    if (next == ends.end()) next = ends.begin();
    turn = next->first;
    if (next->second->step()) return true;
  }
  return false;
}

InProcessNetwork::InProcessNetwork(Pace pace) noexcept {
  try {
    state_ = std::make_shared<State>(pace);
  } catch (const std::bad_alloc&) {  // make_end says so
  }
}

InProcessNetwork::~InProcessNetwork() = default;

Result<std::unique_ptr<Transport>> InProcessNetwork::make_end(
    const TransportOptions& options) noexcept {
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  if (state_ != nullptr && state_->pace > Pace::on_step)
    return fail(Errc::invalid_argument,
                "InProcessNetwork::make_end: the network's pace is {}, expected on_poll or on_step",
                static_cast<int>(state_->pace));
  const auto id = tier::random_end_id();
  if (!id) return id.error();
  try {
    if (state_ == nullptr) throw std::bad_alloc();
    auto book = std::make_unique<tier::Book>(options, tier::WireKind::in_process, *id);
    auto wire = std::make_unique<tier::InProcessWire>(state_, *book);
    return std::unique_ptr<Transport>(std::make_unique<tier::BookedTransport>(
        std::move(book), std::move(wire), tier::BookedTransport::Work::by_wire));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "InProcessNetwork::make_end: no memory");
  }
}

bool InProcessNetwork::step() noexcept { return state_ != nullptr && state_->step(); }

void InProcessNetwork::cut(Transport& end) noexcept {
  auto* const booked = dynamic_cast<tier::BookedTransport*>(&end);
  if (booked == nullptr) return;
  if (auto* const wire = dynamic_cast<tier::InProcessWire*>(&booked->wire()); wire != nullptr)
    wire->cut();
}

}  // namespace folio::inline v1::tier
