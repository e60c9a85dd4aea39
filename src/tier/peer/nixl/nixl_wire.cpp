// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_wire.cpp: agents, links and notes; transfers are in nixl_flows.cpp.
#include "tier/peer/nixl/nixl_wire.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "folio/tier/transports.h"
#include "tier/peer/booked_transport.h"
#include "tier/peer/bytes.h"

namespace folio::inline v1::tier {

using std::chrono::milliseconds;

// ---- Beginning and end

Status NixlWire::open() {
  if (waker_.get() < 0) return fail(Errc::io, "Transport: the system gives no event");
  auto station = take_agent();
  if (!station) return station.error();
  station_ = std::move(*station);
  auto about = station_->about();
  if (!about) return about.error();
  endpoint_ = std::move(*about);
  auto spare = take_agent();
  if (!spare) return spare.error();
  spare_ = std::move(*spare);
  return {};
}

/// A spare one is at hand, since it takes tens of milliseconds to make one.
Result<std::unique_ptr<NixlAgent>> NixlWire::take_agent() {
  if (spare_ != nullptr) return std::move(spare_);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string name = "folio-";
  for (const uint8_t byte : book_.end()) {
    name += digits[byte >> 4U];
    name += digits[byte & 15U];
  }
  return NixlAgent::open(nixl_, name + "-" + std::to_string(next_agent_++), transports_);
}

NixlWire::~NixlWire() {
  // what was sent last is to arrive, and that this end goes
  const auto until = Clock::now() + milliseconds(200);
  const auto is_waiting = [&] {
    return std::any_of(links_.begin(), links_.end(), [](const Link& link) {
      return link.state == Link::State::open && !link.untaken.empty();
    });
  };
  for (Link& link : links_)
    if (link.state == Link::State::open)
      guard(link, [&]() -> Status {
        put(link, {.kind = FrameKind::gone}, 0);
        return {};
      });
  while (is_waiting() && Clock::now() < until)
    if (!progress()) std::this_thread::yield();
  for (Link& link : links_) close(link, fail(Errc::io, "Transport: this end is destroyed"));
}

// ---- Memory

Status NixlWire::add_region(RegionId region, std::span<std::byte> memory) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    regions_[region] = memory;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport::add_region: no memory");
  }
}

void NixlWire::remove_region(RegionId region) noexcept {
  const std::lock_guard lock(mutex_);
  regions_.erase(region);
  for (Link& link : links_) {
    if (link.agent == nullptr || !link.agent->has_region(region)) continue;
    link.agent->remove_region(region);
    guard(link, [&]() -> Status {
      link.own.clear();
      for (const NixlRegion& r : link.agent->regions()) link.own.add(r);
      return {};
    });
  }
}

// ---- Links

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

// ---- Work

bool NixlWire::progress() noexcept {
  const std::lock_guard lock(mutex_);
  bool is_busy = false;
  try {
    take_greetings();
  } catch (const std::bad_alloc&) {  // who greets does so again
  }
  for (Link& link : links_) {
    if (link.state == Link::State::closed) continue;
    guard(link, [&]() -> Status {
      if (link.agent == nullptr) return {};
      is_busy |= take_notes(link);
      if (!link.failed.is_ok() || link.state != Link::State::open) return {};
      const auto pushed = push_some(link);
      if (!pushed) return pushed.error();
      is_busy |= *pushed;
      return {};
    });
    if (link.failed.is_ok())
      guard(link, [&]() -> Status {
        keep_alive(link);
        return {};
      });
  }
  for (Link& link : links_)
    if (!link.failed.is_ok()) close(link, link.failed);
  links_.remove_if([](const Link& link) { return link.state == Link::State::closed; });
  if (is_busy) busy_ = Clock::now();
  return is_busy;
}

void NixlWire::keep_alive(Link& link) {
  constexpr int64_t least_patience_ms = 2000, most_beat_ms = 250;
  const int64_t timeout_ms = book_.options().timeout_ms;
  const auto now = Clock::now();
  const milliseconds beat(std::clamp<int64_t>(timeout_ms / 4, 1, most_beat_ms));
  if (now - link.heard > milliseconds(std::max(timeout_ms, least_patience_ms))) {
    link.failed = fail(Errc::io, "Transport: a peer has said nothing for {} ms", timeout_ms);
    return;
  }
  if (now - link.sent < beat) return;
  link.sent = now;
  if (link.state == Link::State::open) {
    say(link, NoteKind::ask);
  } else if (Status s = station_->notify(link.station, link.greeting); !s.is_ok()) {
    link.failed = s;
  }
}

void NixlWire::wait(int64_t most_ms) noexcept {
  constexpr std::chrono::microseconds soon(100);
  constexpr milliseconds later(100), recently(10), idle(500);
  bool is_pending = false;
  const auto since = Clock::now() - busy_;
  {
    const std::lock_guard lock(mutex_);
    is_pending = !asked_.empty();
    for (const Link& link : links_)
      is_pending |= !link.lent.empty() || !link.pushes.empty() || !link.greeting.empty();
    if (!is_pending && since > idle && spare_ == nullptr) try {
        auto spare = take_agent();
        if (spare) spare_ = std::move(*spare);
      } catch (const std::bad_alloc&) {  // it is made when it is needed
      }
  }
  if (since < soon || (is_pending && since < later)) return std::this_thread::yield();
  const int64_t most_us = is_pending || since < recently ? 50 : 1000;
  const timespec time{.tv_sec = 0, .tv_nsec = std::min(most_us, most_ms * 1000) * 1000};
  pollfd entry{.fd = waker_.get(), .events = POLLIN, .revents = 0};
  (void)::ppoll(&entry, 1, &time, nullptr);
  if (entry.revents == 0) return;
  waker_.clear();
  busy_ = Clock::now();
}

// ---- Notes

void NixlWire::put(Link& link, const Frame& frame, int64_t message_bytes) {
  put(link, {.body = encode(frame), .message_bytes = message_bytes});
}

void NixlWire::put(Link& link, Note note) {
  if (link.state == Link::State::open) return put_now(link, note);
  if (link.state == Link::State::greeting) {
    link.held.push_back(std::move(note));
  } else {
    book_.left(link.peer, note.message_bytes);
  }
}

void NixlWire::put_now(Link& link, const Note& note) {
  link.untaken.push_back({link.next_out, note.message_bytes});
  ByteWriter writer;
  writer.put(NoteHeader{.number = link.next_out, .taken = link.next_in, .kind = note.kind});
  writer.bytes().insert(writer.bytes().end(), note.body.begin(), note.body.end());
  ++link.next_out;
  link.unsaid = 0;
  link.sent = Clock::now();
  if (Status s = link.agent->notify(link.other, writer.bytes()); !s.is_ok() && link.failed.is_ok())
    link.failed = s;
}

void NixlWire::say(Link& link, NoteKind kind) {
  const NoteHeader header{.number = 0, .taken = link.next_in, .kind = kind};
  link.unsaid = 0;
  if (Status s = link.agent->notify(link.other, std::as_bytes(std::span(&header, 1)));
      !s.is_ok() && link.failed.is_ok())
    link.failed = s;
}

void NixlWire::send(PeerId peer, std::vector<std::byte> message) noexcept {
  const std::lock_guard lock(mutex_);
  const auto bytes = static_cast<int64_t>(message.size());
  Link* const link = link_to(peer);
  if (link == nullptr) return book_.left(peer, bytes);
  guard(*link, [&]() -> Status {
    put(*link, {.kind = FrameKind::message, .bytes = std::move(message)}, bytes);
    return {};
  });
}

bool NixlWire::take_notes(Link& link) {
  constexpr uint64_t most_unsaid = 16;
  std::vector<std::vector<std::byte>> notes = link.agent->take();
  if (notes.empty()) return false;
  link.heard = Clock::now();
  book_.heard(link.peer);
  for (std::vector<std::byte>& note : notes) {
    if (!link.failed.is_ok()) break;
    if (const Status s = take(link, std::move(note)); !s.is_ok()) link.failed = s;
  }
  if (link.unsaid >= most_unsaid && link.failed.is_ok()) say(link, NoteKind::answer);
  return true;
}

void NixlWire::heed(Link& link, const NoteHeader& header) {
  while (!link.untaken.empty() && link.untaken.front().number < header.taken) {
    book_.left(link.peer, link.untaken.front().message_bytes);
    link.untaken.pop_front();
  }
}

Status NixlWire::take(Link& link, std::vector<std::byte> note) {
  constexpr size_t most_early = 4096;
  ByteReader reader(note);
  const auto header = reader.get<NoteHeader>();
  if (!reader.is_whole() ||
      note.size() > static_cast<size_t>(max_frame_bytes(book_.options())) + sizeof(header))
    return fail(Errc::io, "Transport: {} bytes of a peer are no note", note.size());
  heed(link, header);
  if (header.kind == NoteKind::answer) return {};
  if (header.kind == NoteKind::ask) {
    if (link.state == Link::State::open) say(link, NoteKind::answer);
    return {};
  }
  if (header.number < link.next_in || link.early.size() > most_early)
    return fail(Errc::io, "Transport: a peer breaks the protocol: note {} where {} is next",
                header.number, link.next_in);
  link.early[header.number] = std::move(note);
  while (link.failed.is_ok() && !link.early.empty() && link.early.begin()->first == link.next_in) {
    const std::vector<std::byte> next = std::move(link.early.begin()->second);
    link.early.erase(link.early.begin());
    ++link.next_in;
    ++link.unsaid;
    ByteReader body(next);
    const NoteKind kind = body.get<NoteHeader>().kind;
    if (Status s = on_note(link, kind, body.rest()); !s.is_ok()) return s;
  }
  return {};
}

Status NixlWire::on_note(Link& link, NoteKind kind, std::span<const std::byte> body) {
  if (kind == NoteKind::frame) {
    auto frame = decode_frame(body);
    if (!frame) return frame.error();
    return link.state == Link::State::greeting ? on_welcome(link, *frame) : on_frame(link, *frame);
  }
  ByteReader reader(body);
  const auto regions = reader.get_all<NixlRegion>();
  const auto about = reader.get_all<std::byte>();
  if (kind != NoteKind::regions || !reader.is_at_end() || link.state != Link::State::open)
    return fail(Errc::io, "Transport: a peer breaks the protocol: a note of kind {}",
                static_cast<uint32_t>(kind));
  link.theirs.clear();
  for (const NixlRegion& region : regions) link.theirs.add(region);
  const auto other = link.agent->learn(about);
  if (!other) return other.error();
  if (*other == link.other) return {};
  return protocol_fault("it is another one now");
}

}  // namespace folio::inline v1::tier

namespace folio::inline v1 {

Result<std::unique_ptr<Transport>> make_nixl_transport(const TransportOptions& options,
                                                       const NixlOptions& nixl) noexcept {
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  if (nixl.transports.find(',') != std::string_view::npos || nixl.transports.empty())
    return fail(Errc::invalid_argument,
                "make_nixl_transport: transports is \"{}\", expected one of UCX's names",
                nixl.transports);
  const auto id = tier::random_end_id();
  if (!id) return id.error();
  const auto library = tier::load_nixl(nixl.library);
  if (!library) return library.error();
  try {
    auto book = std::make_unique<tier::Book>(options, tier::WireKind::nixl, *id);
    auto wire = std::make_unique<tier::NixlWire>(*book, **library, std::string(nixl.transports));
    if (Status s = wire->open(); !s.is_ok()) return s;
    return std::unique_ptr<Transport>(std::make_unique<tier::BookedTransport>(
        std::move(book), std::move(wire), tier::BookedTransport::Work::by_thread));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_nixl_transport: no memory");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "make_nixl_transport: no thread to be had: {}", e.what());
  }
}

}  // namespace folio::inline v1
