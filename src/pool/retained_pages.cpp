// SPDX-License-Identifier: Apache-2.0
/// pool/retained_pages.cpp: the calls by which pages are kept, and what they refuse.
#include <algorithm>
#include <memory>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::Keep;

// ---- Checks

namespace {

Status check_level(const char* call, size_t range, const RetentionRange& r, int64_t max_ms) {
  if (r.level < 0 || r.level > retention_level::pinned) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: level of retention range {} is {}, expected 0 .. {}", call, range,
                r.level, retention_level::pinned);
  }
  if (r.milliseconds >= 0 && r.milliseconds <= max_ms) return {};
  return fail(Errc::invalid_argument,
              "PagePool::{}: milliseconds of retention range {} are {}, expected 0 .. {} "
              "(max_retention_ms)",
              call, range, r.milliseconds, max_ms);
}

}  // namespace

Status check_retention(const char* call, const SequenceOptions& o,
                       const PoolOptions& pool) noexcept {
  const bool decodes = o.decode_retention.level != DecodeRetention::not_given;
  if (o.retention.empty() && !decodes) return {};
  if (pool.max_retention_ms == 0) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: retention is given, expected none, as max_retention_ms is 0", call);
  }
  if (o.retention.size() > max_retention_ranges) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: retention has {} ranges, expected at most {}", call,
                o.retention.size(), max_retention_ranges);
  }
  if (o.retention.data() == nullptr && !o.retention.empty())
    return null_memory(call, "retention", o.retention.size());
  for (size_t i = 0; i < o.retention.size(); ++i) {
    const RetentionRange& r = o.retention[i];
    if (r.begin < 0 || r.end <= r.begin) {
      return fail(Errc::invalid_argument,
                  "PagePool::{}: retention range {} is {} .. {}, expected 0 <= begin < end", call,
                  i, r.begin, r.end);
    }
    if (Status s = check_level(call, i, r, pool.max_retention_ms); !s.is_ok()) return s;
  }
  if (!decodes) return {};
  const DecodeRetention& d = o.decode_retention;
  if (d.level < 0 || d.level > retention_level::pinned) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: level of decode_retention is {}, expected 0 .. {}, or {} for none",
                call, d.level, retention_level::pinned, DecodeRetention::not_given + 0);
  }
  if (d.milliseconds >= 0 && d.milliseconds <= pool.max_retention_ms) return {};
  return fail(Errc::invalid_argument,
              "PagePool::{}: milliseconds of decode_retention are {}, expected 0 .. {} "
              "(max_retention_ms)",
              call, d.milliseconds, pool.max_retention_ms);
}

// ---- Calls

Result<int32_t> PagePool::retain(std::span<const TokenId> prompt,
                                 const SequenceOptions& options) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "retain");
  if (Status s = pool::check_prompt(prompt, options, "retain"); !s.is_ok()) return s;
  State& state = *state_;
  if (Status s = pool::check_spans(prompt, options, state.options, "retain"); !s.is_ok()) return s;
  if (Status s = pool::check_retention("retain", options, state.options); !s.is_ok()) return s;
  if (state.retention == nullptr) {
    return fail(Errc::invalid_argument,
                "PagePool::retain: the pool keeps nothing, expected max_retention_ms above 0");
  }
  const int64_t page_size = state.options.page_size;
  const uint32_t space = state.namespaces.find(options.salt, options.adapter);
  const uint32_t found = state
                             .match(space, prompt.data(), options.spans,
                                    state.lookup_limit(prompt.size() + 1), state.retained.row)
                             .pages;
  const pool::KeepRanges said = state.retention->ranges(options.retention, {}, 0);
  for (int64_t p = found; p-- > 0;) {  // tail first, as sequences give up
    const Keep* const keep = said.of(p * page_size, found * page_size);
    if (keep != nullptr) state.retention->set(state.retained.row[p], *keep, *state.eviction);
  }
  state.end_call();
  return static_cast<int32_t>(found * page_size);
}

Status PagePool::advance_time(int64_t now_ms) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "advance_time");
  const int64_t last = state_->retention == nullptr ? 0 : state_->retention->now_ms();
  if (now_ms < last) {
    return fail(Errc::invalid_argument,
                "PagePool::advance_time: now_ms is {}, expected at least {} (the time said last)",
                now_ms, last);
  }
  if (state_->retention != nullptr) state_->retention->advance(now_ms, *state_->eviction);
  state_->end_call();
  return {};
}

}  // namespace folio::inline v1::pool
