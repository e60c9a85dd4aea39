// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver_pieces.cpp: messages of senders, and the pieces that they tell of.
#include <algorithm>
#include <cstring>

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
  if (kind == Kind::groups && !peer->second.is_known) {
    if (auto groups = decode<Groups>(message.bytes)) return take(message.peer, *groups);
  } else if (!peer->second.is_known) {
    return refuse_message(message.peer, "no groups behind its hello");
  } else if (kind == Kind::announce) {
    if (auto announce = decode<Announce>(message.bytes)) return take(message.peer, *announce);
  } else if (kind == Kind::want) {
    return take_for<Want>(message.peer, message.bytes);
  } else if (kind == Kind::landed) {
    return take_for<Landed>(message.peer, message.bytes);
  } else if (kind == Kind::done) {
    return take_for<Done>(message.peer, message.bytes);
  } else if (kind == Kind::ended) {
    return take_for<Ended>(message.peer, message.bytes);
  } else if (kind == Kind::computing && has_groups) {
    return take_for<Computing>(message.peer, message.bytes);
  }
  refuse_message(message.peer, "what is no message");
  cut_off_peer(message.peer);
}

// ---- Pieces

void HandoverReceiver::State::take(PartId id, Part& part, const Want& want) {
  if (!peers.at(id.first).bundles.has(false))
    return refuse_part(id, "a wish for slots that it needs not");
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
  if (layer >= own.layout.num_layers()) return "a layer that is none";
  const Bundle* const bundle = peer.bundles.of_layer(layer);
  if (bundle == nullptr) return "a layer of which it has no heads";
  const auto& entries = part.entries[static_cast<size_t>(peer.bundles.of[layer])];
  const auto at = std::ranges::lower_bound(entries, int64_t{piece.page}, {},
                                           [](int32_t entry) { return int64_t{entry}; });
  if (at == entries.end() || *at != int64_t{piece.page})
    return "a page that is none of the handover's";
  if (part.has_landed[layer][static_cast<size_t>(at - entries.begin())])
    return "a piece that has landed";
  return bundle->is_direct || part.slots.contains(piece.slot) ? nullptr
                                                              : "a slot that it has not got";
}

bool HandoverReceiver::State::is_intact(const Told& told, const Incoming& sequence) {
  const Geometry &theirs = told.theirs, &ours = own.layout.of(told.layer).pages;
  const int32_t heads = told.bundle.heads.count;
  const int32_t tokens = tokens_of(told.from, static_cast<int32_t>(told.piece.page),
                                   static_cast<int32_t>(sequence.tokens.size()));
  std::vector<RegionRun> runs;
  if (told.bundle.is_direct) {
    add_piece_runs(theirs, std::span(places).subspan(told.layer * num_sections, num_sections),
                   {.page = page_of(told, sequence),
                    .head = told.bundle.heads.first - ours.first_head,
                    .heads = heads,
                    .tokens = tokens},
                   runs);
  } else {
    add_piece_runs(theirs,
                   places_in_slot(theirs, heads, staging.region().value,
                                  told.piece.slot * staging.slot_bytes()),
                   {.heads = heads, .tokens = tokens}, runs);
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
  return crc == told.piece.crc;
}

/// Its heads, part by part.
void HandoverReceiver::State::copy_state(const Told& told, const Incoming& sequence) const {
  const Geometry& ours = own.layout.of(told.layer).pages;
  const StatePages& state = own.states[told.layer];
  const SlotLayout slot = slot_layout(told.theirs, told.bundle.heads.count);
  const int64_t first = told.bundle.heads.first - ours.first_head;
  std::byte* to = state.data + page_of(told, sequence) * state.page_stride_bytes;
  for (size_t part = 0; part < ours.state_rows.size(); ++part) {
    const int64_t row = ours.state_rows[part];
    std::memcpy(to + first * row, staging.slot(told.piece.slot) + slot.offset[part],
                static_cast<size_t>(row * told.bundle.heads.count));
    to += row * ours.num_heads;
  }
}

Status HandoverReceiver::State::convert(const Told& told, const Incoming& sequence) {
  if (told.from.is_state()) return copy_state(told, sequence), Status();
  const Geometry &theirs = told.theirs, ours = own.layout.at(told.layer);
  const int32_t heads = told.bundle.heads.count;
  const KVPlanes to =
      with_heads(own.planes[told.layer], told.bundle.heads.first - ours.first_head, heads);
  const KVPlanes from = planes_in_slot(theirs, heads, staging.slot(told.piece.slot), to, ours);
  const int32_t entry = static_cast<int32_t>(told.piece.page), begin = entry * theirs.page_size;
  const int32_t last =
      begin + tokens_of(told.from, entry, static_cast<int32_t>(sequence.tokens.size()));
  if (theirs.page_size == ours.page_size) {
    const PageCopy copy{.to = page_of(told, sequence), .tokens = last - begin};
    return copy_pages({&from, 1}, {&to, 1}, {&copy, 1}, options.executor);
  }
  const std::vector<uint32_t>& pages = sequence.pages[told.bundle.to];
  std::vector<SlotCopy> copies;
  copies.reserve(static_cast<size_t>(last - begin));
  for (int32_t t = begin; t < last; ++t) {
    const uint32_t page = pages[static_cast<size_t>(t / ours.page_size)];
    if (page == no_page) continue;  // not to be filled
    copies.push_back(
        {.from = t - begin, .to = int64_t{page} * ours.page_size + t % ours.page_size});
  }
  return copy_slots({&from, 1}, {&to, 1}, copies, options.executor);
}

int32_t HandoverReceiver::State::heads_at(const PartId& id, size_t layer) const {
  const Bundle* const bundle = peers.at(id.first).bundles.of_layer(layer);
  const Part& part = parts.at(id);
  return bundle != nullptr && part.landed[layer] == part.has_landed[layer].size()
             ? bundle->heads.count
             : 0;
}

int32_t HandoverReceiver::State::layers_ready(const Incoming& sequence) const {
  for (size_t layer = 0; layer < own.layout.num_layers(); ++layer) {
    int32_t heads = 0;
    for (const PartId& id : sequence.parts) heads += heads_at(id, layer);
    if (heads != own.layout.of(layer).pages.num_heads) return static_cast<int32_t>(layer);
  }
  return static_cast<int32_t>(own.layout.num_layers());
}

bool HandoverReceiver::State::take(PartId id, Part& part, const Told& told) {
  const Incoming& sequence = sequences.at(part.request);
  if (!is_intact(told, sequence)) {
    ++figures.corrupt_pieces;
    fail_sequence(part.request, AbortCode::failed,
                  fail(Errc::io, "page {} of layer {} came damaged", told.piece.page, told.layer));
    return true;
  }
  if (!told.bundle.is_direct) {
    if (Status s = convert(told, sequence); !s.is_ok()) {
      fail_sequence(part.request, AbortCode::failed, s);
      return true;
    }
    part.slots.erase(told.piece.slot);
    staging.give_back(told.piece.slot);
  }
  const auto& entries =
      part.entries[static_cast<size_t>(peers.at(id.first).bundles.of[told.layer])];
  const auto at = std::ranges::lower_bound(entries, static_cast<int32_t>(told.piece.page));
  part.has_landed[told.layer][static_cast<size_t>(at - entries.begin())] = true;
  ++part.landed[told.layer];
  --part.open_pieces;
  ++(told.bundle.is_direct ? figures.direct_pieces : figures.staged_pieces);
  return false;
}

void HandoverReceiver::State::take(PartId id, Part& part, const Landed& landed) {
  const Peer& peer = peers.at(id.first);
  if (landed.pieces.empty()) return refuse_part(id, "nothing that has landed");
  for (const LandedPiece& piece : landed.pieces) {
    if (const char* const what = fault_of(peer, part, landed.layer, piece); what != nullptr)
      return refuse_part(id, what);
    const Bundle& bundle = *peer.bundles.of_layer(landed.layer);
    const Told told{bundle, peer.layout.of(landed.layer), peer.layout.at(landed.layer),
                    landed.layer, piece};
    if (take(id, part, told)) return;
  }
}

}  // namespace folio::inline v1::tier
