// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_steps.cpp: the calls of the naive pool that say what a device does: copies
/// and steps.
#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/pool_model.h"

namespace folio::test {

void PoolModel::take_copies() {
  run_copies();
  if (taken_hold_pages_) {
    for (const PageCopy& copy : taken_) {
      unhold_copy(copy.from);
      unhold_copy(copy.to);
    }
  }
  const std::span<const PageCopy> copies = pool_.take_copies();
  RC_ASSERT(std::is_permutation(copies.begin(), copies.end(), pending_.begin(), pending_.end()));
  pending_.clear();
  taken_.assign(copies.begin(), copies.end());  // the order is the pool's own business
  for (const PageCopy& copy : taken_) ++pages_[copy.to].copies;
  taken_hold_pages_ = true;
  copies_run_ = 0;
  check();
}

void PoolModel::begin_step(const std::vector<size_t>& sequences) {
  const std::vector<std::byte> before = memory_.snapshot();
  std::vector<SequenceId> ids;
  for (const size_t i : sequences) ids.push_back(sequences_[i].id);
  Result<StepTicket> ticket = pool_.begin_step(ids);
  if (steps_.size() == PagePool::max_unfinished_steps)
    return expect_unchanged(ticket.error(), Errc::busy, before);
  Step step;
  step.ticket = checked(std::move(ticket));
  for (const size_t i : sequences) {
    Sequence& s = sequences_[i];
    if (std::find(s.steps.begin(), s.steps.end(), step.ticket.value) == s.steps.end())
      s.steps.push_back(step.ticket.value);
    step.pages.insert(step.pages.end(), s.row.begin(), s.row.end());
    for (size_t t = 0; t < s.tokens.size(); ++t) {
      const uint32_t page = s.row[t / static_cast<size_t>(page_size_)];
      if (!incomplete(page))
        step.reads[{page, t % static_cast<size_t>(page_size_)}] = history(s, t);
    }
  }
  if (std::exchange(taken_hold_pages_, false)) {
    step.runs_copies = true;
    for (const PageCopy& copy : taken_) {
      for (const uint32_t page : {copy.from, copy.to}) {
        step.pages.push_back(page);
        hold_for_step(page, step.ticket.value);
        unhold_copy(page);
      }
    }
  }
  steps_.push_back(std::move(step));
  check();
}

void PoolModel::end_step(size_t index) {
  const Step step = steps_[index];
  if (step.runs_copies) run_copies();
  checked(pool_.end_step(step.ticket));
  const std::vector<std::byte> before = memory_.snapshot();
  expect_unchanged(pool_.end_step(step.ticket), Errc::invalid_argument, before);
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(index));
  for (Sequence& s : sequences_) std::erase(s.steps, step.ticket.value);
  std::vector<uint32_t> left;
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    if (std::erase(pages_[page].steps, step.ticket.value) != 0 && pages_[page].steps.empty())
      left.push_back(page);
  }
  std::sort(left.begin(), left.end(),
            [&](uint32_t a, uint32_t b) { return pages_[a].given_up < pages_[b].given_up; });
  for (const uint32_t page : left) settle(page);
  check();
}

}  // namespace folio::test
