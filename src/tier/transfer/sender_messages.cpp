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

/// Of a receiver's page of windows or chunks, unless this end's are larger.
constexpr int32_t max_passing_tokens = 4096;

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
    case Kind::welcome_groups:
      if (auto welcome = decode<WelcomeGroups>(message.bytes);
          welcome && has_groups && !link->second.is_welcome) {
        take(link->second, *welcome);
        return;
      }
      break;
    case Kind::welcome:
      if (const auto welcome = decode<Welcome>(message.bytes);
          welcome && !has_groups && !link->second.is_welcome) {
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
    case Kind::accept_groups: return take_for<AcceptGroups>(message.peer, message.bytes);
    case Kind::slots: return take_for<Slots>(message.peer, message.bytes);
    case Kind::abort: return take_for<Abort>(message.peer, message.bytes);
    case Kind::committed: return take_for<Committed>(message.peer, message.bytes);
    default: break;
  }
  ++figures.refused_messages;
}

namespace {

Status refused_welcome(const Status& why) {
  return fail(Errc::unsupported, "HandoverSender: the receiver's welcome is refused: {}",
              why.message());
}

/// Of windows and chunks a sender holds whole pages of the receiver: what its rule gives up, too,
/// as far as a page reaches.
Status check_passing(const Layout& receiver, int32_t page_size) {
  const int32_t most = std::max(max_passing_tokens, page_size);
  const bool has_passing = std::ranges::any_of(receiver.groups, [](const GroupLayout& g) {
    return g.rule == GroupRule::window || g.rule == GroupRule::chunked;
  });
  if (!has_passing || receiver.page_size() <= most) return {};
  return fail(Errc::unsupported,
              "its pages of windows or chunks have {} tokens, expected at most {}",
              receiver.page_size(), most);
}

}  // namespace

void HandoverSender::State::take(Link& link, const Welcome& w) {
  const Geometry& geometry = layout.groups[0].pages;
  Status fault = w.version == wire_version
                     ? check_geometry(w.geometry)
                     : fail(Errc::unsupported, "it has version {}", w.version);
  if (fault.is_ok()) fault = check_pair(geometry, w.geometry);
  if (fault.is_ok() && w.is_direct != 0 &&
      (!tier::is_direct(geometry, w.geometry) || w.places.size() != places.size()))
    fault = fail(Errc::unsupported, "its pages are not ones that can be written to");
  if (!fault.is_ok()) {
    link.refusal = refused_welcome(fault);
    return;
  }
  link.layout = layout_of(w.geometry);
  link.bundles = bundles_of(layout, link.layout, w.is_direct != 0).value();
  link.is_welcome = true;
  link.places = w.places;
  link.staging = w.staging;
}

void HandoverSender::State::take(Link& link, WelcomeGroups& w) {
  Status fault = check_layout(w.layout);
  if (fault.is_ok()) fault = check_passing(w.layout, layout.page_size());
  Result<Bundles> bundles = Bundles();
  if (fault.is_ok()) {
    bundles = bundles_of(layout, w.layout, w.may_be_direct != 0);
    if (!bundles) fault = bundles.error();
  }
  if (fault.is_ok() && w.may_be_direct != 0 && w.places.size() != places.size())
    fault =
        fail(Errc::unsupported, "it has {} places, expected {}", w.places.size(), places.size());
  if (!fault.is_ok()) {
    link.refusal = refused_welcome(fault);
    return;
  }
  link.layout = std::move(w.layout);
  link.bundles = std::move(*bundles);
  link.is_welcome = true;
  link.places = std::move(w.places);
  link.staging = w.staging;
}

void HandoverSender::State::refuse_accept(uint64_t id, Outgoing& h, const char* what) {
  ++figures.refused_messages;
  end(id, h, HandoverOutcome::failed,
      fail(Errc::io, "HandoverSender: the receiver accepts something else: {}", what));
}

/// Of an end without groups: all tokens behind those that the receiver has.
void HandoverSender::State::take(uint64_t id, Outgoing& h, Accept& accepted) {
  const Link& link = links.at(h.peer);
  if (h.step != Step::announced || !link.is_welcome || has_groups)
    return refuse_accept(id, h, "what was not announced");
  const auto page_size = static_cast<size_t>(layout.page_size());
  const size_t first = accepted.cached_tokens / page_size;
  const size_t end_page = (h.tokens.size() + page_size - 1) / page_size;
  const bool is_direct = link.bundles.has(true);
  const bool fits = accepted.cached_tokens < h.tokens.size() &&
                    (!is_direct || accepted.cached_tokens % page_size == 0) &&
                    accepted.pages.size() == (is_direct ? end_page - first : 0);
  if (!fits) return refuse_accept(id, h, "other tokens or pages");
  accept(h, {.id = id,
             .cached_tokens = accepted.cached_tokens,
             .runs = {{.first = static_cast<int32_t>(accepted.cached_tokens),
                       .end = static_cast<int32_t>(h.tokens.size())}},
             .pages = std::move(accepted.pages)});
}

const char* HandoverSender::State::fault_of(const Outgoing& h, const AcceptGroups& accepted) const {
  const Link& link = links.at(h.peer);
  if (h.step != Step::announced || !link.is_welcome || !has_groups) return "what was not announced";
  if (accepted.cached_tokens >= h.tokens.size()) return "tokens that are not to be sent";
  const auto tokens = static_cast<int32_t>(h.tokens.size());
  if (const char* const fault = tier::fault_of(link.layout, accepted.runs, tokens);
      fault != nullptr)
    return fault;
  size_t pages = 0;
  for (const TokenRun& run : accepted.runs)
    if (link.bundles.is_direct_to(run.group)) pages += num_pages(link.layout, run);
  return pages == accepted.pages.size() ? nullptr : "another number of pages";
}

void HandoverSender::State::take(uint64_t id, Outgoing& h, const AcceptGroups& accepted) {
  if (const char* const fault = fault_of(h, accepted); fault != nullptr)
    return refuse_accept(id, h, fault);
  accept(h, accepted);
}

void HandoverSender::State::accept(Outgoing& h, const AcceptGroups& accepted) {
  const Link& link = links.at(h.peer);
  const auto tokens = static_cast<int32_t>(h.tokens.size());
  // without memory nothing changes: pages without their remote ones are never written
  std::vector<size_t> next(num_layers(), 0);
  std::vector<std::vector<Page>> pages(link.bundles.all.size());
  std::vector<std::pair<size_t, size_t>> passing;
  int64_t pieces = 0;
  for (size_t l = 0; l < pages.size(); ++l) {
    const Bundle& bundle = link.bundles.all[l];
    const GroupLayout& group = layout.groups[bundle.from];
    for (const int32_t entry : entries_of(layout, bundle, accepted.runs, tokens)) {
      if (group.rule != GroupRule::full && !group.is_state())
        passing.emplace_back(l, pages[l].size());
      pages[l].push_back({.entry = entry, .open_layers = bundle.layers});
    }
    pieces += std::ssize(pages[l]) * bundle.layers;
    if (bundle.is_direct) {
      // pages of equal size: those of the group's runs, in order
      size_t from = 0, to = 0;
      for (const TokenRun& run : accepted.runs) {
        const bool is_given = link.bundles.is_direct_to(run.group);
        const size_t count = is_given ? num_pages(link.layout, run) : 0;
        for (size_t p = 0; p < count && run.group == bundle.to; ++p)
          pages[l][to++].remote = accepted.pages[from + p];
        from += count;
      }
    }
  }
  h.next = std::move(next);
  h.pages = std::move(pages);
  h.passing = std::move(passing);
  h.pieces = h.open_pieces = pieces;
  h.step = Step::accepted;
  figures.skipped_tokens += accepted.cached_tokens;
}

void HandoverSender::State::take(uint64_t id, Outgoing& h, const Slots& slots) {
  const Link& link = links.at(h.peer);
  const bool fits =
      h.step == Step::accepted && link.bundles.has(false) &&
      slots.slots.size() <= h.wanted_slots - h.got_slots &&
      std::ranges::all_of(slots.slots, [&](uint32_t s) { return s < link.staging.slots; });
  if (!fits) {
    ++figures.refused_messages;
    return end(id, h, HandoverOutcome::failed,
               fail(Errc::io, "HandoverSender: the receiver gives slots that were not asked for"));
  }
  h.slots.insert(h.slots.end(), slots.slots.begin(), slots.slots.end());
  h.got_slots += static_cast<uint32_t>(slots.slots.size());
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
