// SPDX-License-Identifier: Apache-2.0
/// tier/peer/peer_medium.cpp: the server of a client: what it says, and what it is asked.
#include "tier/peer/peer_medium.h"

#include <new>
#include <optional>
#include <thread>

#include "tier/peer/page_news.h"

namespace folio::inline v1::tier {

Status PeerMedium::subscribe() {
  return transport_->send(
      peer_, encode({.kind = PageMessageKind::subscribe, .fingerprint = fingerprint_}));
}

void PeerMedium::reconnect() {
  known_.clear();
  if (Clock::now() - connected_ < std::chrono::seconds(1)) return;
  connected_ = Clock::now();
  (void)transport_->disconnect(peer_);
  const auto peer = transport_->connect(address_);
  peer_ = peer.value_or(PeerId{});
  if (peer) (void)subscribe();
}

void PeerMedium::take(const PageMessage& message) {
  switch (message.kind) {
    case PageMessageKind::refused:
      fault_ = fail(Errc::unsupported, "PeerTier: the server is of another version or model");
      known_.clear();
      return;
    case PageMessageKind::index: known_.insert(message.names.begin(), message.names.end()); return;
    case PageMessageKind::gone:
      for (const PageName& name : message.names) known_.erase(name);
      return;
    default:
      // of a call that waits no more: what was lent goes back
      if (asked_.contains(message.ticket)) {
        answers_[message.ticket] = message;
      } else if (message.kind == PageMessageKind::lent) {
        (void)transport_->send(
            peer_, encode({.kind = PageMessageKind::returned, .ticket = message.ticket}));
      }
  }
}

void PeerMedium::look() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    PeerMessage messages[16];
    for (size_t count; (count = transport_->receive(messages)) > 0;) {
      for (const PeerMessage& message : std::span(messages).first(count)) {
        if (message.peer != peer_) continue;
        const auto read = decode_page_message(message.bytes);
        if (read) {
          take(*read);
        } else {
          fault_ = read.error();
        }
      }
    }
    const auto state = transport_->peer_state(peer_);
    if (!state || *state == PeerState::lost) reconnect();
  } catch (const std::bad_alloc&) {
    fault_ = fail(Errc::out_of_memory, "PeerTier: no memory for a message");
  }
}

bool PeerMedium::wait(const std::function<bool()>& condition) noexcept {
  const auto end = Clock::now() + timeout_;
  for (int i = 0; !condition(); ++i) {
    if (Clock::now() > end) return false;
    look();
    if (i < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

void PeerMedium::expect(uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  asked_.insert(ticket);
}

void PeerMedium::unexpect(uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  asked_.erase(ticket);
  answers_.erase(ticket);
}

std::optional<PageMessage> PeerMedium::await(uint64_t ticket, PeerId peer) {
  std::optional<PageMessage> answer;
  (void)wait([&] {
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(ticket);
    if (found == answers_.end()) return peer_ != peer || is_lost(*transport_, peer);
    answer = std::move(found->second);
    return true;
  });
  unexpect(ticket);
  return answer;
}

Result<PeerMedium::Answer> PeerMedium::ask(PageMessage message, PageMessageKind kind) {
  PeerId peer;
  {
    const std::lock_guard lock(mutex_);
    message.ticket = next_ticket_++;
    peer = peer_;
  }
  const auto bytes = encode(message);
  expect(message.ticket);
  if (Status s = transport_->send(peer, bytes); !s.is_ok()) {
    unexpect(message.ticket);
    return s;
  }
  auto answer = await(message.ticket, peer);
  if (!answer) return fail(Errc::io, "PeerTier: the server does not answer");
  if (answer->kind != kind) return fail(Errc::io, "PeerTier: the server answers something else");
  return Answer{std::move(*answer), peer};
}

}  // namespace folio::inline v1::tier
