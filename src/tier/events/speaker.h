// SPDX-License-Identifier: Apache-2.0
/// tier/events/speaker.h: a pool or a tier that tells a publisher what becomes of its pages.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "folio/pool/events.h"
#include "folio/tier/tier.h"
#include "tier/events/note_queue.h"

namespace folio::inline v1::tier {

/// What it is given as context.
struct Speaker {
  NoteQueue* queue = nullptr;
  std::atomic<int64_t>* unnamed_events = nullptr;
  uint8_t place = 0;

  static void hear(void* self, const PoolEvent& event, std::span<const TokenId> tokens) noexcept {
    const auto& speaker = *static_cast<const Speaker*>(self);
    if (event.kind == PoolEventKind::cleared) {
      speaker.queue->put({.kind = Note::Kind::cleared, .place = speaker.place}, {});
    } else if (!is_named(event)) {
      speaker.unnamed_events->fetch_add(1, std::memory_order_relaxed);
    } else {
      speaker.queue->put(speaker.note_of(event),
                         tokens.data() == nullptr ? std::span<const TokenId>() : tokens);
    }
  }
  static void watch(void* self, TierChange change, std::span<const PageName> names) noexcept {
    const auto& speaker = *static_cast<const Speaker*>(self);
    if (names.data() == nullptr) return;
    const Note::Kind kind = change == TierChange::stored ? Note::Kind::stored : Note::Kind::removed;
    for (const PageName& name : names)
      speaker.queue->put({.kind = kind, .place = speaker.place, .name = name}, {});
  }
  /// Whether routers can be told of it.
  [[nodiscard]] static bool is_named(const PoolEvent& event) {
    return event.group == 0 ? event.has_name : event.has_parent_name;
  }
  [[nodiscard]] Note note_of(const PoolEvent& event) const {
    Note note{
        .kind = event.kind == PoolEventKind::stored ? Note::Kind::stored : Note::Kind::removed,
        .place = place,
        .has_parent = event.has_parent_name,
        .group = event.group,
        .adapter = event.adapter,
        .name = event.name,
        .parent = event.parent_name};
    if (event.group == 0) return note;
    note.has_parent = event.has_name;
    std::swap(note.name, note.parent);
    return note;
  }
};

}  // namespace folio::inline v1::tier
