// SPDX-License-Identifier: Apache-2.0
/// pool/steps.cpp: steps in flight, and the copies that must run before them.
#include <bit>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::PageList;
using pool::PageRecord;
using pool::SequenceRecord;

std::span<const PageCopy> PagePool::take_copies(uint32_t group) noexcept {
  if (!State::is_open(state_) || (group != 0 && group >= state_->groups.count())) return {};
  if (group != 0) return state_->groups.take_copies(group);
  State& state = *state_;
  for (const PageCopy& done : state.page_copies.running()) {
    state.unhold_copy(done.from);
    state.unhold_copy(done.to);
  }
  const std::span<const PageCopy> taken = state.page_copies.take();
  for (const PageCopy& copy : taken) {  // `from` is held since the copy was asked for
    PageRecord& to = state.records[copy.to];
    to.awaits_copy = false;
    to.pending_copy = pool::no_page;
    ++to.copies;
  }
  state.end_call();
  return taken;
}

uint64_t PagePool::State::unfinished_steps(const SequenceRecord& s) const noexcept {
  uint64_t steps = s.steps & unfinished;
  for (uint64_t rest = steps; rest != 0; rest &= rest - 1) {
    const int slot = std::countr_zero(rest);
    if (tickets[slot] > s.last_step) steps &= ~(uint64_t{1} << slot);  // a later step's slot now
  }
  return steps;
}

Result<StepTicket> PagePool::begin_step(std::span<const SequenceId> ids) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "begin_step");
  State& state = *state_;
  if (Status s = state.check_ids("begin_step", ids); !s.is_ok()) return s;
  const int slot = std::countr_one(state.unfinished);
  if (slot == max_unfinished_steps) {
    return fail(Errc::busy,
                "PagePool::begin_step: {} steps are unfinished, expected fewer than that", slot);
  }
  const uint64_t bit = uint64_t{1} << slot;
  const uint64_t ticket = ++state.last_ticket;
  for (const SequenceId id : ids) {
    SequenceRecord& s = *state.find(id);
    s.steps = state.unfinished_steps(s) | bit;
    s.last_step = ticket;
  }
  for (const PageCopy& copy : state.page_copies.running()) {
    for (const uint32_t page : {copy.from, copy.to}) {
      state.hold_for_steps(page, bit);
      state.unhold_copy(page);
    }
  }
  state.page_copies.end();
  state.groups.hold_copies_for(bit);
  state.unfinished |= bit;
  state.tickets[slot] = ticket;
  state.end_call();
  return StepTicket{ticket};
}

Status PagePool::end_step(StepTicket ticket) noexcept {
  if (state_ != nullptr && state_->calls_out) return State::refused(state_, "end_step");
  int slot = 0;
  while (state_ != nullptr && slot < max_unfinished_steps &&
         (ticket.value == 0 || state_->tickets[slot] != ticket.value))
    ++slot;
  if (state_ == nullptr || slot == max_unfinished_steps) {
    return fail(Errc::invalid_argument,
                "PagePool::end_step: ticket is {}, expected that of an unfinished step",
                ticket.value);
  }
  State& state = *state_;
  const uint64_t bit = uint64_t{1} << slot;
  state.tickets[slot] = 0;
  state.unfinished &= ~bit;
  for (uint32_t page = state.lists.front(PageList::leaving), next; page != pool::no_page;
       page = next) {
    PageRecord& record = state.records[page];
    next = record.next;
    record.steps &= ~bit;
    if (record.steps != 0) continue;
    state.lists.unlink(page);
    state.settle(page);
  }
  state.groups.end_step(bit);
  state.end_call();
  return {};
}

}  // namespace folio::inline v1
