// SPDX-License-Identifier: Apache-2.0
/// src/tier/peer/booked_transport.cpp: calls of a transport, checked and written into its book.
#include "tier/peer/booked_transport.h"

#include <algorithm>
#include <new>

namespace folio::inline v1::tier {

const char* name(TransferState state) noexcept {
  switch (state) {
    case TransferState::pending: return "pending";
    case TransferState::done: return "done";
    case TransferState::failed: return "failed";
    case TransferState::cancelled: return "cancelled";
  }
  return "unknown";
}

const char* name(PeerState state) noexcept {
  switch (state) {
    case PeerState::connecting: return "connecting";
    case PeerState::connected: return "connected";
    case PeerState::lost: return "lost";
  }
  return "unknown";
}

// ---- Work

BookedTransport::BookedTransport(std::unique_ptr<Book> book, std::unique_ptr<Wire> wire, Work work)
    : book_(std::move(book)), wire_(std::move(wire)) {
  if (work == Work::by_thread) thread_ = std::thread([this] { this->work(); });
}

BookedTransport::~BookedTransport() {
  closing_ = true;
  wire_->wake();
  if (thread_.joinable()) thread_.join();
}

bool BookedTransport::run_command(Book& book, Wire& wire) noexcept {
  std::optional<Command> command = book.next_command();
  if (!command) return false;
  switch (command->kind) {
    case Command::Kind::connect: wire.connect(command->peer, command->bytes); break;
    case Command::Kind::refresh: wire.refresh(command->peer, command->bytes); break;
    case Command::Kind::disconnect: wire.disconnect(command->peer); break;
    case Command::Kind::cancel: wire.cancel(command->transfer); break;
    case Command::Kind::send: wire.send(command->peer, std::move(command->bytes)); break;
    case Command::Kind::post:
      if (const TransferRecord* const transfer = book.find(command->transfer); transfer != nullptr)
        wire.post(*transfer);
      break;
  }
  return true;
}

void BookedTransport::work() noexcept {
  const int64_t patience_ms = std::clamp<int64_t>(book_->options().timeout_ms / 8, 1, 1000);
  auto looked = Book::Clock::now();
  while (!closing_) {
    bool is_busy = false;
    while (run_command(*book_, *wire_)) is_busy = true;
    is_busy |= wire_->progress();
    if (!is_busy) wire_->wait(patience_ms);
    if (Book::Clock::now() - looked < std::chrono::milliseconds(patience_ms)) continue;
    looked = Book::Clock::now();
    for (;;) {
      const std::optional<PeerId> peer = book_->overdue();
      if (!peer) break;
      book_->lost(*peer, fail(Errc::io, "Transport: peer {} has not answered for {} ms",
                              peer->value, book_->options().timeout_ms));
      wire_->disconnect(*peer);
    }
  }
  // what was sent last is on its way, where nothing has to be waited for
  while (run_command(*book_, *wire_)) {}
}

// ---- Calls

template <class Call>
auto BookedTransport::change(const char* name, Call call) noexcept -> decltype(call()) {
  try {
    auto result = call();
    wire_->wake();
    return result;
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport::{}: no memory", name);
  }
}

Result<RegionId> BookedTransport::add_region(std::span<std::byte> memory) noexcept {
  auto region = change("add_region", [&] { return book_->add_region(memory); });
  if (!region) return region;
  if (Status s = wire_->add_region(*region, memory); !s.is_ok()) {
    (void)book_->remove_region(*region);
    return s;
  }
  return region;
}

Status BookedTransport::remove_region(RegionId region) noexcept {
  wire_->drive();
  if (Status s = book_->remove_region(region); !s.is_ok()) return s;
  wire_->remove_region(region);
  return {};
}

Result<std::vector<std::byte>> BookedTransport::address() const noexcept {
  try {
    return encode(book_->address(wire_->endpoint()));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport::address: no memory");
  }
}

Result<PeerId> BookedTransport::connect(std::span<const std::byte> address) noexcept {
  return change("connect", [&] { return book_->connect(address); });
}

Status BookedTransport::disconnect(PeerId peer) noexcept {
  return change("disconnect", [&] { return book_->disconnect(peer); });
}

Result<PeerState> BookedTransport::peer_state(PeerId peer) const noexcept {
  wire_->drive();
  return book_->peer_state(peer);
}

Result<TransferId> BookedTransport::post(const TransferRequest& request) noexcept {
  return change("post", [&] { return book_->post(request); });
}

Result<TransferState> BookedTransport::poll(TransferId transfer) noexcept {
  wire_->drive();
  return book_->poll(transfer);
}

Status BookedTransport::cancel(TransferId transfer) noexcept {
  return change("cancel", [&] { return book_->cancel(transfer); });
}

Status BookedTransport::release(TransferId transfer) noexcept {
  return change("release", [&] { return book_->release(transfer); });
}

Status BookedTransport::send(PeerId peer, std::span<const std::byte> message) noexcept {
  return change("send", [&] { return book_->send(peer, message); });
}

size_t BookedTransport::receive(std::span<PeerMessage> messages) noexcept {
  wire_->drive();
  return book_->receive(messages);
}

Status BookedTransport::last_fault() const noexcept { return book_->last_fault(); }

}  // namespace folio::inline v1::tier
