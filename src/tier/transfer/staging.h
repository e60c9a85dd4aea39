// SPDX-License-Identifier: Apache-2.0
/// tier/transfer/staging.h: slots in which pieces land that need a conversion.
#pragma once

#include <cstdint>
#include <vector>

#include "folio/core/buffer.h"
#include "folio/tier/transfer.h"

namespace folio::inline v1::tier {

/// Memory of equal slots, a region of its own.
class Staging {
 public:
  /// Errors: out_of_memory, and those of add_region
  [[nodiscard]] static Result<Staging> create(Transport& transport, uint32_t slots,
                                              int64_t slot_bytes) noexcept {
    Result<Buffer> memory = Buffer::allocate(slots * slot_bytes);
    if (!memory) return memory.error();
    const Result<RegionId> region =
        transport.add_region({memory->data(), static_cast<size_t>(memory->bytes())});
    if (!region) return region.error();
    try {
      Staging staging(std::move(*memory), *region, slot_bytes);
      for (uint32_t slot = slots; slot-- > 0;) staging.free_.push_back(slot);
      staging.slots_ = slots;
      return staging;
    } catch (const std::bad_alloc&) {
      static_cast<void>(transport.remove_region(*region));
      return fail(Errc::out_of_memory, "HandoverReceiver::create: no memory");
    }
  }

  [[nodiscard]] RegionId region() const noexcept { return region_; }
  [[nodiscard]] int64_t slot_bytes() const noexcept { return slot_bytes_; }
  [[nodiscard]] uint32_t slots() const noexcept { return slots_; }
  [[nodiscard]] uint32_t free_slots() const noexcept { return static_cast<uint32_t>(free_.size()); }
  [[nodiscard]] std::byte* memory() const noexcept { return memory_.data(); }
  [[nodiscard]] std::byte* slot(uint32_t index) const noexcept {
    return memory_.data() + index * slot_bytes_;
  }
  /// Requires a free one.
  [[nodiscard]] uint32_t take() noexcept {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(uint32_t slot) noexcept { free_.push_back(slot); }  // within its capacity

 private:
  Staging(Buffer memory, RegionId region, int64_t slot_bytes)
      : memory_(std::move(memory)), region_(region), slot_bytes_(slot_bytes) {}
  Buffer memory_;
  RegionId region_;
  int64_t slot_bytes_ = 0;
  uint32_t slots_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace folio::inline v1::tier
