// SPDX-License-Identifier: Apache-2.0
/// tier/peer/pool_page_server.cpp: leases of a pool's pages: those that are asked for are pinned,
/// behind a sequence without tokens, of their adapter.
#include "folio/tier/pool_page_server.h"

#include <chrono>
#include <map>
#include <new>
#include <optional>
#include <utility>

#include "tier/checks.h"
#include "tier/manager/group_pages.h"
#include "tier/payload.h"
#include "tier/peer/areas.h"
#include "tier/peer/page_message.h"
#include "tier/peer/page_news.h"
#include "tier/peer/pool_contents.h"

namespace folio::inline v1::tier {

using Clock = std::chrono::steady_clock;
using tier::PageAnswer;
using tier::PageMessage;
using tier::PageMessageKind;

namespace {

constexpr auto creating = "PoolPageServer::create";

}  // namespace

struct PoolPageServer::State {
  struct Lease {
    std::vector<IoPin> pins = {};
    Clock::time_point end = {};
  };
  /// Of a page that was asked for.
  struct Loan {
    IoPin pin;
    std::vector<Extent> extents;
  };
  /// Where in the message, by groups of each leading page.
  using Wanted = std::map<PageName, std::vector<std::pair<uint32_t, size_t>>>;

  State(Transport* t, const PoolPageServerOptions& o, std::vector<tier::GroupPages> g)
      : transport(t), options(o), groups(std::move(g)), contents(o.name), news(t) {}

  /// Learns what the pool has, and registers its memory.
  [[nodiscard]] Status begin();
  void take(PeerId peer, const PageMessage& message);
  void subscribe(PeerId peer, const PageMessage& message);
  void lend(PeerId peer, const PageMessage& message);
  /// As many pages as there are of those `wanted` that lie on the way to `leading`; they are wanted
  /// no more.
  void borrow(const PageName& leading, Wanted* wanted,
              std::vector<std::optional<Loan>>* loans) noexcept;
  [[nodiscard]] std::optional<Loan> take(IoPin pin, uint32_t group) noexcept;
  void end(const Lease& lease) noexcept;
  void expire(Clock::time_point now) noexcept;
  void say(PeerId peer, const PageMessage& message);

  Transport* const transport;
  const PoolPageServerOptions options;
  const std::vector<tier::GroupPages> groups;
  tier::Areas areas;
  tier::PoolContents contents;
  tier::PageNews news;
  std::map<std::pair<PeerId, uint64_t>, Lease> leases;
  PoolPageServerFigures figures;
};

// ---- Loans

std::optional<PoolPageServer::State::Loan> PoolPageServer::State::take(IoPin pin,
                                                                       uint32_t group) noexcept {
  try {
    return Loan{pin, groups[group].runs.of(options.pool->page_of(pin).value())};
  } catch (const std::bad_alloc&) {
    (void)options.pool->end_io(pin);
    return std::nullopt;
  }
}

void PoolPageServer::State::borrow(const PageName& leading, Wanted* wanted,
                                   std::vector<std::optional<Loan>>* loans) noexcept {
  try {
    tier::PoolContents::Chain chain = contents.chain_to(leading);
    std::vector<pool::PromptPage> pages;
    std::vector<size_t> places;
    for (size_t i = 0; i < chain.names.size(); ++i) {
      const auto asked = wanted->extract(chain.names[i]);
      if (asked.empty()) continue;
      for (const auto& [group, at] : asked.mapped()) {
        pages.push_back({.position = static_cast<int32_t>(i), .group = group});
        places.push_back(at);
      }
    }
    std::vector<IoPin> pins(pages.size());
    chain.tokens.push_back(0);  // pages end before their prompt does
    const std::span<const TokenId> prompt = chain.tokens;
    const auto admission = options.pool->admit(prompt.first(1), {.adapter = chain.adapter});
    if (!admission) return;
    (void)options.pool->begin_prompt_io(admission->id, prompt, pages, pins);
    (void)options.pool->release(admission->id);
    for (size_t i = 0; i < pages.size(); ++i)
      if (pins[i] != IoPin{}) (*loans)[places[i]] = take(pins[i], pages[i].group);
  } catch (const std::bad_alloc&) {  // before anything was pinned: those pages are refused
  }
}

void PoolPageServer::State::lend(PeerId peer, const PageMessage& message) {
  constexpr size_t most_names = 4096;
  const size_t count = message.names.size();
  if (leases.contains({peer, message.ticket}) || count > most_names)
    return void(++figures.bad_messages);
  Wanted wanted;
  std::vector<std::optional<PageName>> leading(count);
  for (size_t i = 0; i < count; ++i) {
    const auto place = contents.find(message.names[i]);
    if (!place || groups[place->group].runs.page_bytes() == 0) continue;
    wanted[place->leading].emplace_back(place->group, i);
    leading[i] = place->leading;
  }
  std::vector<std::optional<Loan>> loans(count);
  Lease& lease = leases[{peer, message.ticket}];
  lease.pins.reserve(count);
  // pages of one prompt are asked for first to last: the last one's prefix has them all
  for (size_t i = count; i-- > 0;)
    if (const auto& page = leading[i]; page && wanted.contains(*page))
      borrow(*page, &wanted, &loans);

  lease.end = Clock::now() + std::chrono::milliseconds(options.lease_ms);
  for (const auto& loan : loans)
    if (loan) lease.pins.push_back(loan->pin);
  const auto lent = static_cast<int64_t>(lease.pins.size());
  figures.lent_pages += lent;
  figures.loaded_pages += lent;
  if (lent == 0) leases.erase({peer, message.ticket});
  PageMessage answer{
      .kind = PageMessageKind::lent, .ticket = message.ticket, .lease_ms = options.lease_ms};
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Loan>& loan = loans[i];
    answer.answers.push_back(loan ? PageAnswer::yes : PageAnswer::no);
    if (!loan) {
      ++(contents.has(message.names[i]) ? figures.refused_pages : figures.missed_pages);
      continue;
    }
    answer.headers.push_back(tier::header_of(message.names[i], options.fingerprint, loan->extents));
    for (const Extent& e : loan->extents)
      if (const auto run = areas.run_of(e)) answer.runs.push_back(*run);
  }
  say(peer, answer);
}

void PoolPageServer::State::end(const Lease& lease) noexcept {
  for (const IoPin pin : lease.pins) (void)options.pool->end_io(pin);
  figures.lent_pages -= static_cast<int64_t>(lease.pins.size());
}

void PoolPageServer::State::expire(Clock::time_point now) noexcept {
  std::erase_if(leases, [&](const auto& entry) {
    const auto& [key, lease] = entry;
    const bool has_gone = tier::is_lost(*transport, key.first);
    if (now < lease.end && !has_gone) return false;
    if (!has_gone) ++figures.expired_leases;
    end(lease);
    return true;
  });
  news.forget_lost();
}

// ---- Messages

void PoolPageServer::State::say(PeerId peer, const PageMessage& message) {
  // who does not get it hears nothing, and takes the page for lost
  (void)transport->send(peer, encode(message));
}

void PoolPageServer::State::subscribe(PeerId peer, const PageMessage& message) {
  if (message.fingerprint != options.fingerprint)
    return say(peer, {.kind = PageMessageKind::refused});
  news.subscribe(peer, contents.names());
}

void PoolPageServer::State::take(PeerId peer, const PageMessage& message) {
  switch (message.kind) {
    case PageMessageKind::subscribe: return subscribe(peer, message);
    case PageMessageKind::want: return lend(peer, message);
    case PageMessageKind::offer: {
      PageMessage answer{.kind = PageMessageKind::room, .ticket = message.ticket};
      answer.answers.assign(message.headers.size(), PageAnswer::no);
      figures.refused_pages += static_cast<int64_t>(message.headers.size());
      return say(peer, answer);
    }
    case PageMessageKind::returned:
      if (const auto found = leases.find({peer, message.ticket}); found != leases.end()) {
        end(found->second);
        leases.erase(found);
      }
      return;
    case PageMessageKind::drop: return;  // the pool's pages are the pool's
    default: ++figures.bad_messages;
  }
}

// ---- The server

Status PoolPageServer::State::begin() {
  const EventFunction add{
      .function =
          [](void* to, const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
            try {
              static_cast<tier::PoolContents*>(to)->add(event, tokens);
            } catch (const std::bad_alloc&) {  // nobody finds it here
            }
          },
      .context = &contents};
  if (const auto last = options.pool->snapshot(add); !last) return last.error();
  contents.settle();
  for (const std::span<std::byte> memory : options.memory)
    if (Status s = areas.add(*transport, memory); !s.is_ok()) return s;
  for (const tier::GroupPages& group : groups)
    for (const uint32_t page : {0U, group.num_pages - 1})
      for (const Extent& e : group.runs.of(page))
        if (!areas.run_of(e))
          return fail(Errc::invalid_argument, "{}: memory is without a part of planes", creating);
  return {};
}

PoolPageServer::PoolPageServer(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

PoolPageServer::~PoolPageServer() {
  for (const auto& [key, lease] : state_->leases) (void)state_->transport->disconnect(key.first);
  state_->areas.remove_all(*state_->transport);
  for (const auto& [key, lease] : state_->leases) state_->end(lease);
}

Result<std::unique_ptr<PoolPageServer>> PoolPageServer::create(
    Transport* transport, const PoolPageServerOptions& o) noexcept {
  constexpr int64_t most_ms = 86'400'000;
  const auto refuse = [](const char* option, const char* what) {
    return fail(Errc::invalid_argument, "{}: {} is {}", creating, option, what);
  };
  if (transport == nullptr) return refuse("transport", "null");
  if (Status s = tier::check_named_pool(creating, o.pool, o.name, tier::PoolGroups::any);
      !s.is_ok())
    return s;
  if (o.memory.empty() || o.memory.data() == nullptr)
    return refuse("memory", "empty, expected what the planes lie in");
  if (o.lease_ms < 1 || o.lease_ms > most_ms)
    return fail(Errc::invalid_argument, "{}: lease_ms is {}, expected 1 .. {}", creating,
                o.lease_ms, most_ms);
  try {
    auto groups =
        tier::make_groups(creating, {.pool = o.pool, .planes = o.planes, .groups = o.groups});
    if (!groups) return groups.error();
    auto state = std::make_unique<State>(transport, o, std::move(*groups));
    if (Status s = state->begin(); !s.is_ok()) {
      state->areas.remove_all(*transport);
      return s;
    }
    return std::unique_ptr<PoolPageServer>(new PoolPageServer(std::move(state)));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "{}: no memory", creating);
  }
}

Result<std::vector<std::byte>> PoolPageServer::address() const noexcept {
  return state_->transport->address();
}

void PoolPageServer::note(const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
  if (tokens.data() == nullptr) tokens = {};
  try {
    if (event.kind == PoolEventKind::cleared) {
      for (const PageName& name : state_->contents.names())
        state_->news.tell(PageMessageKind::gone, name);
      state_->contents.clear();
    } else if (state_->contents.note(event, tokens)) {
      const bool is_stored = event.kind == PoolEventKind::stored;
      state_->news.tell(is_stored ? PageMessageKind::index : PageMessageKind::gone, event.name);
    }
  } catch (const std::bad_alloc&) {  // clients do not find it, or ask for it in vain
  }
}

void PoolPageServer::poll() noexcept {
  try {
    PeerMessage messages[32];
    for (size_t count; (count = state_->transport->receive(messages)) > 0;) {
      for (const PeerMessage& message : std::span(messages).first(count)) {
        const auto read = tier::decode_page_message(message.bytes);
        if (read) {
          state_->take(message.peer, *read);
          continue;
        }
        ++state_->figures.bad_messages;
        if (read.error().code() == Errc::unsupported)
          state_->say(message.peer, {.kind = PageMessageKind::refused});
      }
    }
    state_->news.send();
  } catch (const std::bad_alloc&) {  // who asked waits in vain, and takes the page for lost
  }
  state_->expire(Clock::now());
}

PoolPageServerFigures PoolPageServer::figures() const noexcept {
  PoolPageServerFigures figures = state_->figures;
  figures.pages = state_->contents.size();
  figures.unserved_pages = state_->contents.unserved();
  return figures;
}

}  // namespace folio::inline v1::tier
