// SPDX-License-Identifier: Apache-2.0
/// pool/eviction/retention.h: levels and deadlines of cached pages, in front of the eviction
/// policy.
///
/// A page waits in the list of its level (`PageRecord::level`), at `policy_level` in a queue of the
/// policy, which knows nothing of the other ones. The level belongs to a content: of the pages that
/// have it, the findable one has the level and hangs in the timing wheel, held or not, unless it is
/// at policy_level. Every call is O(1) per page; 12 bytes a page.
#pragma once

#include <cstdint>
#include <span>

#include "folio/pool/page_pool.h"
#include "pool/eviction/eviction.h"
#include "pool/eviction/timing_wheel.h"
#include "pool/pages/page_lists.h"

namespace folio::inline v1::pool {

/// How long to keep a page from now on. Beyond another one: at a higher level, or for longer.
struct Keep {
  uint8_t level = policy_level;
  uint32_t ticks = 0;  ///< 0 at policy_level
  auto operator<=>(const Keep&) const = default;
};

/// What a sequence asked for. Ticks stand for milliseconds.
class KeepRanges {
 public:
  KeepRanges() = default;
  /// `given`: checked. Tokens behind `prompt` get `decode`.
  KeepRanges(std::span<const RetentionRange> given, const DecodeRetention& decode, int32_t prompt,
             int64_t max_ms, int64_t ms_per_tick) noexcept;
  /// The most that is asked for tokens begin .. end - 1; null: nothing.
  [[nodiscard]] const Keep* of(int64_t begin, int64_t end) const noexcept;

 private:
  struct Range {
    int32_t begin = 0, end = 0;
    Keep keep;
  };
  uint32_t count_ = 0;  ///< highest first
  Range ranges_[max_retention_ranges + 1];
};

class Groups;

class Retention {
 public:
  struct Memory {
    uint32_t* row = nullptr;                    ///< [max_pages_per_sequence]: what a call has found
    TimingWheel::Entry* wheel_heads = nullptr;  ///< [num_wheels * num_lists]
    PageLists::Head* levels = nullptr;          ///< [num_levels - 1]
    KeepRanges* of_sequences = nullptr;         ///< [max_sequences]
  };

  /// `groups` is told of pages that come to another level.
  Retention(PageRecord* records, PageLists* lists, PerPage<TimingWheel::Entry> entries,
            const Memory& memory, Groups* groups, const PoolOptions& options) noexcept;

  // Time.
  [[nodiscard]] int64_t now_ms() const noexcept { return now_ms_; }
  /// Not back. Pages whose time has come go to policy_level.
  void advance(int64_t now_ms, EvictionPolicy& policy) noexcept;

  // What sequences ask for.
  [[nodiscard]] KeepRanges ranges(std::span<const RetentionRange> given,
                                  const DecodeRetention& decode, int32_t prompt) const noexcept {
    return {given, decode, prompt, max_ms_, ms_per_tick_};
  }
  [[nodiscard]] KeepRanges& of_sequence(uint32_t sequence) noexcept {
    return of_sequences_[sequence];
  }

  // Pages. All are findable.
  /// A sequence that gives the page up asks to keep it: of those that did, the highest counts.
  void raise(uint32_t page, const Keep& keep) noexcept;
  /// Instead of what was asked for before. A cached page waits anew if its level changes.
  void set(uint32_t page, const Keep& keep, EvictionPolicy& policy) noexcept;
  /// Nobody holds the page any more, whose level is not policy_level.
  void add(uint32_t page) noexcept;
  /// The page that goes; it is still in its list. Needs an evictable one.
  [[nodiscard]] uint32_t take(EvictionPolicy& policy) noexcept;
  /// The page's content is gone, or lives on with a page that nobody has asked to keep.
  void forget(uint32_t page) noexcept;
  void hand_over(uint32_t page, uint32_t heir) noexcept;

  /// What is wrong, or null. O(pages)
  [[nodiscard]] const char* fault(uint32_t num_pages) const noexcept;

 private:
  void put(uint32_t page, const Keep& keep) noexcept;
  [[nodiscard]] Keep kept(uint32_t page) const noexcept;
  void set_level(uint32_t page, uint8_t level) noexcept;

  PageRecord* records_;
  PageLists* lists_;
  KeepRanges* of_sequences_;
  TimingWheel wheel_;
  Groups* groups_;
  int64_t max_ms_, ms_per_tick_;
  int64_t now_ms_ = 0, start_ms_ = 0;  ///< the wheel's tick 0
  bool has_started_ = false;
};

}  // namespace folio::inline v1::pool
