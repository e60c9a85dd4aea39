// SPDX-License-Identifier: Apache-2.0
/// pool/event_log.cpp: what is written when, and what a reader finds.
#include "pool/event_log.h"

#include <algorithm>

namespace folio::inline v1::pool {

void EventLog::attach(const EventFunction& function, Ring::Slot* slots, uint32_t capacity,
                      bool* calls_out) noexcept {
  function_ = function;
  calls_out_ = calls_out;
  ring_.attach(slots, capacity);
}

void EventLog::add(PoolEvent event, std::span<const TokenId> tokens) noexcept {
  if (!on()) return;
  event.number = ++last_;
  if (has_ring()) ring_.push(event);
  if (function_.function == nullptr) return;
  *calls_out_ = true;
  function_.function(function_.context, event, tokens);
  *calls_out_ = false;
}

void EventLog::removed(const PageRecord& record, uint64_t content, const PageName* name,
                       int32_t page_size) noexcept {
  PoolEvent event{.content = content,
                  .parent = record.parent,
                  .num_tokens = page_size,
                  .kind = PoolEventKind::removed,
                  .has_name = name != nullptr};
  if (name != nullptr) event.name = *name;
  add(event, {});
}

EventRead EventLog::read(uint64_t next, std::span<PoolEvent> events) const noexcept {
  next = std::max<uint64_t>(next, 1);
  EventRead done{.next = next};
  for (; done.count < events.size(); ++done.count, ++done.next) {
    const Ring::Found found = ring_.read(done.next, events[done.count]);
    if (found == Ring::Found::not_yet) break;
    if (found == Ring::Found::value) continue;
    if (done.count != 0) break;  // what was read is whole; the next call says what is lost
    return {.next = ring_.newest() + 1, .lost = true};
  }
  return done;
}

}  // namespace folio::inline v1::pool
