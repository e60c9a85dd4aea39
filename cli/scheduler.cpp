// SPDX-License-Identifier: Apache-2.0
/// cli/scheduler.cpp: admission, the token budget, and the end of requests.
#include "scheduler.h"

#include <algorithm>
#include <utility>

#include "synthetic.h"

namespace folio::cli {

Batch Step::batch(PageTable table) const {
  table.row_starts = row_starts.data();
  Batch batch;
  batch.size = static_cast<int32_t>(entries.size());
  batch.query_offsets = query_offsets.data();
  batch.context_lengths = context_lengths.data();
  batch.table = table;
  return batch;
}

void Scheduler::give(Step& step, Running& sequence, int32_t tokens) {
  if (tokens == 0) return;
  budget_ -= tokens;
  step.entries.push_back({&sequence, tokens});
  step.query_offsets.push_back(step.query_offsets.back() + tokens);
  step.context_lengths.push_back(sequence.done + tokens);
  step.ids.push_back(sequence.id);
}

Status Scheduler::next(Step& step) {
  step.number = steps_++;
  step.entries.clear();
  step.query_offsets.assign(1, 0);
  step.context_lengths.clear();
  step.ids.clear();
  budget_ = limits_.step_tokens;
  for (const auto& sequence : running_) {
    if (sequence->decodes()) give(step, *sequence, std::min(budget_, 1));
  }
  for (const auto& sequence : running_) {
    if (!sequence->decodes())
      give(step, *sequence, std::min(budget_, sequence->prompt - sequence->done));
  }
  if (Status s = admit_while_possible(step); !s.is_ok()) return s;
  if (step.entries.empty())
    return fail(Errc::internal, "replay: no request can run though none holds a page");
  step.row_starts.resize(step.ids.size());
  return pool_.batch_rows(step.ids, step.row_starts);
}

Status Scheduler::admit_while_possible(Step& step) {
  while (budget_ > 0 && static_cast<int32_t>(running_.size()) < limits_.max_batch) {
    if (waiting_ == nullptr) {
      if (next_ == trace_.size()) return {};
      if (below_ != nullptr && !has_room()) return {};
      auto admitted = admit(static_cast<int64_t>(next_));
      if (!admitted) return admitted.error();
      waiting_ = std::move(*admitted);
      ++next_;
    }
    const auto has_room = reserve(*waiting_);
    if (!has_room) return has_room.error();
    if (!*has_room) return {};
    running_.push_back(std::move(waiting_));
    Running& sequence = *running_.back();
    give(step, sequence, std::min(budget_, sequence.prompt - sequence.done));
  }
  return {};
}

Result<std::unique_ptr<Running>> Scheduler::admit(int64_t request) {
  const TraceRequest& line = trace_[static_cast<size_t>(request)];
  auto sequence = std::make_unique<Running>();
  sequence->request = request;
  sequence->prompt = line.input_length;
  sequence->tokens = history_of(line, request);
  if (Status s = open(*sequence); !s.is_ok()) return s;
  return sequence;
}

Status Scheduler::open(Running& sequence) {
  const std::span<const TokenId> prompt =
      std::span(sequence.tokens).first(static_cast<size_t>(sequence.prompt));
  if (below_ != nullptr) {
    const auto admission = below_->admit(prompt);
    if (!admission) return admission.error();
    sequence.from = *admission;
    sequence.id = admission->id;
    sequence.first = sequence.done = admission->found();
    return {};
  }
  const auto admission = pool_.admit(prompt);
  if (!admission) return admission.error();
  sequence.id = admission->id;
  sequence.first = sequence.done = admission->cached_tokens;
  return {};
}

bool Scheduler::has_room() const {
  const TraceRequest& line = trace_[next_];
  const int64_t tokens = int64_t{line.input_length} + std::max(line.output_length, 1) - 1;
  const PoolStats stats = pool_.stats();
  return (tokens + pool_.page_size() - 1) / pool_.page_size() <=
         stats.free_pages + stats.cached_pages;
}

Result<bool> Scheduler::reserve(Running& sequence) {
  Status s = pool_.reserve(sequence.id, sequence.left());
  if (s.code() == Errc::out_of_pages) return false;
  if (!s.is_ok()) return s;
  return true;
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
    sequence.done += entry.new_tokens;
  }
  return {};
}

Status Scheduler::retire() {
  for (auto& sequence : running_) {
    if (sequence->left() > 0) continue;
    Status s = below_ != nullptr ? below_->release(sequence->id) : pool_.release(sequence->id);
    if (!s.is_ok()) return s;
    sequence.reset();
    ++finished_;
  }
  std::erase(running_, nullptr);
  return {};
}

}  // namespace folio::cli
