// SPDX-License-Identifier: Apache-2.0
/// pool/events.cpp: a pool's events: contents that are stored, snapshots, and reading the ring.
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

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
    visit.function(visit.context, event, state.full_page(page));
  }
  for (uint32_t page = 0; page < state.options.num_pages; ++page) {
    if (state.records[page].content == 0) continue;
    for (uint32_t group = 1; group < state.groups.count(); ++group) {
      if (state.groups.companion(page, group) == pool::no_page) continue;
      const bool called_out = std::exchange(state_->calls_out, true);
      const pool::Lookup::CompanionEvent told =
          state.companion_event(PoolEventKind::stored, group, page);
      state_->calls_out = called_out;
      PoolEvent event = pool::EventLog::whole(told.brief, &told.names, state.events.last());
      event.in_snapshot = true;
      visit.function(visit.context, event, state.full_page(page));
    }
  }
  return state.events.last();
}

Result<EventRead> PagePool::read_events(uint64_t next, std::span<PoolEvent> events) const noexcept {
  if (state_ == nullptr) return pool::moved_from("read_events");
  if (Status s = state_->check_events("read_events", events); !s.is_ok()) return s;
  return state_->events.read(next, events);
}

}  // namespace folio::inline v1::pool
