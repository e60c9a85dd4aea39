// SPDX-License-Identifier: Apache-2.0
/// tier/peer/nixl/nixl_wire.cpp: agents and the work; links are in nixl_links.cpp, what they say in
/// nixl_notes.cpp, transfers in nixl_flows.cpp, their bytes in nixl_bytes.cpp.
#include "tier/peer/nixl/nixl_wire.h"

#include <poll.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "folio/tier/transports.h"
#include "tier/checks.h"
#include "tier/peer/booked_transport.h"

namespace folio::inline v1::tier {

using std::chrono::milliseconds;

// ---- Beginning and end

Status NixlWire::open() {
  if (waker_.get() < 0) return fail(Errc::io, "Transport: the system gives no event");
  auto station = take_agent();
  if (!station) return station.error();
  station_ = std::move(*station);
  auto about = station_->about();
  if (!about) return about.error();
  endpoint_ = std::move(*about);
  auto spare = take_agent();
  if (!spare) return spare.error();
  spare_ = std::move(*spare);
  return {};
}

/// A spare one is at hand, since it takes tens of milliseconds to make one.
Result<std::unique_ptr<NixlAgent>> NixlWire::take_agent() {
  if (spare_ != nullptr) return std::move(spare_);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string name = "folio-";
  for (const uint8_t byte : book_.end()) {
    name += digits[byte >> 4U];
    name += digits[byte & 15U];
  }
  return NixlAgent::open(nixl_, name + "-" + std::to_string(next_agent_++), transports_);
}

NixlWire::~NixlWire() {
  // what was sent last is to arrive, and that this end goes
  const auto until = Clock::now() + milliseconds(200);
  const auto is_waiting = [&] {
    return std::any_of(links_.begin(), links_.end(), [](const Link& link) {
      return link.state == Link::State::open && !link.untaken.empty();
    });
  };
  for (Link& link : links_)
    if (link.state == Link::State::open)
      guard(link, [&]() -> Status {
        put(link, {.kind = FrameKind::gone}, 0);
        return {};
      });
  while (is_waiting() && Clock::now() < until)
    if (!progress()) std::this_thread::yield();
  for (Link& link : links_) close(link, fail(Errc::io, "Transport: this end is destroyed"));
}

// ---- Memory

Status NixlWire::add_region(RegionId region, std::span<std::byte> memory) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    regions_[region] = memory;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "Transport::add_region: no memory");
  }
}

void NixlWire::remove_region(RegionId region) noexcept {
  const std::lock_guard lock(mutex_);
  regions_.erase(region);
  for (Link& link : links_) {
    if (link.agent == nullptr || !link.agent->has_region(region)) continue;
    link.agent->remove_region(region);
    guard(link, [&]() -> Status {
      link.own.clear();
      for (const NixlRegion& r : link.agent->regions()) link.own.add(r);
      return {};
    });
  }
}

// ---- Work

bool NixlWire::progress() noexcept {
  const std::lock_guard lock(mutex_);
  bool is_busy = false;
  try {
    take_greetings();
  } catch (const std::bad_alloc&) {  // who greets does so again
  }
  for (Link& link : links_) {
    if (link.state == Link::State::closed) continue;
    guard(link, [&]() -> Status {
      if (link.agent == nullptr) return {};
      is_busy |= take_notes(link);
      if (!link.failed.is_ok() || link.state != Link::State::open) return {};
      const auto pushed = push_some(link);
      if (!pushed) return pushed.error();
      is_busy |= *pushed;
      return {};
    });
    if (link.failed.is_ok())
      guard(link, [&]() -> Status {
        keep_alive(link);
        return {};
      });
  }
  for (Link& link : links_)
    if (!link.failed.is_ok()) close(link, link.failed);
  links_.remove_if([](const Link& link) { return link.state == Link::State::closed; });
  if (is_busy) busy_ = Clock::now();
  return is_busy;
}

void NixlWire::keep_alive(Link& link) {
  constexpr int64_t least_patience_ms = 2000, most_beat_ms = 250;
  const int64_t timeout_ms = book_.options().timeout_ms;
  const auto now = Clock::now();
  const milliseconds beat(std::clamp<int64_t>(timeout_ms / 4, 1, most_beat_ms));
  if (now - link.heard > milliseconds(std::max(timeout_ms, least_patience_ms))) {
    link.failed = fail(Errc::io, "Transport: a peer has said nothing for {} ms", timeout_ms);
    return;
  }
  if (now - link.sent < beat) return;
  link.sent = now;
  if (link.state == Link::State::open) {
    say(link, NoteKind::ask);
  } else if (Status s = station_->notify(link.station, link.greeting); !s.is_ok()) {
    link.failed = s;
  }
}

void NixlWire::wait(int64_t most_ms) noexcept {
  constexpr std::chrono::microseconds soon(100);
  constexpr milliseconds later(100), recently(10), idle(500);
  bool is_pending = false;
  const auto since = Clock::now() - busy_;
  {
    const std::lock_guard lock(mutex_);
    is_pending = !asked_.empty();
    for (const Link& link : links_)
      is_pending |= !link.lent.empty() || !link.pushes.empty() || !link.greeting.empty();
    if (!is_pending && since > idle && spare_ == nullptr) try {
        auto spare = take_agent();
        if (spare) spare_ = std::move(*spare);
      } catch (const std::bad_alloc&) {  // it is made when it is needed
      }
  }
  if (since < soon || (is_pending && since < later)) return std::this_thread::yield();
  const int64_t most_us = is_pending || since < recently ? 50 : 1000;
  const timespec time{.tv_sec = 0, .tv_nsec = std::min(most_us, most_ms * 1000) * 1000};
  pollfd entry{.fd = waker_.get(), .events = POLLIN, .revents = 0};
  (void)::ppoll(&entry, 1, &time, nullptr);
  if (entry.revents == 0) return;
  waker_.clear();
  busy_ = Clock::now();
}

}  // namespace folio::inline v1::tier

namespace folio::inline v1::tier {

Result<std::unique_ptr<Transport>> make_nixl_transport(const TransportOptions& options,
                                                       const NixlOptions& nixl) noexcept {
  if (Status s = tier::check_options(options); !s.is_ok()) return s;
  const auto check = [](const char* argument, std::string_view text) {
    return tier::check_text("make_nixl_transport", argument, text);
  };
  if (Status s = check("library", nixl.library); !s.is_ok()) return s;
  if (Status s = check("transports", nixl.transports); !s.is_ok()) return s;
  if (nixl.transports.find(',') != std::string_view::npos || nixl.transports.empty())
    return fail(Errc::invalid_argument,
                "make_nixl_transport: transports is \"{}\", expected one of UCX's names",
                nixl.transports);
  const auto id = tier::random_end_id();
  if (!id) return id.error();
  const auto library = tier::load_nixl(nixl.library);
  if (!library) return library.error();
  try {
    auto book = std::make_unique<tier::Book>(options, tier::WireKind::nixl, *id);
    auto wire = std::make_unique<tier::NixlWire>(*book, **library, std::string(nixl.transports));
    if (Status s = wire->open(); !s.is_ok()) return s;
    return std::unique_ptr<Transport>(std::make_unique<tier::BookedTransport>(
        std::move(book), std::move(wire), tier::BookedTransport::Work::by_thread));
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "make_nixl_transport: no memory");
  } catch (const std::system_error& e) {
    return fail(Errc::io, "make_nixl_transport: no thread to be had: {}", e.what());
  }
}

}  // namespace folio::inline v1::tier
