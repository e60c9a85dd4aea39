// SPDX-License-Identifier: Apache-2.0
/// pool/pages/io_pins.h: which pages transfers read or write.
#pragma once

#include <cstdint>
#include <utility>

#include "folio/pool/page_pool.h"
#include "pool/pages/links.h"

namespace folio::inline v1::pool {

/// Each pin has a place of its own, of a fixed number. What a pin does to its page, the page's
/// record counts: as copies that hold it.
class IoPins {
 public:
  struct Place {
    uint32_t page = no_entry;  ///< or no_entry: the place is free
    uint16_t group = 0;        ///< < max_groups
    bool fills = false;
    uint32_t generation = 0;
    uint32_t next_free = no_entry;
  };

  /// `places`: [count]
  void attach(Place* places, uint32_t count) noexcept {
    places_ = places;
    count_ = count;
    for (uint32_t i = count; i-- > 0;) {
      places_[i] = {};
      places_[i].next_free = std::exchange(free_, i);
    }
  }

  [[nodiscard]] bool is_full() const noexcept { return free_ == no_entry; }
  /// Needs a free place.
  [[nodiscard]] IoPin add(uint32_t group, uint32_t page, bool fills) noexcept {
    const uint32_t i = free_;
    Place& place = places_[i];
    free_ = std::exchange(place.next_free, no_entry);
    place.page = page;
    place.group = static_cast<uint16_t>(group);
    place.fills = fills;
    filling_ += fills ? 1 : 0;
    return {i, ++place.generation};
  }
  /// Or null.
  [[nodiscard]] const Place* find(IoPin pin) const noexcept {
    if (pin.index >= count_) return nullptr;
    const Place& place = places_[pin.index];
    return place.page != no_entry && place.generation == pin.generation ? &place : nullptr;
  }
  /// Of a transfer that reads: it has `page` from now on. Returns the one that it had.
  [[nodiscard]] uint32_t move(IoPin pin, uint32_t page) noexcept {
    return std::exchange(places_[pin.index].page, page);
  }
  void remove(IoPin pin) noexcept {
    filling_ -= places_[pin.index].fills ? 1 : 0;
    places_[pin.index].page = no_entry;
    places_[pin.index].next_free = std::exchange(free_, pin.index);
  }

  /// Transfers that fill pages.
  [[nodiscard]] uint32_t filling() const noexcept { return filling_; }

  /// Whether a transfer has the page. O(count)
  [[nodiscard]] bool have(uint32_t group, uint32_t page) const noexcept {
    bool found = false;
    visit(
        [&](const Place& place) { found = found || (place.page == page && place.group == group); });
    return found;
  }
  template <class Visit>
  void visit(Visit visit) const noexcept {
    for (uint32_t i = 0; i < count_; ++i)
      if (places_[i].page != no_entry) visit(places_[i]);
  }

 private:
  Place* places_ = nullptr;
  uint32_t count_ = 0, free_ = no_entry, filling_ = 0;
};

}  // namespace folio::inline v1::pool
