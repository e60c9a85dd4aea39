// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/sender_messages.cpp: what receivers say, taken for anything.
#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>

#include "tier/transfer/sender.h"

namespace folio::inline v1::tier {

namespace {

HandoverOutcome outcome_of(uint8_t code) {
  switch (static_cast<AbortCode>(code)) {
    case AbortCode::refused: return HandoverOutcome::refused;
    case AbortCode::busy: return HandoverOutcome::busy;
    case AbortCode::cancelled: return HandoverOutcome::cancelled;
    case AbortCode::late: return HandoverOutcome::late;
    case AbortCode::failed: break;
  }
  return HandoverOutcome::failed;
}

}  // namespace

void HandoverSender::State::receive() {
  PeerMessage some[16];
  for (size_t count = std::size(some); count == std::size(some);) {
    count = transport.receive(some);
    for (const PeerMessage& message : std::span(some).first(count)) take(message);
  }
}

template <class Message>
void HandoverSender::State::take_for(PeerId peer, std::span<const std::byte> bytes) {
  std::optional<Message> message = decode<Message>(bytes);
  if (!message) {
    ++figures.refused_messages;
    return;
  }
  const auto at = handovers.find(message->id);
  if (at == handovers.end() || at->second.peer != peer) {
    ++(message->id < next_id ? figures.late_messages : figures.refused_messages);
    return;
  }
  if (at->second.step == Step::ending) {
    ++figures.late_messages;
    return;
  }
  at->second.heard_ms = now_ms;
  take(at->first, at->second, *message);
}

void HandoverSender::State::take(const PeerMessage& message) {
  const auto link = links.find(message.peer);
  const std::optional<Kind> kind = kind_of(message.bytes);
  if (link == links.end() || !kind) {
    ++figures.refused_messages;
    return;
  }
  switch (*kind) {
    case Kind::welcome:
      if (const auto welcome = decode<Welcome>(message.bytes);
          welcome && !link->second.is_welcome) {
        take(link->second, *welcome);
        return;
      }
      break;
    case Kind::unwelcome:
      if (const auto unwelcome = decode<Unwelcome>(message.bytes);
          unwelcome && !link->second.is_welcome) {
        link->second.refusal =
            fail(Errc::unsupported, "HandoverSender: the receiver refuses: {}", unwelcome->reason);
        return;
      }
      break;
    case Kind::accept: return take_for<Accept>(message.peer, message.bytes);
    case Kind::slots: return take_for<Slots>(message.peer, message.bytes);
    case Kind::abort: return take_for<Abort>(message.peer, message.bytes);
    case Kind::committed: return take_for<Committed>(message.peer, message.bytes);
    default: break;
  }
  ++figures.refused_messages;
}

void HandoverSender::State::take(Link& link, const Welcome& w) {
  Status fault = w.version == wire_version
                     ? check_geometry(w.geometry)
                     : fail(Errc::unsupported, "it has version {}", w.version);
  if (fault.is_ok()) fault = check_pair(geometry, w.geometry);
  if (fault.is_ok() && w.is_direct != 0 &&
      (!tier::is_direct(geometry, w.geometry) || w.places.size() != places.size()))
    fault = fail(Errc::unsupported, "its pages are not ones that can be written to");
  if (!fault.is_ok()) {
    link.refusal = fail(Errc::unsupported, "HandoverSender: the receiver's welcome is refused: {}",
                        fault.message());
    return;
  }
  link.is_welcome = true;
  link.geometry = w.geometry;
  link.is_direct = w.is_direct != 0;
  link.places = w.places;
  link.staging = w.staging;
  link.heads = common_heads(geometry, w.geometry);
}

void HandoverSender::State::take(uint64_t id, Outgoing& h, Accept& accept) {
  const Link& link = links.at(h.peer);
  const auto page_size = static_cast<size_t>(geometry.page_size);
  const size_t first = accept.cached_tokens / page_size;
  const size_t end_page = (h.tokens.size() + page_size - 1) / page_size;
  const bool fits = h.step == Step::announced && link.is_welcome &&
                    accept.cached_tokens < h.tokens.size() &&
                    (!link.is_direct || accept.cached_tokens % page_size == 0) &&
                    accept.pages.size() == (link.is_direct ? end_page - first : 0);
  if (!fits) {
    ++figures.refused_messages;
    return end(id, h, HandoverOutcome::failed,
               fail(Errc::io, "HandoverSender: the receiver accepts something else"));
  }
  h.step = Step::accepted;
  h.first_page = static_cast<int32_t>(first);
  h.end_page = static_cast<int32_t>(end_page);
  h.next.assign(planes.size(), h.first_page);
  h.pages.assign(end_page - first, Page{.open_layers = geometry.num_layers});
  h.remote_pages = std::move(accept.pages);
  h.open_pieces = std::ssize(h.pages) * geometry.num_layers;
  figures.skipped_tokens += accept.cached_tokens;
}

void HandoverSender::State::take(uint64_t id, Outgoing& h, const Slots& slots) {
  const Link& link = links.at(h.peer);
  const bool fits =
      h.step == Step::accepted && !link.is_direct &&
      slots.slots.size() <= h.wanted_slots - h.got_slots &&
      std::ranges::all_of(slots.slots, [&](uint32_t s) { return s < link.staging.slots; });
  if (!fits) {
    ++figures.refused_messages;
    return end(id, h, HandoverOutcome::failed,
               fail(Errc::io, "HandoverSender: the receiver gives slots that were not asked for"));
  }
  h.got_slots += static_cast<uint32_t>(slots.slots.size());
  h.slots.insert(h.slots.end(), slots.slots.begin(), slots.slots.end());
}

void HandoverSender::State::take(uint64_t id, Outgoing& h, const Abort& abort) {
  end(id, h, outcome_of(abort.code),
      fail(Errc::io, "HandoverSender: the receiver has given up: {}", abort.reason));
}

void HandoverSender::State::take(uint64_t id, Outgoing& h, const Committed&) {
  if (h.step == Step::done) return end(id, h, HandoverOutcome::done, {});
  ++figures.refused_messages;
  end(id, h, HandoverOutcome::failed,
      fail(Errc::io, "HandoverSender: the receiver has committed what has not all been sent"));
}

}  // namespace folio::inline v1::tier
