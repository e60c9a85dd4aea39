// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_notes.cpp: notes, taken in the order of their numbers.
#include <utility>

#include "tier/peer/bytes.h"
#include "tier/peer/nixl/nixl_wire.h"

namespace folio::inline v1::tier {

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
