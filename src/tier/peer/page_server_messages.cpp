// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_server_messages.cpp: what clients ask a page server for, and its slots.
#include <algorithm>

#include "tier/peer/page_server_state.h"

namespace folio::inline v1::tier {

using tier::PageAnswer;
using tier::PageMessage;
using tier::PageMessageKind;
using tier::PayloadHeader;

// ---- Slots

int64_t PageServer::State::take_slot() {
  if (free.empty()) {
    const auto idle =
        std::find_if(used.begin(), used.end(), [&](size_t s) { return slots[s].lent == 0; });
    if (idle == used.end()) return -1;
    ++figures.evicted_pages;
    hide(*idle);
  }
  const size_t slot = free.back();
  free.pop_back();
  return static_cast<int64_t>(slot);
}

void PageServer::State::admit(size_t slot) {
  Slot& s = slots[slot];
  places[s.header.name] = slot;
  s.used = used.insert(used.end(), slot);
  s.is_findable = true;
  ++figures.pages;
  figures.bytes += s.header.bytes;
  news.tell(PageMessageKind::index, s.header.name);
}

void PageServer::State::hide(size_t slot) {
  Slot& s = slots[slot];
  places.erase(s.header.name);
  used.erase(s.used);
  s.is_findable = false;
  --figures.pages;
  figures.bytes -= s.header.bytes;
  news.tell(PageMessageKind::gone, s.header.name);
  if (s.lent == 0) free.push_back(slot);
}

void PageServer::State::unlend(size_t slot) {
  --figures.lent_pages;
  if (--slots[slot].lent == 0 && !slots[slot].is_findable) free.push_back(slot);
}

// ---- Messages

void PageServer::State::say(PeerId peer, const PageMessage& message) {
  // who does not get it hears nothing, and takes the page for lost
  (void)transport->send(peer, encode(message));
}

void PageServer::State::subscribe(PeerId peer, const PageMessage& message) {
  if (message.fingerprint != options.fingerprint)
    return say(peer, {.kind = PageMessageKind::refused});
  std::vector<PageName> names;
  names.reserve(places.size());
  for (const auto& [name, slot] : places) names.push_back(name);
  news.subscribe(peer, names);
}

void PageServer::State::lend(PeerId peer, const PageMessage& message) {
  PageMessage answer{
      .kind = PageMessageKind::lent, .ticket = message.ticket, .lease_ms = options.lease_ms};
  Lease lease{.end = Clock::now() + std::chrono::milliseconds(options.lease_ms)};
  for (const PageName& name : message.names) {
    const auto found = places.find(name);
    answer.answers.push_back(found == places.end() ? PageAnswer::no : PageAnswer::yes);
    if (found == places.end()) {
      ++figures.missed_pages;
      continue;
    }
    const size_t slot = found->second;
    used.splice(used.end(), used, slots[slot].used);
    lease.slots.push_back(slot);
    answer.headers.push_back(slots[slot].header);
    answer.runs.push_back(run_of(slot));
  }
  const bool is_new = !leases.contains({peer, message.ticket});
  if (!is_new) ++figures.bad_messages;
  if (is_new && !lease.slots.empty()) {
    for (const size_t slot : lease.slots) ++slots[slot].lent;
    figures.lent_pages += static_cast<int64_t>(lease.slots.size());
    figures.loaded_pages += static_cast<int64_t>(lease.slots.size());
    leases[{peer, message.ticket}] = std::move(lease);
  }
  if (is_new) say(peer, answer);
}

void PageServer::State::give_room(PeerId peer, const PageMessage& message) {
  PageMessage answer{
      .kind = PageMessageKind::room, .ticket = message.ticket, .lease_ms = options.lease_ms};
  if (leases.contains({peer, message.ticket})) return void(++figures.bad_messages);
  Lease lease{.end = Clock::now() + std::chrono::milliseconds(options.lease_ms)};
  for (const PayloadHeader& header : message.headers) {
    const char* const fault = tier::fault_of(header);
    PageAnswer& given = answer.answers.emplace_back(PageAnswer::no);
    if (places.contains(header.name)) {
      given = PageAnswer::there_already;
    } else if (fault == nullptr && header.fingerprint == options.fingerprint && header.bytes > 0 &&
               header.bytes <= options.page_bytes &&
               options.access == PageServerOptions::Access::read_write) {
      const int64_t slot = take_slot();
      if (slot >= 0) {
        given = PageAnswer::yes;
        slots[static_cast<size_t>(slot)].header = header;
        lease.slots.push_back(static_cast<size_t>(slot));
        lease.awaited.push_back(header);
        answer.runs.push_back(run_of(static_cast<size_t>(slot)));
      }
    }
    if (given == PageAnswer::no) ++figures.refused_pages;
  }
  if (!lease.slots.empty()) leases[{peer, message.ticket}] = std::move(lease);
  say(peer, answer);
}

void PageServer::State::keep(PeerId peer, const PageMessage& message) {
  const auto found = leases.find({peer, message.ticket});
  if (found == leases.end() || found->second.awaited.empty()) return void(++figures.bad_messages);
  PageMessage answer{.kind = PageMessageKind::kept, .ticket = message.ticket};
  for (const size_t slot : found->second.slots) {
    const auto bytes = bytes_of(slot);
    const PayloadHeader& header = slots[slot].header;
    const bool is_whole =
        tier::extend_crc(0, bytes.data(), static_cast<int64_t>(bytes.size())) == header.crc;
    const bool is_twin = places.contains(header.name);  // another client was first
    answer.answers.push_back(is_whole ? PageAnswer::yes : PageAnswer::no);
    ++(is_whole ? figures.stored_pages : figures.refused_pages);
    if (is_whole && !is_twin) {
      admit(slot);
    } else {
      free.push_back(slot);
    }
  }
  leases.erase(found);
  say(peer, answer);
}

void PageServer::State::take(PeerId peer, const PageMessage& message) {
  switch (message.kind) {
    case PageMessageKind::subscribe: return subscribe(peer, message);
    case PageMessageKind::want: return lend(peer, message);
    case PageMessageKind::offer: return give_room(peer, message);
    case PageMessageKind::stored: return keep(peer, message);
    case PageMessageKind::returned: {
      const auto found = leases.find({peer, message.ticket});
      if (found == leases.end() || !found->second.awaited.empty()) return;
      for (const size_t slot : found->second.slots) unlend(slot);
      leases.erase(found);
      return;
    }
    case PageMessageKind::drop:
      if (options.access == PageServerOptions::Access::read_write)
        for (const PageName& name : message.names)
          if (const auto at = places.find(name); at != places.end()) hide(at->second);
      return;
    default: ++figures.bad_messages;
  }
}

void PageServer::State::expire(Clock::time_point now) {
  for (auto at = leases.begin(); at != leases.end();) {
    const PeerId peer = at->first.first;
    const bool has_gone = tier::is_lost(*transport, peer);
    if (now < at->second.end && !has_gone) {
      ++at;
      continue;
    }
    if (!has_gone) ++figures.expired_leases;
    if (at->second.awaited.empty()) {
      for (const size_t slot : at->second.slots) unlend(slot);
    } else {
      // it may be written still: not from the moment on when the transport has closed the way
      if (!has_gone) (void)transport->disconnect(peer);
      const auto until = now + std::chrono::milliseconds(options.lease_ms + 1000);
      for (const size_t slot : at->second.slots) shunned.emplace(until, slot);
    }
    at = leases.erase(at);
  }
  while (!shunned.empty() && shunned.begin()->first <= now) {
    free.push_back(shunned.begin()->second);
    shunned.erase(shunned.begin());
  }
  news.forget_lost();
}

}  // namespace folio::inline v1::tier
