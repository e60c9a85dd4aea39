// SPDX-License-Identifier: Apache-2.0
/// pool/reader.cpp: what other threads read. Nothing here loads a word that the scheduler changes
/// but through shared_word.h, or takes a lock.
#include "folio/pool/reader.h"

#include <algorithm>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

Result<PoolReader> PoolReader::of(const PagePool& pool) noexcept {
  if (pool.state_ == nullptr) return pool::moved_from("reader");
  if (pool.state_->options.readers) return PoolReader(pool.state_);
  return fail(Errc::invalid_argument,
              "PoolReader::of: the pool has no readers, expected PoolOptions::readers");
}

int32_t PoolReader::peek(std::span<const TokenId> prompt,
                         const SequenceOptions& options) const noexcept {
  const PagePool::State& state = *state_;
  if (!state.options.prefix_reuse || !pool::check_prompt(prompt, options).is_ok() ||
      !pool::check_spans(prompt, options, state.options).is_ok())
    return 0;
  const pool::Namespaces::Observed space =
      state.namespaces.observe_content(options.salt, options.adapter);
  if (space.content == 0) return 0;
  const int32_t page_size = state.options.page_size;
  const int64_t limit =
      std::min<int64_t>(state.lookup_limit(prompt.size()), state.max_tokens / page_size);
  pool::Before before{space.content, space.hash};
  std::span<const ContentSpan> spans = options.spans;
  int64_t pages = 0;
  for (; pages < limit; ++pages) {
    before = state.items.observe(before, static_cast<uint32_t>(pages), spans);
    if (before.content == 0) break;
    before.hash = state.index.hash(before.hash, prompt.data() + pages * page_size);
    before.content = state.index.observe_content(before.content, before.hash);
    if (before.content == 0) break;
  }
  return static_cast<int32_t>(pages * page_size);
}

Result<PoolStats> PoolReader::stats() const noexcept {
  const auto& ring = state_->shared_stats;
  PoolStats stats;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (ring.read(ring.newest(), stats) == pool::Found::value) return stats;
  }
  return fail(Errc::busy, "PoolReader::stats: the scheduler was faster than every copy");
}

Result<PoolHistograms> PoolReader::histograms() const noexcept { return state_->histograms(); }

Result<EventRead> PoolReader::read_events(uint64_t next,
                                          std::span<PoolEvent> events) const noexcept {
  if (Status s = state_->check_events("read_events", events); !s.is_ok()) return s;
  return state_->events.read(next, events);
}

}  // namespace folio::inline v1::pool
