// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/cost_eviction.h: what a page costs to compute again decides, too.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pool/eviction/eviction.h"

namespace folio::inline v1::pool {

/// As AgedLfu, but pages of long sequences are worth more: attention makes a token cost the more
/// the later it stands, and without its tail a prefix saves the less. Worth = times found + weight
/// * eighths of `longest` that the longest sequence had that gave the page up.
///
/// All pages of a sequence get the worth of its end, not each that of its place: so a page is worth
/// as much as what continues it, and is given up after it. Whoever had that had the page, too.
class AgedCost final : public EvictionPolicy {
 public:
  AgedCost() noexcept : EvictionPolicy(true) {}
  void attach(const PolicyMemory& memory) noexcept {
    records_ = memory.records;
    queues_.attach(memory.lists);
    longest_ = memory.longest;
  }
  void add(uint32_t page) noexcept override {
    const uint8_t use = records_[page].use;
    queues_.add(page, static_cast<uint8_t>(use % (most_found + 1) + weight * (use >> found_bits)));
  }
  void found(uint32_t page) noexcept override {
    uint8_t& use = records_[page].use;
    if (use % (most_found + 1) != most_found) ++use;
  }
  void given_up(uint32_t page, uint32_t sequence_pages) noexcept override {
    const uint64_t eighths = std::min<uint64_t>(uint64_t{sequence_pages} * 8 / longest_, 7);
    uint8_t& use = records_[page].use;
    const uint64_t cost = std::max<uint64_t>(use >> found_bits, eighths);
    use = static_cast<uint8_t>(cost << found_bits | use % (most_found + 1));
  }
  [[nodiscard]] uint32_t take() noexcept override { return queues_.take(); }
  [[nodiscard]] const char* fault() const noexcept override { return queues_.fault(); }

 private:
  static constexpr int found_bits = 5;  ///< of `use`; 3 for the eighths
  static constexpr uint8_t most_found = (1 << found_bits) - 1;
  static constexpr uint8_t weight = 2;
  static_assert(most_found + weight * 7 <= AgedQueues::most);

  PageRecord* records_ = nullptr;
  AgedQueues queues_;
  uint64_t longest_ = 1;
};

}  // namespace folio::inline v1::pool
