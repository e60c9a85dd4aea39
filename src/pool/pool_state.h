// SPDX-License-Identifier: Apache-2.0
/// pool/pool_state.h: everything a pool remembers, in one block of memory.
///
/// A pool has floors, each of which knows those below it and none above: pages of the leading group
/// (`LeadingGroup`), pages of all groups (`Pages`), the rows of sequences (`Rows`), what can be
/// found (`Lookup`), room for tokens to come (`Room`), sequences that part (`Branches`), rows that
/// are filled from elsewhere (`Loads`). The calls of PagePool stand on them all.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/carver.h"
#include "folio/pool/page_pool.h"
#include "pool/loads.h"
#include "pool/outside/event_log.h"
#include "pool/outside/shared_ring.h"

namespace folio::inline v1::pool {

struct PagePool::State : pool::Loads {
  /// A reader that copies statistics is overtaken by the calls of a whole round at the earliest.
  using StatsRing = pool::SharedRing<PoolStats>;
  static constexpr uint32_t num_stats = 16;

  /// `given`: checked, defaults filled in.
  explicit State(const PoolOptions& given) noexcept : Loads(given) { place_extras(); }

  // Memory: memory.cpp.
  void carve(Carver& carver) noexcept;  ///< places, or only measures, the arrays
  void start() noexcept;                ///< fills them

  /// Of a sequence and a length that have been checked: load_calls.cpp.
  [[nodiscard]] Status begin_load(const char* call, pool::SequenceRecord& s,
                                  std::span<const TokenId> prompt, int32_t length,
                                  std::span<GroupBits> fill) noexcept;

  // Statistics.
  [[nodiscard]] PoolStats stats() const noexcept;
  [[nodiscard]] Result<PoolHistograms> histograms() const noexcept;
  /// At the end of a call that has changed something.
  void end_call() noexcept {
    peak_used = std::max(peak_used, int64_t{options.num_pages} - available());
    if (stats_slots != nullptr) [[unlikely]]
      shared_stats.push(stats());
  }

  // Invariants: check_invariants.cpp. Each counts into arrays by page what the next ones compare.
  [[nodiscard]] Status check_sequences(uint32_t* references) const noexcept;
  [[nodiscard]] Status check_row(const pool::SequenceRecord& s,
                                 uint32_t* references) const noexcept;
  [[nodiscard]] Status check_steps_and_copies(uint32_t* pins) const noexcept;
  [[nodiscard]] Status check_pages(const uint32_t* references, const uint32_t* pins) const noexcept;
  [[nodiscard]] Status check_content(uint32_t page) const noexcept;
  [[nodiscard]] Status check_head(uint32_t page) const noexcept;
  [[nodiscard]] Status check_lists() const noexcept;
  // Of the other groups: check_groups.cpp.
  [[nodiscard]] Status check_groups() const noexcept;
  [[nodiscard]] Status check_group(const pool::Group& group, uint32_t* holds) const noexcept;
  [[nodiscard]] Status check_group_row(const pool::SequenceRecord& s, const pool::Group& group,
                                       uint32_t* holds) const noexcept;

  int64_t bytes = 0;  ///< of the block of memory
  uint32_t* buckets = nullptr;
  pool::Ghosts::Ghost* ghost_ring = nullptr;  ///< of a policy with ghosts
  uint32_t* ghost_buckets = nullptr;
  pool::Retention::Memory retained;
  PageName* names = nullptr;  ///< [num_pages] with PoolOptions::name
  pool::EventLog::Memory event_memory;
  StatsRing::Slot* stats_slots = nullptr;  ///< with PoolOptions::readers
  StatsRing shared_stats;
  uint32_t* head_buckets = nullptr;  ///< with min_partial_tokens
  pool::Namespace* spaces = nullptr;
  uint32_t* space_buckets = nullptr;
  pool::ItemSpans::Memory spans_memory;      ///< with max_spans
  pool::IoPins::Place* io_places = nullptr;  ///< with max_io_pins

 private:
  void place_extras() noexcept;
  void carve_retention(Carver& carver) noexcept;
  void start_retention() noexcept;
  [[nodiscard]] int64_t num_spaces() const noexcept {
    return int64_t{options.max_sequences} + options.max_namespaces;
  }
};

}  // namespace folio::inline v1::pool
