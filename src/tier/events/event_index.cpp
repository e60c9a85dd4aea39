// SPDX-License-Identifier: Apache-2.0
/// tier/events/event_index.cpp: names, and a bit for each medium that has them.
#include "folio/tier/event_index.h"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "tier/checks.h"
#include "tier/events/wire.h"

namespace folio::inline v1::tier {

using tier::WireEvent;

struct EventIndex::State {
  struct Known {
    PageName parent;
    bool has_parent = false;
    uint32_t media = 0;
  };
  using Names = std::map<PageName, Known>;

  EventIndexOptions options;
  std::vector<std::string> media;
  Names names;
  int64_t short_names = 0;  ///< that were ever told of: 0 spares looking for them
  EventIndexFigures figures;

  [[nodiscard]] uint32_t bit_of(std::string_view medium) const {
    const auto at = std::find(media.begin(), media.end(), medium);
    return at == media.end() ? 0 : uint32_t{1} << (at - media.begin());
  }
  [[nodiscard]] uint32_t bit_for(const std::string& medium) {
    const uint32_t bit = bit_of(medium);
    if (bit != 0 || std::ssize(media) == options.max_media) return bit;
    media.push_back(medium);
    return bit_of(medium);
  }
  void store(const WireEvent& event);
  void remove(const WireEvent& event);
  [[nodiscard]] uint32_t media_of(const PageName& name) const;
  [[nodiscard]] int32_t find(std::span<const PageName> asked, uint32_t bits) const;
};

void EventIndex::State::store(const WireEvent& event) {
  const uint32_t bit = bit_for(event.medium);
  const PageName* parent = event.parent ? &*event.parent : nullptr;
  for (const PageName& name : event.names) {
    auto at = names.find(name);
    if (bit == 0 || (at == names.end() && std::ssize(names) >= options.max_names)) {
      ++figures.untaken_names;
    } else {
      if (at == names.end()) at = names.emplace(name, Known{}).first;
      at->second.media |= bit;
      if (parent != nullptr) {
        at->second.parent = *parent;
        at->second.has_parent = true;
      }
      if (std::all_of(name.bytes.begin(), name.bytes.end() - 8, [](uint8_t b) { return b == 0; }))
        ++short_names;
    }
    parent = &name;
  }
}

void EventIndex::State::remove(const WireEvent& event) {
  const uint32_t bit = bit_of(event.medium);
  for (const PageName& name : event.names) {
    const auto at = names.find(name);
    if (at == names.end()) continue;
    at->second.media &= ~bit;
    if (at->second.media == 0) names.erase(at);
  }
}

uint32_t EventIndex::State::media_of(const PageName& name) const {
  uint32_t bits = 0;
  if (const auto at = names.find(name); at != names.end()) bits = at->second.media;
  if (short_names == 0) return bits;
  const auto at = names.find(tier::name_of_last_64_bits(tier::last_64_bits(name)));
  return at == names.end() ? bits : bits | at->second.media;
}

int32_t EventIndex::State::find(std::span<const PageName> asked, uint32_t bits) const {
  if (asked.data() == nullptr) return 0;
  const auto end = std::find_if(asked.begin(), asked.end(),
                                [&](const PageName& name) { return (media_of(name) & bits) == 0; });
  return static_cast<int32_t>(end - asked.begin());
}

Result<EventIndex> EventIndex::create(const EventIndexOptions& options) noexcept {
  if (options.max_names < 1)
    return fail(Errc::invalid_argument, "EventIndex::create: max_names is {}, expected 1 or more",
                options.max_names);
  if (options.max_media < 1 || options.max_media > 32)
    return fail(Errc::invalid_argument, "EventIndex::create: max_media is {}, expected 1 .. 32",
                options.max_media);
  auto* const state = new (std::nothrow) State;
  if (state == nullptr) return fail(Errc::out_of_memory, "EventIndex::create: no memory");
  state->options = options;
  return EventIndex(state);
}

EventIndex::~EventIndex() { delete state_; }

Status EventIndex::apply(std::span<const std::byte> payload) noexcept {
  if (state_ == nullptr) return tier::moved_from("EventIndex::apply");
  if (Status s = tier::check_memory("EventIndex::apply", "payload", payload.data(), payload.size());
      !s.is_ok())
    return s;
  try {
    const std::optional<tier::WireBatch> batch = tier::read_batch(payload);
    if (!batch) {
      ++state_->figures.malformed_batches;
      return fail(Errc::invalid_argument,
                  "EventIndex::apply: {} bytes are no batch of events, expected msgpack of "
                  "[seconds, [event, ...], rank]",
                  payload.size());
    }
    for (const WireEvent& event : batch->events) {
      switch (event.kind) {
        case WireEvent::Kind::stored: state_->store(event); break;
        case WireEvent::Kind::removed: state_->remove(event); break;
        case WireEvent::Kind::cleared: clear(); break;
      }
    }
    EventIndexFigures& figures = state_->figures;
    ++figures.batches;
    figures.events += std::ssize(batch->events);
    figures.refused_events += batch->refused_events;
    figures.ignored_events += batch->ignored_events;
    return {};
  } catch (const std::bad_alloc&) {
    return fail(Errc::out_of_memory, "EventIndex::apply: no memory for a batch of {} bytes",
                payload.size());
  }
}

void EventIndex::clear() noexcept {
  if (state_ == nullptr) return;
  state_->names.clear();
  state_->short_names = 0;
}

int32_t EventIndex::find(std::span<const PageName> names) const noexcept {
  return state_ == nullptr ? 0 : state_->find(names, ~uint32_t{0});
}

int32_t EventIndex::find(std::span<const PageName> names, std::string_view medium) const noexcept {
  if (state_ == nullptr || medium.data() == nullptr) return 0;
  return state_->find(names, state_->bit_of(medium));
}

int32_t EventIndex::num_media() const noexcept {
  return state_ == nullptr ? 0 : static_cast<int32_t>(state_->media.size());
}

std::string_view EventIndex::medium(int32_t i) const noexcept {
  return i < 0 || i >= num_media() ? std::string_view() : state_->media[static_cast<size_t>(i)];
}

void EventIndex::visit(void (*function)(void* context, const IndexedName& name) noexcept,
                       void* context) const noexcept {
  if (state_ == nullptr || function == nullptr) return;
  for (const auto& [name, known] : state_->names)
    function(context, {.name = name,
                       .parent = known.parent,
                       .media = known.media,
                       .has_parent = known.has_parent});
}

EventIndexFigures EventIndex::figures() const noexcept {
  if (state_ == nullptr) return {};
  EventIndexFigures figures = state_->figures;
  figures.names = std::ssize(state_->names);
  return figures;
}

}  // namespace folio::inline v1::tier
