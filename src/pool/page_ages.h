// SPDX-License-Identifier: Apache-2.0
/// pool/page_ages.h: when each page was filled and used, for histograms.
///
/// The clock is the number of pages taken. Counts are read by other threads while they grow.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "folio/pool/histograms.h"
#include "pool/shared_word.h"

namespace folio::inline v1::pool {

class PageAges {
 public:
  struct Times {
    uint64_t stored = 0, used = 0;
  };

  /// [num_pages]; null: nothing is counted.
  void attach(Times* times) noexcept { times_ = times; }
  [[nodiscard]] bool on() const noexcept { return times_ != nullptr; }

  /// Asks for what `evicted` and `stored` will touch.
  void prefetch(uint32_t page) const noexcept {
    if (on()) [[unlikely]]
      __builtin_prefetch(&times_[page], 1);
  }
  void stored(uint32_t page) noexcept {
    if (on()) [[unlikely]]
      times_[page] = {clock_, clock_};
  }
  void found(uint32_t page) noexcept {
    add(histograms_.reuse, clock_ - times_[page].used);
    times_[page].used = clock_;
  }
  void given_up(uint32_t page) noexcept {
    if (on()) [[unlikely]]
      times_[page].used = clock_;
  }
  void evicted(uint32_t page) noexcept {
    if (!on()) [[likely]]
      return;
    add(histograms_.lifetime, clock_ - times_[page].stored);
    add(histograms_.idle, clock_ - times_[page].used);
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

  Times* times_ = nullptr;
  uint64_t clock_ = 0;  ///< pages taken
  PoolHistograms histograms_;
};

}  // namespace folio::inline v1::pool
