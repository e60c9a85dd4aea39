// SPDX-License-Identifier: Apache-2.0
/// pool/outside/event_log.cpp: what is written when, and what a reader finds.
#include "pool/outside/event_log.h"

#include <algorithm>

namespace folio::inline v1::pool {

namespace {

EventLog::Brief unpacked(const EventLog::Packed& packed) {
  const auto above = static_cast<uint32_t>(packed.kinds >> 32);
  return {.content = packed.content,
          .parent = packed.parent,
          .adapter = packed.adapter,
          .position = static_cast<int32_t>(static_cast<uint32_t>(packed.page)),
          .num_tokens = static_cast<int32_t>(packed.page >> 32),
          .group = static_cast<uint32_t>(packed.kinds),
          .kind = static_cast<PoolEventKind>(above >> 2),
          .has_name = (above & 1) != 0,
          .has_parent_name = (above & 2) != 0};
}

}  // namespace

PoolEvent EventLog::whole(const Brief& brief, const Names* names, uint64_t number) noexcept {
  PoolEvent event{.number = number,
                  .content = brief.content,
                  .parent = brief.parent,
                  .adapter = brief.adapter,
                  .position = brief.position,
                  .num_tokens = brief.num_tokens,
                  .group = brief.group,
                  .kind = brief.kind,
                  .has_name = brief.has_name,
                  .has_parent_name = brief.has_parent_name};
  if (names == nullptr) return event;
  event.name = names->own;
  event.parent_name = names->parent;
  return event;
}

void EventLog::attach(const EventFunction& function, const Memory& memory, uint32_t capacity,
                      bool* calls_out) noexcept {
  function_ = function;
  calls_out_ = calls_out;
  ring_.attach(memory.slots, capacity);
  names_.attach(memory.names, memory.names == nullptr ? 0 : capacity);
}

void EventLog::tell(const Brief& event, const Names* names,
                    std::span<const TokenId> tokens) noexcept {
  *calls_out_ = true;
  function_.function(function_.context, whole(event, names, last_), tokens);
  *calls_out_ = false;
}

void EventLog::removed(const PageRecord& record, uint64_t content, const PageName* name,
                       int32_t page_size) noexcept {
  const Brief event{.content = content,
                    .parent = record.parent,
                    .num_tokens = page_size,
                    .kind = PoolEventKind::removed,
                    .has_name = name != nullptr};
  if (name == nullptr) return add(event, nullptr, {});
  const Names names{.own = *name};
  add(event, &names, {});
}

EventRead EventLog::read(uint64_t next, std::span<PoolEvent> events) const noexcept {
  next = std::max<uint64_t>(next, 1);
  EventRead done{.next = next};
  for (; done.count < events.size(); ++done.count, ++done.next) {
    Packed packed;
    const Found found = ring_.read(done.next, packed);
    if (found == Found::not_yet) break;
    Names names;
    if (found == Found::value &&
        (names_.capacity() == 0 || names_.read(done.next, names) == Found::value)) {
      events[done.count] = whole(unpacked(packed), &names, done.next);
      continue;
    }
    if (done.count != 0) break;  // what was read is whole; the next call says what is lost
    return {.next = ring_.newest() + 1, .lost = true};
  }
  return done;
}

}  // namespace folio::inline v1::pool
