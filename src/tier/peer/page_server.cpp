// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_server.cpp: slots of one region. A slot is *free*, *awaited* (room that a client
/// was given), *whole* (findable, or only lent still), or *shunned*: a client that was given it has
/// gone or is late, and the transport may touch it for a while.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "folio/core/buffer.h"
#include "folio/tier/peer_tier.h"
#include "tier/peer/page_message.h"

namespace folio::inline v1 {

using Clock = std::chrono::steady_clock;
using tier::PageAnswer;
using tier::PageMessage;
using tier::PageMessageKind;
using tier::PayloadHeader;

struct PageServer::State {
  struct Slot {
    PayloadHeader header;
    int64_t lent = 0;
    bool is_findable = false;
    std::list<size_t>::iterator used;  ///< of those that are findable
  };
  /// What a client was lent or given room for.
  struct Lease {
    std::vector<size_t> slots = {};
    std::vector<PayloadHeader> awaited = {};  ///< of room
    Clock::time_point end = {};
  };
  using LeaseKey = std::pair<PeerId, uint64_t>;

  State(Transport* t, const PageServerOptions& o) : transport(t), options(o) {}

  [[nodiscard]] std::span<std::byte> bytes_of(size_t slot) const noexcept {
    return {memory.data() + static_cast<int64_t>(slot) * options.page_bytes,
            static_cast<size_t>(slots[slot].header.bytes)};
  }
  [[nodiscard]] RegionRun run_of(size_t slot) const noexcept {
    return {region, static_cast<int64_t>(slot) * options.page_bytes, slots[slot].header.bytes};
  }
  /// -1: there is none.
  [[nodiscard]] int64_t take_slot();
  void admit(size_t slot);
  /// Nobody finds it; free when it is not lent either.
  void hide(size_t slot);
  void unlend(size_t slot);

  void take(PeerId peer, const PageMessage& message);
  void subscribe(PeerId peer, const PageMessage& message);
  void lend(PeerId peer, const PageMessage& message);
  void give_room(PeerId peer, const PageMessage& message);
  void keep(PeerId peer, const PageMessage& message);
  void expire(Clock::time_point now);
  void announce(PageMessageKind kind, const PageName& name);
  void announce_all();
  void say(PeerId peer, const PageMessage& message);

  Transport* const transport;
  const PageServerOptions options;
  Buffer memory;
  RegionId region;
  std::vector<Slot> slots;
  std::vector<size_t> free;
  std::map<PageName, size_t> places;
  std::list<size_t> used;  ///< the one used longest ago first
  std::map<LeaseKey, Lease> leases;
  std::map<PeerId, std::vector<std::pair<PageMessageKind, PageName>>> news;  ///< of subscribers
  std::multimap<Clock::time_point, size_t> shunned;                          ///< until then
  PageServerFigures figures;
};

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
  announce(PageMessageKind::index, s.header.name);
}

void PageServer::State::hide(size_t slot) {
  Slot& s = slots[slot];
  places.erase(s.header.name);
  used.erase(s.used);
  s.is_findable = false;
  --figures.pages;
  figures.bytes -= s.header.bytes;
  announce(PageMessageKind::gone, s.header.name);
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

void PageServer::State::announce(PageMessageKind kind, const PageName& name) {
  for (auto& [peer, list] : news) list.emplace_back(kind, name);
}

void PageServer::State::announce_all() {
  constexpr size_t most_names = 8192;
  for (auto at = news.begin(); at != news.end();) {
    auto& [peer, list] = *at;
    Status sent;
    for (size_t first = 0; first < list.size() && sent.is_ok();) {
      PageMessage message{.kind = list[first].first};
      for (; first < list.size() && list[first].first == message.kind &&
             message.names.size() < most_names;
           ++first)
        message.names.push_back(list[first].second);
      sent = transport->send(peer, encode(message));
    }
    list.clear();
    // who has not heard everything must not take what he knows for all there is
    if (!sent.is_ok()) (void)transport->disconnect(peer);
    at = sent.is_ok() ? std::next(at) : news.erase(at);
  }
}

void PageServer::State::subscribe(PeerId peer, const PageMessage& message) {
  if (message.fingerprint != options.fingerprint)
    return say(peer, {.kind = PageMessageKind::refused});
  auto& list = news[peer];
  list.clear();
  list.reserve(places.size());
  for (const auto& [name, slot] : places) list.emplace_back(PageMessageKind::index, name);
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
    const auto state = transport->peer_state(peer);
    const bool is_lost = !state || *state == PeerState::lost;
    if (now < at->second.end && !is_lost) {
      ++at;
      continue;
    }
    if (!is_lost) ++figures.expired_leases;
    if (at->second.awaited.empty()) {
      for (const size_t slot : at->second.slots) unlend(slot);
    } else {
      // it may be written still: not from the moment on when the transport has closed the way
      if (!is_lost) (void)transport->disconnect(peer);
      const auto until = now + std::chrono::milliseconds(options.lease_ms + 1000);
      for (const size_t slot : at->second.slots) shunned.emplace(until, slot);
    }
    at = leases.erase(at);
  }
  while (!shunned.empty() && shunned.begin()->first <= now) {
    free.push_back(shunned.begin()->second);
    shunned.erase(shunned.begin());
  }
  std::erase_if(news, [&](const auto& entry) {
    const auto state = transport->peer_state(entry.first);
    return !state || *state == PeerState::lost;
  });
}

// ---- The server

PageServer::PageServer(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

PageServer::~PageServer() {
  // transfers of peers may touch it: their ways are closed first
  while (state_->transport->remove_region(state_->region).code() == Errc::busy)
    for (const auto& [key, lease] : state_->leases) (void)state_->transport->disconnect(key.first);
}

Result<std::unique_ptr<PageServer>> PageServer::create(Transport* transport,
                                                       const PageServerOptions& options) noexcept {
  constexpr int64_t most = int64_t{1} << 50, most_ms = 86'400'000;
  if (transport == nullptr)
    return fail(Errc::invalid_argument, "PageServer::create: transport is null");
  if (options.page_bytes < 1 || options.page_bytes > most)
    return fail(Errc::invalid_argument, "PageServer::create: page_bytes is {}, expected 1 .. {}",
                options.page_bytes, most);
  if (options.max_bytes < options.page_bytes || options.max_bytes > most)
    return fail(Errc::invalid_argument, "PageServer::create: max_bytes is {}, expected {} .. {}",
                options.max_bytes, options.page_bytes, most);
  if (options.lease_ms < 1 || options.lease_ms > most_ms)
    return fail(Errc::invalid_argument, "PageServer::create: lease_ms is {}, expected 1 .. {}",
                options.lease_ms, most_ms);
  try {
    auto state = std::make_unique<State>(transport, options);
    const int64_t count = options.max_bytes / options.page_bytes;
    auto memory = Buffer::allocate(count * options.page_bytes);
    if (!memory) return memory.error();
    state->memory = std::move(*memory);
    state->slots.resize(static_cast<size_t>(count));
    for (size_t i = state->slots.size(); i-- > 0;) state->free.push_back(i);
    const auto region = transport->add_region(
        {state->memory.data(), static_cast<size_t>(count * options.page_bytes)});
    if (!region) return region.error();
    state->region = *region;
    return std::unique_ptr<PageServer>(new PageServer(std::move(state)));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "PageServer::create: no memory for {} bytes",
                options.max_bytes);
  }
}

Result<std::vector<std::byte>> PageServer::address() const noexcept {
  return state_->transport->address();
}

void PageServer::poll() noexcept {
  try {
    PeerMessage messages[32];
    for (size_t count; (count = state_->transport->receive(messages)) > 0;) {
      for (const PeerMessage& message : std::span(messages).first(count)) {
        const auto read = tier::decode_page_message(message.bytes);
        if (!read) {
          ++state_->figures.bad_messages;
          if (read.error().code() == Errc::unsupported)
            state_->say(message.peer, {.kind = PageMessageKind::refused});
          continue;
        }
        state_->take(message.peer, *read);
      }
    }
    state_->announce_all();
    state_->expire(Clock::now());
  } catch (const std::bad_alloc&) {  // who asked waits in vain, and takes the page for lost
  }
}

Status PageServer::put(const PageName& name, std::span<const Extent> extents) noexcept {
  const int64_t bytes = tier::bytes_of(extents);
  if (bytes < 1 || bytes > state_->options.page_bytes)
    return fail(Errc::invalid_argument, "PageServer::put: the page has {} bytes, expected 1 .. {}",
                bytes, state_->options.page_bytes);
  if (has(name)) return {};
  try {
    const int64_t slot = state_->take_slot();
    if (slot < 0) return fail(Errc::busy, "PageServer::put: all pages are lent");
    const auto at = static_cast<size_t>(slot);
    state_->slots[at].header = tier::header_of(name, state_->options.fingerprint, extents);
    std::byte* to = state_->bytes_of(at).data();
    for (const Extent& e : extents) {
      std::memcpy(to, e.data, static_cast<size_t>(e.bytes));
      to += e.bytes;
    }
    state_->admit(at);
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "PageServer::put: no memory");
  }
}

void PageServer::drop(const PageName& name) noexcept {
  try {
    if (const auto at = state_->places.find(name); at != state_->places.end())
      state_->hide(at->second);
  } catch (const std::bad_alloc&) {  // clients ask for it in vain
  }
}

bool PageServer::has(const PageName& name) const noexcept { return state_->places.contains(name); }

PageServerFigures PageServer::figures() const noexcept { return state_->figures; }

}  // namespace folio::inline v1
