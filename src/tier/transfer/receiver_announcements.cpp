// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/receiver_announcements.cpp: sequences that are announced, and the room for them.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "tier/transfer/receiver.h"

namespace folio::inline v1::tier {

namespace {

/// What another try may change.
bool is_want_of_room(Errc code) {
  return code == Errc::out_of_pages || code == Errc::busy || code == Errc::out_of_memory;
}

}  // namespace

Status HandoverReceiver::State::pin(Incoming& sequence, std::shared_ptr<Pins>& pins) {
  pins = sequence.pins.lock();
  if (pins != nullptr) return {};
  pins = std::make_shared<Pins>(pool);
  pins->pins.reserve(sequence.pages.size());
  const int32_t first = sequence.cached_tokens / geometry.page_size;
  for (size_t p = 0; p < sequence.pages.size(); ++p) {
    const Result<IoPin> pin = pool.begin_io(sequence.id, first + static_cast<int32_t>(p));
    if (!pin) return pin.error();
    pins->pins.push_back(*pin);
  }
  sequence.pins = pins;
  return {};
}

Status HandoverReceiver::State::open(const Announce& announce) {
  const Result<Admission> admission =
      pool.admit(announce.tokens,
                 {.salt = announce.salt, .adapter = announce.adapter, .spans = announce.spans});
  if (!admission) return admission.error();
  Incoming sequence{.id = admission->id,
                    .tokens = announce.tokens,
                    .salt = announce.salt,
                    .adapter = announce.adapter,
                    .spans = announce.spans,
                    .begun_ms = now_ms,
                    .heard_ms = now_ms};
  // A hit that ends inside a page is given up: whole pages come.
  const int32_t page_size = geometry.page_size;
  sequence.cached_tokens = admission->cached_tokens / page_size * page_size;
  Status s;
  if (sequence.cached_tokens != admission->cached_tokens)
    s = pool.trim(sequence.id, sequence.cached_tokens);
  const auto tokens = static_cast<int32_t>(announce.tokens.size());
  if (s.is_ok()) s = pool.reserve(sequence.id, tokens - sequence.cached_tokens);
  if (s.is_ok()) {
    const int64_t row = *pool.row_start(sequence.id);
    for (int32_t p = sequence.cached_tokens / page_size; p * page_size < tokens; ++p)
      sequence.pages.push_back(pool.table().entries[row + p]);
    sequences.emplace(announce.request, std::move(sequence));
    return {};
  }
  static_cast<void>(pool.release(sequence.id));
  return s;
}

/// Another part of a sequence that is on its way.
Status HandoverReceiver::State::join(const Incoming& sequence, const Peer& peer,
                                     const Announce& announce) const {
  const bool is_same = sequence.tokens == announce.tokens && sequence.salt == announce.salt &&
                       sequence.adapter == announce.adapter &&
                       std::ranges::equal(sequence.spans, announce.spans);
  if (!is_same)
    return fail(Errc::invalid_argument, "request {} is on its way with other tokens",
                announce.request);
  for (const PartId& id : sequence.parts) {
    const HeadRange has = peers.at(id.first).heads;
    if (has.first < peer.heads.first + peer.heads.count && peer.heads.first < has.first + has.count)
      return fail(Errc::invalid_argument, "request {} has a sender of heads {} .. {} already",
                  announce.request, has.first, has.first + has.count - 1);
  }
  return {};
}

void HandoverReceiver::State::refuse(PeerId peer, uint64_t id, const Status& why) {
  const bool is_busy = is_want_of_room(why.code());
  ++(is_busy ? figures.busy : figures.refused);
  fault = why;
  static_cast<void>(outbox.send(
      peer, Abort{.id = id,
                  .code = static_cast<uint8_t>(is_busy ? AbortCode::busy : AbortCode::refused),
                  .reason = std::string(why.message())}));
}

void HandoverReceiver::State::take(PeerId from, Announce& announce) {
  Peer& peer = peers.at(from);
  if (announce.id <= peer.last_id) return refuse_message(from, "an announcement that was made");
  peer.last_id = announce.id;
  ++figures.announced;
  if (announce.tokens.empty() || std::ssize(announce.tokens) > options.max_tokens)
    return refuse(from, announce.id,
                  fail(Errc::invalid_argument, "the prompt has {} tokens, expected 1 .. {}",
                       announce.tokens.size(), options.max_tokens));
  if (parts.size() >= options.max_handovers)
    return refuse(from, announce.id,
                  fail(Errc::busy, "{} handovers have not ended (max_handovers)", parts.size()));
  const auto known = sequences.find(announce.request);
  const bool is_new = known == sequences.end();
  if (Status s = is_new ? open(announce) : join(known->second, peer, announce); !s.is_ok())
    return refuse(from, announce.id, s);
  Incoming& sequence = sequences.at(announce.request);
  Part part{.request = announce.request, .heard_ms = now_ms};
  if (peer.is_direct) {
    if (Status s = pin(sequence, part.pins); !s.is_ok()) {
      if (is_new) {
        part.pins = nullptr;
        static_cast<void>(pool.release(sequence.id));
        sequences.erase(announce.request);
      }
      return refuse(from, announce.id, s);
    }
  }
  const int32_t page_size = peer.geometry.page_size;
  part.first_page = sequence.cached_tokens / page_size;
  part.end_page = (static_cast<int32_t>(announce.tokens.size()) + page_size - 1) / page_size;
  part.open_pieces = int64_t{part.end_page - part.first_page} * geometry.num_layers;
  part.has_landed.assign(static_cast<size_t>(part.open_pieces), false);
  part.landed.assign(planes.size(), 0);
  Accept accept{.id = announce.id, .cached_tokens = static_cast<uint32_t>(sequence.cached_tokens)};
  if (peer.is_direct) accept.pages = sequence.pages;
  sequence.parts.emplace_back(from, announce.id);
  sequence.heard_ms = now_ms;
  parts.emplace(PartId(from, announce.id), std::move(part));
  ++figures.accepted;
  if (Status s = outbox.send(from, accept); !s.is_ok())
    fail_sequence(announce.request, AbortCode::failed, s);
}

}  // namespace folio::inline v1::tier
