// SPDX-License-Identifier: Apache-2.0
/// folio/pool/reader.h: a look into a pool from other threads, while its scheduler works.
///
/// The rule: one thread, the scheduler's, calls the pool; any number of threads use PoolReaders of
/// it at any time, and the scheduler never waits for them. What they are told was true at some
/// moment of the call, and is advice when it arrives: content may be gone before a prompt is
/// admitted. Content that stays for the whole of a `peek` is always found by it.
///
/// Lifetime:      a reader is a pointer: free to copy, valid while the pool lives, wherever it is
///                moved to. Who destroys the pool first stops the threads that read it.
/// Errors:        `of` says what is missing; the calls have none but those they name.
/// Cost:          `peek` is O(pages of the prompt), and touches no tokens of the pool: a page is
///                known by the content before it and 32 bits of a seeded hash of its chain: one
///                that continues it otherwise is taken for it once in 2^32, and a salt for
///                another as seldom. No call allocates, waits, or runs without an end.
/// Thread safety: any number of threads, one reader or many.
#pragma once

#include <cstdint>
#include <span>

#include "folio/core/export.h"
#include "folio/core/status.h"
#include "folio/pool/page_pool.h"

namespace folio::inline v1::pool {

class FOLIO_EXPORT PoolReader {
 public:
  /// The scheduler's thread. Errors: invalid_argument for a moved-from pool, or one without
  /// PoolOptions::readers
  [[nodiscard]] static Result<PoolReader> of(const PagePool& pool) noexcept;

  /// Tokens in whole cached or used pages that `admit` would find: PagePool::peek, less what
  /// PoolOptions::min_partial_tokens lets it find inside a page. With groups, in leading pages: an
  /// upper bound, as `admit` takes no more than what every other group has, too.
  [[nodiscard]] int32_t peek(std::span<const TokenId> prompt,
                             const SequenceOptions& options = {}) const noexcept;

  /// Statistics between two calls of the scheduler, all of one moment: the last or, if the
  /// scheduler is faster than the copy, one just before. Errors: busy if it was faster for a
  /// thousand copies in a row
  [[nodiscard]] Result<PoolStats> stats() const noexcept;

  /// Each count is one that was true, but together they need not be of one moment. Errors: as
  /// PagePool::histograms
  [[nodiscard]] Result<PoolHistograms> histograms() const noexcept;

  /// As PagePool::read_events. Errors: the same
  [[nodiscard]] Result<EventRead> read_events(uint64_t next,
                                              std::span<PoolEvent> events) const noexcept;

 private:
  explicit PoolReader(const PagePool::State* state) noexcept : state_(state) {}
  const PagePool::State* state_;
};

}  // namespace folio::inline v1::pool

namespace folio::inline v1 {  // flat names, for one release
using pool::PoolReader;
}  // namespace folio::inline v1
