// SPDX-License-Identifier: Apache-2.0
/// cli/replay/recorder.cpp: from events of a replay to samples.
#include "replay/recorder.h"

#include <algorithm>
#include <utility>

namespace folio::cli {

void StepSample::merge(const StepSample& later) {
  end = later.end;
  steps += later.steps;
  used_pages = later.used_pages;
  cached_pages = later.cached_pages;
  free_pages = later.free_pages;
  lookup_pages += later.lookup_pages;
  hit_pages += later.hit_pages;
  evicted_pages += later.evicted_pages;
  seconds += later.seconds;
  most_seconds = std::max(most_seconds, later.most_seconds);
}

void HeatColumn::merge(const HeatColumn& later) {
  end = later.end;
  for (size_t row = 0; row < found.size(); ++row) {
    found[row] += later.found[row];
    written[row] += later.written[row];
  }
}

void PositionHistogram::add(int64_t prompt, int64_t found) {
  while (prompt > width_ * static_cast<int64_t>(most_positions)) {
    for (size_t i = 0; i < ranges_.size(); i += 2) {
      Range both = ranges_[i];
      if (i + 1 < ranges_.size()) {
        both.tokens += ranges_[i + 1].tokens;
        both.found += ranges_[i + 1].found;
      }
      ranges_[i / 2] = both;
    }
    ranges_.resize((ranges_.size() + 1) / 2);
    width_ *= 2;
  }
  const auto needed = static_cast<size_t>((prompt + width_ - 1) / width_);
  if (ranges_.size() < needed) ranges_.resize(needed);
  for (size_t i = 0; i < needed; ++i)
    ranges_[i].tokens += std::min(prompt - static_cast<int64_t>(i) * width_, width_);
  add_found(0, found);
}

void PositionHistogram::add_found(int64_t begin, int64_t end) {
  while (begin < end) {
    const int64_t in_range = std::min(end, (begin / width_ + 1) * width_) - begin;
    ranges_[static_cast<size_t>(begin / width_)].found += in_range;
    begin += in_range;
  }
}

Recorder::Recorder(std::span<const TraceRequest> trace, uint32_t pages)
    : trace_(trace), pages_(pages) {
  const auto rows = static_cast<int64_t>(most_heat_rows);
  pages_per_row_ = std::max<int64_t>((int64_t{pages} + rows - 1) / rows, 1);
  rows_ = static_cast<size_t>((int64_t{pages} + pages_per_row_ - 1) / pages_per_row_);
}

void Recorder::admitted(std::span<const AdmittedRequest> requests, const PoolStats& stats) {
  int64_t fresh = 0;
  for (const AdmittedRequest& a : requests) fresh += static_cast<int64_t>(a.row.size()) - a.found;
  // The pool takes free pages before it evicts, so those that were evicted come last.
  int64_t still_free = fresh - (stats.evicted_pages - before_.evicted_pages);
  now_stats_ = stats;
  for (const AdmittedRequest& a : requests) admit(a, still_free);
}

void Recorder::admit(const AdmittedRequest& a, int64_t& still_free) {
  now_ = static_cast<uint32_t>(a.request);
  positions_.add(trace_[now_].input_length, a.found_tokens);
  HeatColumn column{.end = ++admitted_,
                    .found = std::vector<uint32_t>(rows_),
                    .written = std::vector<uint32_t>(rows_)};
  const auto row_of = [&](uint32_t page) { return static_cast<size_t>(page / pages_per_row_); };
  const auto found = static_cast<size_t>(a.found);
  for (const uint32_t page : a.row.first(found)) {
    ++pages_[page].finds;
    ++column.found[row_of(page)];
  }
  for (const uint32_t page : a.row.subspan(found)) {
    if (still_free-- <= 0) evicted(page, a.request);
    pages_[page] = {now_, 0};
    ++column.written[row_of(page)];
  }
  heat_.add(std::move(column));
}

void Recorder::evicted(uint32_t page, int64_t request) {
  const PageUse& use = pages_[page];
  idle_requests_.add(request - int64_t{use.last_request});
  const int64_t milliseconds =
      trace_[static_cast<size_t>(request)].timestamp_ms - trace_[use.last_request].timestamp_ms;
  idle_seconds_.add(std::max<int64_t>(milliseconds, 0) / 1000);
  finds_.add(use.finds);
}

void Recorder::releasing(std::span<const uint32_t> row) {
  for (const uint32_t page : row) pages_[page].last_request = now_;
}

void Recorder::end_step(double seconds) {
  const PoolStats& now = now_stats_;
  steps_.add({.end = ++steps_so_far_,
              .used_pages = now.used_pages,
              .cached_pages = now.cached_pages,
              .free_pages = now.free_pages,
              .lookup_pages = now.lookup_pages - before_.lookup_pages,
              .hit_pages = now.hit_pages - before_.hit_pages,
              .evicted_pages = now.evicted_pages - before_.evicted_pages,
              .seconds = seconds,
              .most_seconds = seconds});
  before_ = now;
}

}  // namespace folio::cli
