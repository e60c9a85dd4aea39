// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_links.cpp: links to peers: how they begin and end.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "tier/peer/bytes.h"
#include "tier/peer/nixl/nixl_wire.h"

namespace folio::inline v1::tier {

using std::chrono::milliseconds;

NixlWire::Link* NixlWire::link_to(PeerId peer) noexcept {
  for (Link& link : links_)
    if (link.peer == peer && link.state != Link::State::closed && link.failed.is_ok()) return &link;
  return nullptr;
}

void NixlWire::connect(PeerId peer, std::span<const std::byte> endpoint) noexcept {
  const std::lock_guard lock(mutex_);
  const auto number = random_end_id();
  if (!number) return book_.lost(peer, number.error());
  try {
    Link& link = links_.emplace_back();
    std::memcpy(&link.connection, number->data(), sizeof(link.connection));
    link.peer = peer;
    link.sent = link.heard = Clock::now();
    guard(link, [&]() -> Status {
      auto agent = take_agent();
      if (!agent) return agent.error();
      link.agent = std::move(*agent);
      auto station = station_->learn(endpoint);
      if (!station) return station.error();
      link.station = std::move(*station);
      auto about = link.agent->about();
      if (!about) return about.error();
      ByteWriter writer;
      writer.put(link.connection);
      const std::vector<std::byte> hello = encode(
          Frame{.kind = FrameKind::hello, .bytes = encode(book_.address(std::move(*about)))});
      writer.bytes().insert(writer.bytes().end(), hello.begin(), hello.end());
      link.greeting = std::move(writer.bytes());
      return station_->notify(link.station, link.greeting);
    });
    book_.heard(peer);
  } catch (const std::bad_alloc&) {
    book_.lost(peer, fail(Errc::out_of_memory, "Transport: no memory for a peer"));
  }
}

void NixlWire::take_greetings() {
  // seldom, for those who move bytes meanwhile
  const auto now = Clock::now();
  if (!asked_.empty() && now - greeted_ < milliseconds(1)) return;
  greeted_ = now;
  for (const std::vector<std::byte>& note : station_->take()) {
    ByteReader reader(note);
    const auto connection = reader.get<uint64_t>();
    const auto frame = decode_frame(reader.rest());
    if (frame && frame->kind == FrameKind::hello) (void)accept(connection, *frame);
  }
}

Status NixlWire::accept(uint64_t connection, const Frame& frame) {
  auto address = decode_address(frame.bytes, WireKind::nixl);
  if (!address) return address.error();
  for (Link& link : links_) {
    if (link.connection == connection) return {};  // it asks again
    // an end connects once; who does so again has closed what was there
    if (link.is_accepted && link.end == address->end)
      close(link, fail(Errc::io, "Transport: a peer has connected anew"));
  }
  auto agent = take_agent();
  if (!agent) return agent.error();
  auto other = (*agent)->learn(address->endpoint);
  if (!other) return other.error();
  const auto peer = book_.accepted(frame.bytes);
  Link& link = links_.emplace_back();
  link.connection = connection;
  link.end = address->end;
  link.is_accepted = true;
  link.state = Link::State::open;
  link.sent = link.heard = Clock::now();
  link.agent = std::move(*agent);
  link.other = std::move(*other);
  if (peer) link.peer = *peer;
  guard(link, [&]() -> Status {
    auto about = link.agent->about();
    if (!about) return about.error();
    if (peer) {
      put(link, {.kind = FrameKind::welcome, .bytes = std::move(*about)}, 0);
      return {};
    }
    put(link, {.kind = FrameKind::refused, .bytes = std::move(*about)}, 0);
    return peer.error();
  });
  return {};
}

Status NixlWire::on_welcome(Link& link, const Frame& frame) {
  if (frame.kind == FrameKind::refused) return fail(Errc::io, "Transport: a peer refuses");
  if (frame.kind != FrameKind::welcome) return protocol_fault("it does not welcome");
  auto other = link.agent->learn(frame.bytes);
  if (!other) return other.error();
  link.other = std::move(*other);
  link.state = Link::State::open;
  link.greeting.clear();
  book_.connected(link.peer);
  std::deque<Note> held = std::move(link.held);
  for (Note& note : held) put_now(link, note);
  return {};
}

void NixlWire::disconnect(PeerId peer) noexcept {
  const std::lock_guard lock(mutex_);
  for (Link& link : links_) {
    if (link.peer != peer || link.state == Link::State::closed) continue;
    close(link, fail(Errc::io, "Transport: peer {} is given up", peer.value));
    return;
  }
}

/// The agent goes first: nobody touches memory through it any more.
void NixlWire::close(Link& link, const Status& why) noexcept {
  if (link.state == Link::State::closed) return;
  if (link.state == Link::State::open)
    guard(link, [&]() -> Status {
      put_now(link, {.body = encode(Frame{.kind = FrameKind::gone})});
      (void)link.agent->take();  // it leaves
      return {};
    });
  link.state = Link::State::closed;
  for (const Write& write : link.writes) link.agent->drop(write.request);
  link.writes.clear();
  link.agent.reset();
  end_flows(link, why);
  const auto is_needed = [&](const Link& other) { return other.station == link.station; };
  if (std::count_if(links_.begin(), links_.end(), is_needed) == 1 && !link.station.empty())
    station_->forget(link.station);
  if (link.peer == PeerId{}) return;
  book_.lost(link.peer, why);
  for (Link& other : links_)
    if (other.peer == link.peer) close(other, why);
}

void NixlWire::end_flows(Link& link, const Status& why) noexcept {
  for (const Note& note : link.held) book_.left(link.peer, note.message_bytes);
  for (const Sent& sent : link.untaken) book_.left(link.peer, sent.message_bytes);
  for (const auto& [id, runs] : link.lent) book_.unpin(runs);
  for (const Push& push : link.pushes) book_.unpin(push.runs);
  link.held.clear();
  link.untaken.clear();
  link.lent.clear();
  link.pushes.clear();
  for (auto at = asked_.begin(); at != asked_.end();) {
    if (at->second.link != &link) {
      ++at;
      continue;
    }
    const TransferId id = at->first;
    at = asked_.erase(at);
    book_.ended(id, TransferState::failed, why);
  }
}

}  // namespace folio::inline v1::tier
