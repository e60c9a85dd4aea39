// SPDX-License-Identifier: Apache-2.0
/// tier/peer/page_server.cpp: the calls of a page server.
#include <cstring>
#include <new>
#include <utility>

#include "tier/checks.h"
#include "tier/peer/page_server_state.h"

namespace folio::inline v1::tier {

using tier::PageMessageKind;

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
  if (options.access > PageServerOptions::Access::read_write)
    return fail(Errc::invalid_argument,
                "PageServer::create: access is {}, expected read_only or read_write",
                static_cast<int>(options.access));
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
    state_->news.send();
    state_->expire(State::Clock::now());
  } catch (const std::bad_alloc&) {  // who asked waits in vain, and takes the page for lost
  }
}

Status PageServer::put(const PageName& name, std::span<const Extent> extents) noexcept {
  if (Status s = tier::check_extents("PageServer::put", 0, extents); !s.is_ok()) return s;
  const int64_t bytes = tier::bytes_of(extents);
  if (bytes > state_->options.page_bytes)
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

}  // namespace folio::inline v1::tier
