// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_steps.cpp: the calls of the naive pool that say what a device does:
/// copies, steps and transfers.
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

void PoolModel::begin_io(size_t sequence, int32_t entry) {
  const Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  Result<IoPin> pin = pool_.begin_io(s.id, entry);
  if (entry < 0 || entry >= std::ssize(s.row))
    return expect_unchanged(pin.error(), Errc::invalid_argument, before);
  const uint32_t page = s.row[static_cast<size_t>(entry)];
  const auto waits = [page](const PageCopy& copy) { return copy.to == page; };
  if (std::any_of(pending_.begin(), pending_.end(), waits))
    return expect_unchanged(pin.error(), Errc::invalid_argument, before);
  if (transfers_.size() == options_.max_io_pins)
    return expect_unchanged(pin.error(), Errc::busy, before);
  Transfer transfer{.pin = checked(std::move(pin)), .page = page, .reads = {}};
  const auto size = static_cast<size_t>(page_size_), first = static_cast<size_t>(entry) * size;
  for (size_t t = first; t < std::min(s.tokens.size(), first + size) && !incomplete(page); ++t)
    transfer.reads.push_back(history(s, t));
  ++pages_[page].transfers;
  transfers_.push_back(std::move(transfer));
  check();
}

void PoolModel::end_io(size_t index) {
  const Transfer transfer = transfers_[index];
  checked(pool_.end_io(transfer.pin));
  const std::vector<std::byte> before = memory_.snapshot();
  expect_unchanged(pool_.end_io(transfer.pin), Errc::invalid_argument, before);
  transfers_.erase(transfers_.begin() + static_cast<std::ptrdiff_t>(index));
  --pages_[transfer.page].transfers;
  settle(transfer.page);
  check();
}

}  // namespace folio::test
