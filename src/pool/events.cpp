// SPDX-License-Identifier: Apache-2.0
/// pool/events.cpp: a pool's events: contents that are stored, snapshots, and reading the ring.
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

void PagePool::State::tell_stored(const pool::SequenceRecord& s, uint32_t position) noexcept {
  const uint32_t page = row(s)[position];
  const pool::PageRecord& record = records[page];
  pool::EventLog::Brief event{.content = record.content,
                              .parent = record.parent,
                              .adapter = namespaces[s.space].adapter,
                              .position = static_cast<int32_t>(position),
                              .num_tokens = options.page_size};
  const std::span<const TokenId> stored(tokens_of(page), static_cast<size_t>(options.page_size));
  if (options.name.function == nullptr) return events.add(event, nullptr, stored);
  pool::EventLog::Names given;
  // A page whose parent has no name, because the function failed then, gets none now: walking back
  // further would not be O(1).
  const PageName* const parent =
      position == 0 ? nullptr : index.name_of(index.findable_twin(row(s)[position - 1]));
  if (position == 0 || parent != nullptr) {
    const Result<PageName> name = name_of(s, static_cast<int32_t>(position));
    event.has_name = name.has_value();
    if (event.has_name) given.own = *name;
  }
  event.has_parent_name = parent != nullptr;
  if (parent != nullptr) given.parent = *parent;
  events.add(event, &given, stored);
}

Result<uint64_t> PagePool::snapshot(const EventFunction& visit) const noexcept {
  if (state_ == nullptr) return pool::moved_from("snapshot");
  const State& state = *state_;
  if (visit.function == nullptr)
    return fail(Errc::invalid_argument,
                "PagePool::snapshot: visit.function is null, expected a function");
  if (!state.events.on()) return pool::no_events("snapshot", "event_capacity or on_event");
  for (uint32_t page = 0; page < state.options.num_pages; ++page) {
    const pool::PageRecord& record = state.records[page];
    if (!record.findable) continue;
    PoolEvent event{.number = state.events.last(),
                    .content = record.content,
                    .parent = record.parent,
                    .num_tokens = state.options.page_size,
                    .in_snapshot = true};
    const PageName* const name = state.index.name_of(page);
    event.has_name = name != nullptr;
    if (name != nullptr) event.name = *name;
    visit.function(visit.context, event,
                   {state.tokens_of(page), static_cast<size_t>(state.options.page_size)});
  }
  return state.events.last();
}

Result<EventRead> PagePool::read_events(uint64_t next, std::span<PoolEvent> events) const noexcept {
  if (state_ == nullptr) return pool::moved_from("read_events");
  if (Status s = state_->check_events("read_events", events); !s.is_ok()) return s;
  return state_->events.read(next, events);
}

Status PagePool::State::check_events(const char* call,
                                     std::span<const PoolEvent> into) const noexcept {
  if (!events.has_ring()) return pool::no_events(call, "event_capacity");
  if (into.data() == nullptr && !into.empty())
    return pool::null_memory(call, "events", into.size());
  return {};
}

}  // namespace folio::inline v1
