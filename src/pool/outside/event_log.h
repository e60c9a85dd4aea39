// SPDX-License-Identifier: Apache-2.0
/// pool/outside/event_log.h: numbers the events of a pool and hands them on.
///
/// The ring has what every event says, 48 bytes with its stamp; names, 72 bytes, lie in a ring
/// beside it, which only a pool with names has.
#pragma once

#include <cstdint>
#include <span>

#include "folio/pool/events.h"
#include "pool/outside/shared_ring.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

class EventLog {
 public:
  /// An event without its number and its names.
  struct Brief {
    uint64_t content = 0, parent = 0, adapter = 0;
    int32_t position = -1, num_tokens = 0;
    uint32_t group = 0;
    PoolEventKind kind = PoolEventKind::stored;
    bool has_name = false, has_parent_name = false;
  };
  /// The same in whole words: written field by field and read word by word, each word would wait
  /// until its fields have left for the cache (7 of 92 ns of a page that evicts another).
  struct Packed {
    uint64_t content = 0, parent = 0, adapter = 0;
    uint64_t page = 0;   ///< position, and num_tokens above it
    uint64_t kinds = 0;  ///< group, and kind and names above it
  };
  struct Names {
    PageName own = {}, parent = {};
  };
  using Ring = SharedRing<Packed>;
  using NameRing = SharedRing<Names>;
  /// Both [capacity], or null.
  struct Memory {
    Ring::Slot* slots = nullptr;
    NameRing::Slot* names = nullptr;  ///< with PoolOptions::name
  };

  /// Without capacity and function there are no events. `calls_out` is true while the function
  /// runs.
  void attach(const EventFunction& function, const Memory& memory, uint32_t capacity,
              bool* calls_out) noexcept;
  [[nodiscard]] bool on() const noexcept {
    return function_.function != nullptr || ring_.capacity() != 0;
  }

  /// Gives the event its number. `names`: null where it has none.
  void add(const Brief& event, const Names* names, std::span<const TokenId> tokens) noexcept {
    if (!on()) return;
    ++last_;
    // Names first: whoever reads the event finds them.
    if (names_.capacity() != 0) names_.push(names == nullptr ? Names() : *names);
    if (has_ring()) ring_.push(packed(event));
    if (function_.function != nullptr) tell(event, names, tokens);
  }
  void removed(const PageRecord& record, uint64_t content, const PageName* name,
               int32_t page_size) noexcept;
  /// Everything that was stored is gone, and nothing told so page by page.
  void cleared() noexcept { add({.kind = PoolEventKind::cleared}, nullptr, {}); }

  /// `names`: null where it has none.
  [[nodiscard]] static PoolEvent whole(const Brief& event, const Names* names,
                                       uint64_t number) noexcept;
  /// Number of the last event. The scheduler's thread.
  [[nodiscard]] uint64_t last() const noexcept { return last_; }
  /// Any thread; needs a ring.
  [[nodiscard]] EventRead read(uint64_t next, std::span<PoolEvent> events) const noexcept;
  [[nodiscard]] bool has_ring() const noexcept { return ring_.capacity() != 0; }

 private:
  static Packed packed(const Brief& event) noexcept {
    const auto names = (event.has_name ? 1U : 0U) | (event.has_parent_name ? 2U : 0U);
    const auto above = [](uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; };
    return {.content = event.content,
            .parent = event.parent,
            .adapter = event.adapter,
            .page = above(static_cast<uint32_t>(event.position),
                          static_cast<uint32_t>(event.num_tokens)),
            .kinds = above(event.group, static_cast<uint32_t>(event.kind) << 2 | names)};
  }
  void tell(const Brief& event, const Names* names, std::span<const TokenId> tokens) noexcept;

  EventFunction function_ = {};
  bool* calls_out_ = nullptr;
  Ring ring_;
  NameRing names_;
  uint64_t last_ = 0;
};

}  // namespace folio::inline v1::pool
