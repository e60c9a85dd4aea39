// SPDX-License-Identifier: Apache-2.0
/// cli/replay/recorder.cpp: from events of a replay to samples.
#include "replay/recorder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace folio::cli {

void StepSample::merge(const StepSample& later) {
  StepSample both = later;
  both.steps += steps;
  for (size_t g = 0; g < groups.size(); ++g) both.groups[g].evicted += groups[g].evicted;
  both.asked += asked;
  both.found += found;
  both.seconds += seconds;
  both.most_seconds = std::max(both.most_seconds, most_seconds);
  *this = std::move(both);
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

Recorder::Recorder(std::span<const TraceRequest> trace, int64_t places) : trace_(trace) {
  const auto rows = static_cast<int64_t>(most_heat_rows);
  places_per_row_ = std::max<int64_t>((places + rows - 1) / rows, 1);
  rows_ = static_cast<size_t>((places + places_per_row_ - 1) / places_per_row_);
}

HeatColumn Recorder::column(int64_t end, size_t groups) const {
  const std::vector<uint32_t> none(rows_ * groups);
  return {.end = end, .found = none, .written = none};
}

void Recorder::end_step(double seconds) {
  now_.seconds = now_.most_seconds = seconds;
  steps_.add(std::move(now_));
}

void PageRecorder::admitted(std::span<const AdmittedRequest> requests, const PoolStats& stats) {
  const int64_t evicted = stats.evicted_pages - before_.evicted_pages;
  begin_step({.groups = {{stats.used_pages, stats.cached_pages, evicted}},
              .asked = stats.lookup_pages - before_.lookup_pages,
              .found = stats.hit_pages - before_.hit_pages,
              .free_pages = stats.free_pages});
  before_ = stats;
  int64_t fresh = 0;
  for (const AdmittedRequest& a : requests) fresh += static_cast<int64_t>(a.row.size()) - a.found;
  // The pool takes free pages before it evicts, so those that were evicted come last.
  int64_t still_free = fresh - evicted;
  for (const AdmittedRequest& a : requests) admit(a, still_free);
}

void PageRecorder::admit(const AdmittedRequest& a, int64_t& still_free) {
  last_ = static_cast<uint32_t>(a.request);
  add_prompt(traced(a.request).input_length, a.found_tokens);
  HeatColumn heat = column(++admitted_, 1);
  const auto found = static_cast<size_t>(a.found);
  for (const uint32_t page : a.row.first(found)) {
    ++pages_[page].finds;
    ++heat.found[row_of(page)];
  }
  for (const uint32_t page : a.row.subspan(found)) {
    if (still_free-- <= 0) evicted(page, a.request);
    pages_[page] = {last_, 0};
    ++heat.written[row_of(page)];
  }
  add_heat(std::move(heat));
}

void PageRecorder::evicted(uint32_t page, int64_t request) {
  const PageUse& use = pages_[page];
  idle_requests_.add(request - int64_t{use.last_request});
  const int64_t milliseconds = traced(request).timestamp_ms - traced(use.last_request).timestamp_ms;
  idle_seconds_.add(std::max<int64_t>(milliseconds, 0) / 1000);
  finds_.add(use.finds);
}

void PageRecorder::releasing(std::span<const uint32_t> row) {
  for (const uint32_t page : row) pages_[page].last_request = last_;
}

namespace {

/// Bytes of which every group's pages are a part.
int64_t slab_bytes_of(const PagePool& pool) {
  int64_t bytes = 1;
  for (uint32_t g = 0; g < pool.num_groups(); ++g)
    bytes = std::lcm(bytes, pool.group(g).value().page_bytes);
  return bytes;
}

}  // namespace

GroupRecorder::GroupRecorder(std::span<const TraceRequest> trace, const PagePool& pool,
                             std::span<const GroupOptions> groups, int64_t arena_bytes)
    : Recorder(trace, std::max<int64_t>(arena_bytes / slab_bytes_of(pool), 1)),
      arena_bytes_(arena_bytes),
      slab_bytes_(slab_bytes_of(pool)) {
  for (uint32_t g = 0; g < pool.num_groups(); ++g) {
    rules_.push_back(groups[g].rule);
    groups_.push_back(pool.group(g).value());
  }
}

void GroupRecorder::begin_step(const PagePool& pool, const Step& step, int64_t everything_bytes) {
  Recorder::begin_step({.everything_bytes = everything_bytes});
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const GroupFigures figures = pool.group(g).value();
    now().groups.push_back({figures.used_pages, figures.cached_pages,
                            figures.evicted_pages - groups_[g].evicted_pages});
    groups_[g] = figures;
  }
  HeatColumn heat = column(now().end, groups_.size());
  for (const AdmittedSequence& admission : step.admissions) {
    admit(admission);
    count(pool, admission.id, {0, admission.found, admission.found}, heat.found);
  }
  for (const StepEntry& entry : step.entries) {
    const int64_t done = entry.sequence->done;
    count(pool, entry.sequence->id, {done, done + entry.new_tokens, entry.sequence->first},
          heat.written);
  }
  add_heat(std::move(heat));
}

void GroupRecorder::admit(const AdmittedSequence& admission) {
  const int64_t prompt = traced(admission.request).input_length;
  if (admission.farthest == 0) {
    now().asked += prompt;
    add_prompt(prompt, 0);
  }
  // What it had before, it finds again; that is no hit.
  now().found += std::max(admission.found - admission.farthest, 0);
  add_found(admission.farthest, admission.found);
}

void GroupRecorder::count(const PagePool& pool, SequenceId id, Tokens tokens,
                          std::vector<uint32_t>& counts) {
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const GroupFigures& group = groups_[g];
    const uint32_t* const row = pool.table(g).entries + pool.row_start(id, g).value_or(0);
    const auto page_of = [&](int64_t token) {
      const bool is_copied = token == tokens.found && rules_[g] != GroupRule::state;
      return (token + (is_copied ? 0 : group.page_size - 1)) / group.page_size;
    };
    for (int64_t p = page_of(tokens.begin); p < page_of(tokens.end); ++p) {
      if (row[p] >= group.num_pages) continue;  // behind a window
      const int64_t slab = row[p] / (slab_bytes_ / group.page_bytes);
      ++counts[g * heat_rows() + row_of(slab)];
    }
  }
}

}  // namespace folio::cli
