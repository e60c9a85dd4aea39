// SPDX-License-Identifier: Apache-2.0
/// cli/replay/hybrid_recorder.cpp: from steps of a pool with groups to samples.
#include "replay/hybrid_recorder.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace folio::cli {

void HybridSample::merge(const HybridSample& later) {
  end = later.end;
  steps += later.steps;
  for (size_t g = 0; g < groups.size(); ++g) {
    const int64_t evicted = groups[g].evicted + later.groups[g].evicted;
    groups[g] = later.groups[g];
    groups[g].evicted = evicted;
  }
  everything_bytes = later.everything_bytes;
  prompt_tokens += later.prompt_tokens;
  hit_tokens += later.hit_tokens;
  seconds += later.seconds;
  most_seconds = std::max(most_seconds, later.most_seconds);
}

HybridRecorder::HybridRecorder(std::span<const TraceRequest> trace, const PagePool& pool,
                               std::span<const GroupOptions> groups, int64_t arena_bytes)
    : trace_(trace), arena_bytes_(arena_bytes) {
  for (uint32_t g = 0; g < pool.num_groups(); ++g) {
    rules_.push_back(groups[g].rule);
    groups_.push_back(pool.group(g).value());
    slab_bytes_ = std::lcm(slab_bytes_, groups_[g].page_bytes);
  }
  const int64_t slabs = std::max<int64_t>(arena_bytes / slab_bytes_, 1);
  const auto rows = static_cast<int64_t>(most_heat_rows);
  slabs_per_row_ = (slabs + rows - 1) / rows;
  rows_ = static_cast<size_t>((slabs + slabs_per_row_ - 1) / slabs_per_row_);
}

void HybridRecorder::begin_step(const PagePool& pool, const Step& step, int64_t everything_bytes) {
  now_ = {.end = ++steps_so_far_, .everything_bytes = everything_bytes};
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    const GroupFigures figures = pool.group(g).value();
    now_.groups.push_back({figures.used_pages, figures.cached_pages,
                           figures.evicted_pages - groups_[g].evicted_pages});
    groups_[g] = figures;
  }
  HeatColumn column{.end = steps_so_far_,
                    .found = std::vector<uint32_t>(rows_ * groups_.size()),
                    .written = std::vector<uint32_t>(rows_ * groups_.size())};
  for (const AdmittedSequence& admission : step.admissions) {
    admit(admission);
    count(pool, admission.id, {0, admission.found, admission.found}, column.found);
  }
  for (const StepEntry& entry : step.entries) {
    const int64_t done = entry.sequence->done;
    count(pool, entry.sequence->id, {done, done + entry.new_tokens, entry.sequence->first},
          column.written);
  }
  heat_.add(std::move(column));
}

void HybridRecorder::admit(const AdmittedSequence& admission) {
  const int64_t prompt = trace_[static_cast<size_t>(admission.request)].input_length;
  if (admission.farthest == 0) {
    now_.prompt_tokens += prompt;
    positions_.add(prompt, 0);
  }
  // What it had before, it finds again; that is no hit.
  now_.hit_tokens += std::max(admission.found - admission.farthest, 0);
  positions_.add_found(admission.farthest, admission.found);
}

void HybridRecorder::count(const PagePool& pool, SequenceId id, Tokens tokens,
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
      ++counts[g * rows_ + static_cast<size_t>(slab / slabs_per_row_)];
    }
  }
}

void HybridRecorder::end_step(double seconds) {
  now_.seconds = now_.most_seconds = seconds;
  steps_.add(std::move(now_));
}

}  // namespace folio::cli
