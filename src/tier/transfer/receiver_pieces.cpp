// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver_pieces.cpp: messages of senders, and the pieces that they tell of.
#include <algorithm>
#include <array>

#include "folio/cache/copy.h"
#include "tier/payload.h"
#include "tier/transfer/receiver.h"

namespace folio::inline v1::tier {

namespace {

/// So that a step waits for no more: the others are received by the next call.
constexpr int max_messages_per_poll = 64;

}  // namespace

// ---- Messages

void HandoverReceiver::State::receive() {
  PeerMessage message[1];
  for (int i = 0; i < max_messages_per_poll && transport.receive(message) == 1; ++i)
    take(message[0]);
}

void HandoverReceiver::State::refuse_message(PeerId peer, const char* what) {
  ++figures.refused_messages;
  fault = fail(Errc::io, "HandoverReceiver: peer {} sends {}", peer.value, what);
}

void HandoverReceiver::State::refuse_part(PartId id, const char* what) {
  refuse_message(id.first, what);
  fail_sequence(parts.at(id).request, AbortCode::refused, Status(fault));
}

template <class Message>
void HandoverReceiver::State::take_for(PeerId from, std::span<const std::byte> bytes) {
  std::optional<Message> message = decode<Message>(bytes);
  if (!message) {
    refuse_message(from, "what is no message");
    return cut_off_peer(from);
  }
  const PartId id(from, message->id);
  const auto at = parts.find(id);
  if (at == parts.end()) {
    if (message->id > peers.at(from).last_id) return refuse_message(from, "an unknown handover");
    // a refused handover is ended by its sender, too
    if (Message::kind != Kind::ended) ++figures.late_messages;
    return;
  }
  Part& part = at->second;
  if (part.step != Step::filling && Message::kind != Kind::ended) {
    if (part.step == Step::done) return refuse_part(id, "something behind its last message");
    ++figures.late_messages;
    return;
  }
  if (const auto sequence = sequences.find(part.request);
      sequence != sequences.end() && part.step == Step::filling)
    sequence->second.heard_ms = now_ms;
  take(id, part, *message);
}

void HandoverReceiver::State::take(const PeerMessage& message) {
  const std::optional<Kind> kind = kind_of(message.bytes);
  const auto peer = peers.find(message.peer);
  if (kind == Kind::hello) {
    const auto hello = decode<Hello>(message.bytes);
    if (hello && peer == peers.end()) return take(message.peer, *hello);
  }
  if (peer == peers.end()) {
    const Result<PeerState> state = transport.peer_state(message.peer);
    if (state && *state != PeerState::lost) return refuse_message(message.peer, "no hello");
    ++figures.late_messages;  // was under way when it was lost or cut off
    return;
  }
  if (peer->second.is_refused) return;  // what was under way meanwhile
  if (kind == Kind::announce) {
    if (auto announce = decode<Announce>(message.bytes)) return take(message.peer, *announce);
  } else if (kind == Kind::want) {
    return take_for<Want>(message.peer, message.bytes);
  } else if (kind == Kind::landed) {
    return take_for<Landed>(message.peer, message.bytes);
  } else if (kind == Kind::done) {
    return take_for<Done>(message.peer, message.bytes);
  } else if (kind == Kind::ended) {
    return take_for<Ended>(message.peer, message.bytes);
  }
  refuse_message(message.peer, "what is no message");
  cut_off_peer(message.peer);
}

/// Whether copies can make our pages of the sender's.
Status HandoverReceiver::State::check_sender(const Geometry& sender) {
  if (Status s = check_geometry(sender); !s.is_ok()) return s;
  if (Status s = check_pair(sender, geometry); !s.is_ok()) return s;
  const HeadRange heads = common_heads(sender, geometry);
  const SlotLayout layout = slot_layout(sender, heads.count);
  if (layout.bytes > staging.slot_bytes())
    return fail(Errc::unsupported,
                "a piece takes {} bytes, expected at most {} "
                "(staging_slot_bytes)",
                layout.bytes, staging.slot_bytes());
  // Without copies, a call only checks.
  for (size_t layer = 0; layer < planes.size(); ++layer) {
    const KVPlanes to = with_heads(planes[layer], heads.first - geometry.first_head, heads.count);
    const KVPlanes from = planes_in_slot(sender, heads.count, staging.memory(), to, geometry);
    Status s = sender.page_size == geometry.page_size
                   ? copy_pages({&from, 1}, {&to, 1}, {}, options.executor)
                   : copy_slots({&from, 1}, {&to, 1}, {}, options.executor);
    if (!s.is_ok()) return s;
  }
  return {};
}

void HandoverReceiver::State::take(PeerId from, const Hello& hello) {
  Peer peer{.geometry = hello.geometry};
  Status s = hello.version == wire_version
                 ? check_sender(hello.geometry)
                 : fail(Errc::unsupported, "the sender has version {}, expected {}", hello.version,
                        wire_version);
  if (!s.is_ok()) {
    peer.is_refused = true;
    peers.emplace(from, peer);
    ++figures.refused_peers;
    fault = s;
    static_cast<void>(outbox.send(from, Unwelcome{.reason = std::string(s.message())}));
    return;
  }
  peer.heads = common_heads(hello.geometry, geometry);
  peer.is_direct = options.landing == Landing::direct && is_direct(hello.geometry, geometry);
  Welcome welcome{.is_direct = static_cast<uint8_t>(peer.is_direct),
                  .staging = {.region = staging.region().value,
                              .slots = staging.slots(),
                              .stride = staging.slot_bytes()}};
  welcome.geometry = geometry;
  if (peer.is_direct) welcome.places = places;
  peers.emplace(from, peer);
  if (!outbox.send(from, welcome).is_ok()) cut_off_peer(from);
}

// ---- Pieces

void HandoverReceiver::State::take(PartId id, Part& part, const Want& want) {
  if (peers.at(id.first).is_direct) return refuse_part(id, "a wish for slots that it needs not");
  if (want.slots <= part.wanted_slots) return refuse_part(id, "a wish for fewer slots than before");
  part.wanted_slots = want.slots;
}

void HandoverReceiver::State::give_slots() {
  std::map<PartId, std::vector<uint32_t>> given;
  const size_t most = std::max<size_t>(staging.slots() / 2, 1);  // of a part
  const auto wants = [&](const Part& part) {
    return part.step == Step::filling && part.got_slots < part.wanted_slots &&
           part.slots.size() < most;
  };
  // parts take turns, from the one behind the last
  for (bool found = true; found && staging.free_slots() != 0;) {
    found = false;
    auto at = parts.upper_bound(last_served);
    for (size_t i = 0; i < parts.size() && staging.free_slots() != 0; ++i, ++at) {
      if (at == parts.end()) at = parts.begin();
      if (!wants(at->second)) continue;
      const uint32_t slot = staging.take();
      at->second.slots.insert(slot);
      ++at->second.got_slots;
      given[at->first].push_back(slot);
      last_served = at->first;
      found = true;
    }
  }
  for (auto& [id, slots] : given)
    static_cast<void>(outbox.send(id.first, Slots{.id = id.second, .slots = std::move(slots)}));
}

/// Null for a piece that the sender may tell of.
const char* HandoverReceiver::State::fault_of(const Peer& peer, const Part& part, uint32_t layer,
                                              const LandedPiece& piece) const {
  if (layer >= planes.size()) return "a layer that is none";
  if (piece.page < static_cast<uint32_t>(part.first_page) ||
      piece.page >= static_cast<uint32_t>(part.end_page))
    return "a page that is none of the handover's";
  const auto pages = static_cast<size_t>(part.end_page - part.first_page);
  if (part.has_landed[layer * pages + piece.page - static_cast<uint32_t>(part.first_page)])
    return "a piece that has landed";
  return peer.is_direct || part.slots.contains(piece.slot) ? nullptr : "a slot that it has not got";
}

bool HandoverReceiver::State::is_intact(const Peer& peer, const Incoming& sequence, uint32_t layer,
                                        const LandedPiece& piece) {
  const int32_t page_size = peer.geometry.page_size;
  const auto page = static_cast<int32_t>(piece.page);
  const int32_t tokens =
      std::min(page_size, static_cast<int32_t>(sequence.tokens.size()) - page * page_size);
  std::vector<RegionRun> runs;
  if (peer.is_direct) {
    const int32_t first = sequence.cached_tokens / page_size;
    add_piece_runs(peer.geometry,
                   std::span(places).subspan(size_t{layer} * num_sections, num_sections),
                   {.page = sequence.pages[static_cast<size_t>(page - first)],
                    .head = peer.heads.first - geometry.first_head,
                    .heads = peer.heads.count,
                    .tokens = tokens},
                   runs);
  } else {
    add_piece_runs(peer.geometry,
                   places_in_slot(peer.geometry, peer.heads.count, staging.region().value,
                                  piece.slot * staging.slot_bytes()),
                   {.heads = peer.heads.count, .tokens = tokens}, runs);
  }
  uint32_t crc = 0;
  int64_t bytes = 0;
  for (const RegionRun& run : runs) {
    const std::byte* memory = staging.memory();
    if (run.region != staging.region())
      memory = std::ranges::find(regions, run.region, &TransferRegion::id)->memory.data();
    crc = extend_crc(crc, memory + run.offset, run.bytes);
    bytes += run.bytes;
  }
  figures.bytes += bytes;
  return crc == piece.crc;
}

Status HandoverReceiver::State::convert(const Peer& peer, const Incoming& sequence, uint32_t layer,
                                        const LandedPiece& piece) {
  const KVPlanes to =
      with_heads(planes[layer], peer.heads.first - geometry.first_head, peer.heads.count);
  const KVPlanes from =
      planes_in_slot(peer.geometry, peer.heads.count, staging.slot(piece.slot), to, geometry);
  const int32_t begin = static_cast<int32_t>(piece.page) * peer.geometry.page_size;
  const int32_t first = std::max(begin, sequence.cached_tokens);
  const int32_t last =
      std::min(begin + peer.geometry.page_size, static_cast<int32_t>(sequence.tokens.size()));
  const int32_t page_size = geometry.page_size;
  const int32_t first_page = sequence.cached_tokens / page_size;
  if (peer.geometry.page_size == page_size) {
    const PageCopy copy{.to = sequence.pages[piece.page - static_cast<uint32_t>(first_page)],
                        .tokens = last - begin};
    return copy_pages({&from, 1}, {&to, 1}, {&copy, 1}, options.executor);
  }
  std::vector<SlotCopy> copies;
  copies.reserve(static_cast<size_t>(last - first));
  for (int32_t t = first; t < last; ++t) {
    const uint32_t page = sequence.pages[static_cast<size_t>(t / page_size - first_page)];
    copies.push_back({.from = t - begin, .to = int64_t{page} * page_size + t % page_size});
  }
  return copy_slots({&from, 1}, {&to, 1}, copies, options.executor);
}

int32_t HandoverReceiver::State::layers_ready(const Incoming& sequence) const {
  for (size_t layer = 0; layer < planes.size(); ++layer) {
    int32_t heads = 0;
    for (const PartId& id : sequence.parts) {
      const Part& part = parts.at(id);
      if (part.landed[layer] == part.end_page - part.first_page)
        heads += peers.at(id.first).heads.count;
    }
    if (heads != geometry.num_heads) return static_cast<int32_t>(layer);
  }
  return geometry.num_layers;
}

void HandoverReceiver::State::take(PartId id, Part& part, const Landed& landed) {
  const Peer& peer = peers.at(id.first);
  const Incoming& sequence = sequences.at(part.request);
  const auto pages = static_cast<size_t>(part.end_page - part.first_page);
  if (landed.pieces.empty()) return refuse_part(id, "nothing that has landed");
  for (const LandedPiece& piece : landed.pieces) {
    if (const char* const what = fault_of(peer, part, landed.layer, piece); what != nullptr)
      return refuse_part(id, what);
    if (!is_intact(peer, sequence, landed.layer, piece)) {
      ++figures.corrupt_pieces;
      return fail_sequence(
          part.request, AbortCode::failed,
          fail(Errc::io, "page {} of layer {} came damaged", piece.page, landed.layer));
    }
    if (!peer.is_direct) {
      if (Status s = convert(peer, sequence, landed.layer, piece); !s.is_ok())
        return fail_sequence(part.request, AbortCode::failed, s);
      part.slots.erase(piece.slot);
      staging.give_back(piece.slot);
    }
    part.has_landed[landed.layer * pages + piece.page - static_cast<uint32_t>(part.first_page)] =
        true;
    ++part.landed[landed.layer];
    --part.open_pieces;
    ++(peer.is_direct ? figures.direct_pieces : figures.staged_pieces);
  }
}

}  // namespace folio::inline v1::tier
