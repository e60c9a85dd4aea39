// SPDX-License-Identifier: Apache-2.0
/// pool/event_log.h: numbers the events of a pool and hands them on.
#pragma once

#include <cstdint>
#include <span>

#include "folio/pool/events.h"
#include "pool/page_lists.h"
#include "pool/shared_ring.h"

namespace folio::inline v1::pool {

class EventLog {
 public:
  using Ring = SharedRing<PoolEvent>;

  /// `slots`: [capacity]. Without capacity and function there are no events. `calls_out` is true
  /// while the function runs.
  void attach(const EventFunction& function, Ring::Slot* slots, uint32_t capacity,
              bool* calls_out) noexcept;
  [[nodiscard]] bool on() const noexcept {
    return function_.function != nullptr || ring_.capacity() != 0;
  }

  /// Gives the event its number.
  void add(PoolEvent event, std::span<const TokenId> tokens) noexcept;
  void removed(const PageRecord& record, uint64_t content, const PageName* name,
               int32_t page_size) noexcept;
  /// Everything that was stored is gone, and nothing told so page by page.
  void cleared() noexcept { add({.kind = PoolEventKind::cleared}, {}); }

  /// Number of the last event. The scheduler's thread.
  [[nodiscard]] uint64_t last() const noexcept { return last_; }
  /// Any thread; needs a ring.
  [[nodiscard]] EventRead read(uint64_t next, std::span<PoolEvent> events) const noexcept;
  [[nodiscard]] bool has_ring() const noexcept { return ring_.capacity() != 0; }

 private:
  EventFunction function_ = {};
  bool* calls_out_ = nullptr;
  Ring ring_;
  uint64_t last_ = 0;
};

}  // namespace folio::inline v1::pool
