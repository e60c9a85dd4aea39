// SPDX-License-Identifier: Apache-2.0
/// cli/replay/scheduler.cpp: admission, the token budget, room for each step, what happens where
/// there is none, and the end of requests.
#include "replay/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "load/hybrid_model.h"
#include "load/synthetic.h"

namespace folio::cli {

Batch Step::batch(PageTable table, std::span<const int64_t> rows) const {
  table.row_starts = rows.data();
  Batch batch;
  batch.size = static_cast<int32_t>(entries.size());
  batch.query_offsets = query_offsets.data();
  batch.context_lengths = context_lengths.data();
  batch.table = table;
  return batch;
}

Scheduler::Scheduler(std::span<const TraceRequest> trace, PagePool& pool, SchedulerLimits limits,
                     TieredPages* below, Reserve reserve, int32_t checkpoint)
    : trace_(trace),
      pool_(pool),
      limits_(limits),
      below_(below),
      by_step_(reserve == Reserve::step),
      checkpoint_(checkpoint),
      given_back_(pool.num_groups()) {}

/// Tokens of its prompt for this step; 0 without budget.
int32_t Scheduler::chunk(const Running& sequence) const {
  if (budget_ == 0) return 0;
  if (checkpoint_ == 0) return std::min(budget_, sequence.prompt - sequence.done);
  return tokens_to_checkpoint(sequence.done, sequence.prompt, budget_, pool_.page_size(),
                              checkpoint_);
}

Status Scheduler::next(Step& step) {
  step_ = &step;
  step.number = steps_++;
  step.entries.clear();
  step.admissions.clear();
  budget_ = limits_.step_tokens;
  // by index: whoever finds no room makes the list shorter
  for (size_t i = 0; i < running_.size(); ++i) {
    if (!running_[i]->decodes()) continue;
    if (Status s = give(*running_[i], std::min(budget_, 1)); !s.is_ok()) return s;
  }
  for (size_t i = 0; i < running_.size(); ++i) {
    if (running_[i]->decodes()) continue;
    if (Status s = give(*running_[i], chunk(*running_[i])); !s.is_ok()) return s;
  }
  if (Status s = admit_while_possible(); !s.is_ok()) return s;
  step.query_offsets.assign(1, 0);
  step.context_lengths.clear();
  step.ids.clear();
  for (const StepEntry& entry : step.entries) {
    step.query_offsets.push_back(step.query_offsets.back() + entry.new_tokens);
    step.context_lengths.push_back(entry.sequence->done + entry.new_tokens);
    step.ids.push_back(entry.sequence->id);
  }
  return {};
}

Status Scheduler::give(Running& sequence, int32_t tokens) {
  while (tokens > 0 && sequence.is_admitted) {
    Status s = by_step_ ? pool_.reserve(sequence.id, tokens) : Status();
    if (s.is_ok()) {
      take_budget(sequence, tokens);
      return {};
    }
    if (s.code() != Errc::out_of_pages) return s;
    if (s = make_room(sequence); !s.is_ok()) return s;
  }
  return {};
}

void Scheduler::take_budget(Running& sequence, int32_t tokens) {
  budget_ -= tokens;
  step_->entries.push_back({&sequence, tokens});
}

/// The request that waits gives up what it found, or else the youngest running one all it has,
/// `wanting` itself where it is that one.
Status Scheduler::make_room(Running& wanting) {
  admits_ = false;
  if (!waiting_.empty() && waiting_.front()->is_admitted) return give_up_pages(*waiting_.front());
  if (running_.size() == 1) {
    if (!wanting.takes_hits) return does_not_hold(wanting);
    wanting.takes_hits = false;  // what it found may lie in too many slabs
  }
  return preempt_youngest();
}

Status Scheduler::give_up_pages(Running& sequence) {
  sequence.is_admitted = false;
  sequence.done = 0;
  return release(sequence);
}

Status Scheduler::preempt_youngest() {
  Running& victim = *running_.back();
  std::erase_if(step_->entries, [&](const StepEntry& entry) {
    if (entry.sequence != &victim) return false;
    budget_ += entry.new_tokens;
    return true;
  });
  victim.prompt = std::max(victim.prompt, victim.done);  // its outputs so far are known
  ++preemptions_;
  if (Status s = give_up_pages(victim); !s.is_ok()) return s;
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  return {};
}

bool Scheduler::may_admit() const {
  if (!admits_ || budget_ == 0) return false;
  if (static_cast<int32_t>(running_.size()) >= limits_.max_batch) return false;
  return running_.empty() || running_.front()->takes_hits;  // else it needs all there is
}

bool Scheduler::take_next() {
  if (!waiting_.empty()) return true;
  if (next_ == trace_.size()) return false;
  if (below_ != nullptr && !has_room()) return false;
  const TraceRequest& line = trace_[next_];
  auto sequence = std::make_unique<Running>();
  sequence->request = static_cast<int64_t>(next_);
  sequence->prompt = line.input_length;
  sequence->tokens = history_of(line, sequence->request);
  waiting_.push_back(std::move(sequence));
  ++next_;
  return true;
}

Status Scheduler::admit_while_possible() {
  if (running_.empty()) admits_ = true;
  while (may_admit() && take_next()) {
    Running& sequence = *waiting_.front();
    if (!sequence.is_admitted) {
      if (Status s = admit(sequence); !s.is_ok()) return s;
    }
    const auto has_pages = reserve(sequence);
    if (!has_pages) return has_pages.error();
    if (!*has_pages) {
      if (!running_.empty()) return {};
      if (!sequence.takes_hits) return does_not_hold(sequence);
      sequence.takes_hits = false;
      if (Status s = give_up_pages(sequence); !s.is_ok()) return s;
      continue;
    }
    count_hit(sequence);
    take_budget(sequence, chunk(sequence));
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return {};
}

Status Scheduler::admit(Running& sequence) {
  const std::span<const TokenId> prompt =
      std::span(sequence.tokens).first(static_cast<size_t>(sequence.prompt));
  if (below_ != nullptr) {
    const auto admission = below_->admit(prompt);
    if (!admission) return admission.error();
    sequence.from = *admission;
    sequence.id = admission->id;
    sequence.first = sequence.done = admission->found();
  } else {
    const auto admission = pool_.admit(prompt);
    if (!admission) return admission.error();
    sequence.id = admission->id;
    sequence.first = sequence.done = admission->cached_tokens;
  }
  sequence.is_admitted = true;
  if (!sequence.takes_hits) {
    Status s = below_ != nullptr ? below_->start_over(sequence.id) : pool_.trim(sequence.id, 0);
    if (!s.is_ok()) return s;
    sequence.from = {.id = sequence.id};
    sequence.first = sequence.done = 0;
  }
  sequence.begins.assign(given_back_.size(), 0);
  see_what_left(sequence, false);
  return {};
}

Result<bool> Scheduler::reserve(Running& sequence) {
  Status s = pool_.reserve(sequence.id, by_step_ ? chunk(sequence) : sequence.left());
  if (s.code() == Errc::out_of_pages) return false;
  if (!s.is_ok()) return s;
  return true;
}

bool Scheduler::has_room() const {
  if (by_step_) return has_room_by_step();
  const TraceRequest& line = trace_[next_];
  const int64_t tokens = int64_t{line.input_length} + std::max(line.output_length, 1) - 1;
  const PoolStats stats = pool_.stats();
  return (tokens + pool_.page_size() - 1) / pool_.page_size() <=
         stats.free_pages + stats.cached_pages;
}

bool Scheduler::has_room_by_step() const {
  if (running_.empty()) return true;
  const int64_t prompt = trace_[next_].input_length;
  int64_t left = pool_.group(0).value().num_pages * pool_.group(0).value().page_bytes;
  for (uint32_t g = 0; g < pool_.num_groups(); ++g) {
    GroupOptions group = pool_.group_options(g).value();
    const GroupFigures figures = pool_.group(g).value();
    group.page_bytes = figures.page_bytes;
    left -= figures.used_pages * figures.page_bytes;
    left -= held_bytes(group, pool_.page_size(), prompt);
  }
  return left >= 0;
}

namespace {

/// What of the sources are of tokens behind the first `skipped` ones.
TokensBySource behind(const TieredAdmit& from, int32_t skipped) {
  const auto take = [&](int32_t tokens) {
    const int32_t rest = std::max(tokens - skipped, 0);
    skipped = std::max(skipped - tokens, 0);
    return rest;
  };
  TokensBySource sources{.memory = take(from.memory)};
  sources.completed = std::min<int64_t>(from.completed, sources.memory);
  for (size_t t = 0; t < num_tiers; ++t) sources.tiers[t] = take(from.tiers[t]);
  return sources;
}

}  // namespace

/// Of a request that begins to run.
void Scheduler::count_hit(Running& sequence) {
  const int32_t in_memory = below_ != nullptr ? sequence.from.memory : sequence.first;
  step_->admissions.push_back({sequence.request, sequence.id, in_memory, sequence.farthest});
  const int32_t found = std::max(sequence.first - sequence.farthest, 0);
  if (below_ != nullptr) sequence.sources.add(behind(sequence.from, sequence.first - found));
  hit_tokens_ += found;
  partial_tokens_ += std::min(sequence.first % pool_.page_size(), found);
  sequence.farthest += found;
}

/// Follows the entries that have become unassigned at the front of the sequence's rows.
void Scheduler::see_what_left(Running& sequence, bool counts) {
  for (uint32_t g = 1; g < given_back_.size(); ++g) {
    const GroupFigures figures = pool_.group(g).value();
    const uint32_t* const row =
        pool_.table(g).entries + pool_.row_start(sequence.id, g).value_or(0);
    const auto end =
        static_cast<uint32_t>((sequence.done + figures.page_size - 1) / figures.page_size);
    uint32_t& begin = sequence.begins[g];
    for (; begin < end && int64_t{row[begin]} == figures.num_pages; ++begin)
      given_back_[g] += counts ? 1 : 0;
  }
}

Status Scheduler::commit(const Step& step) {
  for (const StepEntry& entry : step.entries) {
    Running& sequence = *entry.sequence;
    const auto written =
        std::span<const TokenId>(sequence.tokens)
            .subspan(static_cast<size_t>(sequence.done), static_cast<size_t>(entry.new_tokens));
    Status s = below_ != nullptr ? below_->commit(sequence.id, written)
                                 : pool_.commit(sequence.id, written);
    if (!s.is_ok()) return s;
    again_tokens_ += std::clamp(sequence.farthest - sequence.done, 0, entry.new_tokens);
    sequence.done += entry.new_tokens;
    sequence.farthest = std::max(sequence.farthest, sequence.done);
    see_what_left(sequence, true);
  }
  return {};
}

Status Scheduler::retire() {
  for (auto& sequence : running_) {
    if (sequence->left() > 0) continue;
    if (Status s = release(*sequence); !s.is_ok()) return s;
    sequence.reset();
    ++finished_;
    admits_ = true;
  }
  std::erase(running_, nullptr);
  return {};
}

Status Scheduler::release(const Running& sequence) {
  return below_ != nullptr ? below_->release(sequence.id) : pool_.release(sequence.id);
}

Status Scheduler::does_not_hold(const Running& sequence) const {
  const TraceRequest& line = trace_[static_cast<size_t>(sequence.request)];
  return {Errc::out_of_pages,
          fmt::format("the memory does not hold the {} tokens of the request in line {} with a "
                      "step of {} tokens: give more --gib or --pages, or fewer --step-tokens",
                      sequence.tokens.size(), line.line, limits_.step_tokens)};
}

}  // namespace folio::cli
