// SPDX-License-Identifier: Apache-2.0
/// tests/pool/event_listener.h: what a pool tells of its index, heard and read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pool/pool_helpers.h"

namespace folio::test {

/// Hears everything.
struct Listener {
  std::vector<PoolEvent> events;
  std::vector<Tokens> tokens;
  const PagePool* peeks = nullptr;  ///< asked from inside the function
  std::vector<int32_t> peeked;
  Tokens prompt;

  [[nodiscard]] EventFunction function() {
    return {.function =
                [](void* self, const PoolEvent& event, std::span<const TokenId> of) noexcept {
                  auto& listener = *static_cast<Listener*>(self);
                  listener.events.push_back(event);
                  listener.tokens.emplace_back(of.begin(), of.end());
                  if (listener.peeks != nullptr)
                    listener.peeked.push_back(listener.peeks->peek(listener.prompt));
                },
            .context = this};
  }
  [[nodiscard]] std::vector<std::pair<PoolEventKind, int32_t>> told() const {
    std::vector<std::pair<PoolEventKind, int32_t>> all;
    for (const PoolEvent& event : events) all.emplace_back(event.kind, event.position);
    return all;
  }
};

/// Pages of two tokens.
inline PoolOptions small(uint32_t pages, EventFunction on_event = {}, uint32_t capacity = 0) {
  return {.num_pages = pages,
          .page_size = 2,
          .max_sequences = 4,
          .event_capacity = capacity,
          .on_event = on_event};
}

inline std::vector<PoolEvent> read(const PagePool& pool, uint64_t next, size_t at_most) {
  std::vector<PoolEvent> events(at_most);
  events.resize(pool.read_events(next, events).value().count);
  return events;
}

}  // namespace folio::test
