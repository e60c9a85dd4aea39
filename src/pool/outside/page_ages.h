// SPDX-License-Identifier: Apache-2.0
/// pool/outside/page_ages.h: when each page was filled and used, for histograms.
///
/// The clock is the number of pages taken. Counts are read by other threads while they grow.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "folio/pool/histograms.h"
#include "pool/outside/shared_word.h"
#include "pool/pages/page_extras.h"

namespace folio::inline v1::pool {

/// Two times of 48 bits, which go round in 325 days of ten million pages a second.
class PageTimes {
 public:
  void store(uint64_t now) noexcept {
    stored_ = static_cast<uint32_t>(now);
    stored_high_ = static_cast<uint16_t>(now >> 32);
    use(now);
  }
  void use(uint64_t now) noexcept {
    used_ = static_cast<uint32_t>(now);
    used_high_ = static_cast<uint16_t>(now >> 32);
  }
  [[nodiscard]] uint64_t since_stored(uint64_t now) const noexcept {
    return (now - (uint64_t{stored_high_} << 32 | stored_)) % (uint64_t{1} << 48);
  }
  [[nodiscard]] uint64_t since_used(uint64_t now) const noexcept {
    return (now - (uint64_t{used_high_} << 32 | used_)) % (uint64_t{1} << 48);
  }

 private:
  uint32_t stored_ = 0, used_ = 0;
  uint16_t stored_high_ = 0, used_high_ = 0;
};

class PageAges {
 public:
  /// Without it nothing is counted.
  void attach(PerPage<PageTimes> times, uint32_t num_pages) noexcept {
    times_ = times;
    for (uint32_t page = 0; page < num_pages; ++page) times_[page] = PageTimes();
  }
  [[nodiscard]] bool on() const noexcept { return times_.is_on(); }

  void stored(uint32_t page) noexcept {
    if (on()) [[unlikely]]
      times_[page].store(clock_);
  }
  void found(uint32_t page) noexcept {
    add(histograms_.reuse, times_[page].since_used(clock_));
    times_[page].use(clock_);
  }
  void given_up(uint32_t page) noexcept {
    if (on()) [[unlikely]]
      times_[page].use(clock_);
  }
  void evicted(uint32_t page) noexcept {
    if (!on()) [[likely]]
      return;
    add(histograms_.lifetime, times_[page].since_stored(clock_));
    add(histograms_.idle, times_[page].since_used(clock_));
  }
  void taken() noexcept { ++clock_; }

  /// Any thread: each count is one that was true, together they need not be of one moment.
  [[nodiscard]] PoolHistograms read() const noexcept {
    return {read(histograms_.lifetime), read(histograms_.idle), read(histograms_.reuse)};
  }

 private:
  static void add(PoolHistogram& histogram, uint64_t value) noexcept {
    const int bucket =
        std::min(static_cast<int>(std::bit_width(value)), PoolHistogram::num_buckets - 1);
    publish(histogram.counts[bucket], histogram.counts[bucket] + 1);
    publish(histogram.sum, histogram.sum + static_cast<int64_t>(value));
  }
  static PoolHistogram read(const PoolHistogram& histogram) noexcept {
    PoolHistogram copy;
    for (int b = 0; b < PoolHistogram::num_buckets; ++b)
      copy.counts[b] = observe(histogram.counts[b]);
    copy.sum = observe(histogram.sum);
    return copy;
  }

  PerPage<PageTimes> times_;
  uint64_t clock_ = 0;  ///< pages taken
  PoolHistograms histograms_;
};

}  // namespace folio::inline v1::pool
