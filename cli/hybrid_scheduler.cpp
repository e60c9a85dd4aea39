// SPDX-License-Identifier: Apache-2.0
/// cli/hybrid_scheduler.cpp: admission, room for each step, and what happens where there is none.
#include "hybrid_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "synthetic.h"

namespace folio::cli {

HybridScheduler::HybridScheduler(std::span<const TraceRequest> trace, PagePool& pool,
                                 SchedulerLimits limits, int32_t checkpoint)
    : trace_(trace),
      pool_(pool),
      limits_(limits),
      checkpoint_(checkpoint),
      given_back_(pool.num_groups()) {}

int64_t HybridScheduler::tokens() const {
  int64_t tokens = 0;
  for (const Entry& entry : entries_) tokens += entry.tokens;
  return tokens;
}

/// Tokens of its prompt for this step; 0 without budget.
int32_t HybridScheduler::chunk(const HybridRunning& sequence) const {
  if (budget_ == 0) return 0;
  if (checkpoint_ == 0) return std::min(budget_, sequence.prompt - sequence.done);
  return tokens_to_checkpoint(sequence.done, sequence.prompt, budget_, pool_.page_size(),
                              checkpoint_);
}

Status HybridScheduler::next() {
  entries_.clear();
  admissions_.clear();
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
  ids_.clear();
  for (const Entry& entry : entries_) ids_.push_back(entry.sequence->id);
  return {};
}

Status HybridScheduler::give(HybridRunning& sequence, int32_t tokens) {
  while (tokens > 0 && sequence.is_admitted) {
    Status s = pool_.reserve(sequence.id, tokens);
    if (s.is_ok()) {
      budget_ -= tokens;
      entries_.push_back({&sequence, tokens});
      return {};
    }
    if (s.code() != Errc::out_of_pages) return s;
    if (s = make_room(sequence); !s.is_ok()) return s;
  }
  return {};
}

/// The request that waits gives up what it found, or else the youngest running one all it has,
/// `wanting` itself where it is that one.
Status HybridScheduler::make_room(HybridRunning& wanting) {
  admits_ = false;
  if (!waiting_.empty() && waiting_.front()->is_admitted) return give_up_pages(*waiting_.front());
  if (running_.size() == 1) {
    if (!wanting.takes_hits) return does_not_hold(wanting);
    wanting.takes_hits = false;  // what it found may lie in too many slabs
  }
  return preempt_youngest();
}

Status HybridScheduler::give_up_pages(HybridRunning& sequence) {
  sequence.is_admitted = false;
  sequence.done = 0;
  return pool_.release(sequence.id);
}

Status HybridScheduler::preempt_youngest() {
  HybridRunning& victim = *running_.back();
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.sequence != &victim) return false;
    budget_ += entry.tokens;
    return true;
  });
  victim.prompt = std::max(victim.prompt, victim.done);  // its outputs so far are known
  ++preemptions_;
  if (Status s = give_up_pages(victim); !s.is_ok()) return s;
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
  return {};
}

Status HybridScheduler::admit_while_possible() {
  if (running_.empty()) admits_ = true;
  while (admits_ && budget_ > 0 && static_cast<int32_t>(running_.size()) < limits_.max_batch) {
    if (!running_.empty() && !running_.front()->takes_hits) return {};  // it needs all there is
    if (waiting_.empty()) {
      if (next_ == trace_.size()) return {};
      const TraceRequest& line = trace_[next_];
      auto sequence = std::make_unique<HybridRunning>();
      sequence->request = static_cast<int64_t>(next_);
      sequence->prompt = line.input_length;
      sequence->tokens = history_of(line, sequence->request);
      waiting_.push_back(std::move(sequence));
      ++next_;
    }
    HybridRunning& sequence = *waiting_.front();
    if (!sequence.is_admitted) {
      if (Status s = admit(sequence); !s.is_ok()) return s;
    }
    const int32_t tokens = chunk(sequence);
    Status s = pool_.reserve(sequence.id, tokens);
    if (s.code() == Errc::out_of_pages) {
      if (!running_.empty()) return {};
      if (!sequence.takes_hits) return does_not_hold(sequence);
      sequence.takes_hits = false;
      if (s = give_up_pages(sequence); !s.is_ok()) return s;
      continue;
    }
    if (!s.is_ok()) return s;
    count_hit(sequence);
    budget_ -= tokens;
    entries_.push_back({&sequence, tokens});
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return {};
}

Status HybridScheduler::admit(HybridRunning& sequence) {
  const std::span<const TokenId> prompt =
      std::span(sequence.tokens).first(static_cast<size_t>(sequence.prompt));
  const auto admission = pool_.admit(prompt);
  if (!admission) return admission.error();
  sequence.id = admission->id;
  sequence.is_admitted = true;
  sequence.first = sequence.done = admission->cached_tokens;
  if (!sequence.takes_hits) {
    if (Status s = pool_.trim(sequence.id, 0); !s.is_ok()) return s;
    sequence.first = sequence.done = 0;
  }
  sequence.begins.assign(given_back_.size(), 0);
  see_what_left(sequence, false);
  return {};
}

/// Of a request that begins to run.
void HybridScheduler::count_hit(HybridRunning& sequence) {
  admissions_.push_back({sequence.request, sequence.id, sequence.first, sequence.farthest});
  const int32_t found = std::max(sequence.first - sequence.farthest, 0);
  hit_tokens_ += found;
  partial_tokens_ += std::min(sequence.first % pool_.page_size(), found);
  sequence.farthest += found;
}

/// Follows the entries that have become unassigned at the front of the sequence's rows.
void HybridScheduler::see_what_left(HybridRunning& sequence, bool counts) {
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

Status HybridScheduler::commit() {
  for (const Entry& entry : entries_) {
    HybridRunning& sequence = *entry.sequence;
    const auto written =
        std::span<const TokenId>(sequence.tokens)
            .subspan(static_cast<size_t>(sequence.done), static_cast<size_t>(entry.tokens));
    if (Status s = pool_.commit(sequence.id, written); !s.is_ok()) return s;
    again_tokens_ += std::clamp(sequence.farthest - sequence.done, 0, entry.tokens);
    sequence.done += entry.tokens;
    sequence.farthest = std::max(sequence.farthest, sequence.done);
    see_what_left(sequence, true);
  }
  for (auto& sequence : running_) {
    if (sequence->left() > 0) continue;
    if (Status s = pool_.release(sequence->id); !s.is_ok()) return s;
    sequence.reset();
    ++finished_;
    admits_ = true;
  }
  std::erase(running_, nullptr);
  return {};
}

Status HybridScheduler::does_not_hold(const HybridRunning& sequence) const {
  const TraceRequest& line = trace_[static_cast<size_t>(sequence.request)];
  return {Errc::out_of_pages,
          fmt::format("the memory does not hold the {} tokens of the request in line {} with a "
                      "step of {} tokens: give more --gib or --pages, or fewer --step-tokens",
                      sequence.tokens.size(), line.line, limits_.step_tokens)};
}

}  // namespace folio::cli
