// SPDX-License-Identifier: Apache-2.0
/// pool/steps.cpp: steps in flight, and the copies that must run before them.
#include <bit>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::SequenceRecord;

std::span<const PageCopy> PagePool::take_copies(uint32_t group) noexcept {
  if (!State::is_open(state_) || group >= num_groups()) return {};
  const std::span<const PageCopy> taken =
      state_->with_group(group, [](auto& of) { return of.take_copies(); });
  state_->end_call();
  return taken;
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
  state.each_group([bit](auto& group) { group.hold_copies_for(bit); });
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
  state.each_group([bit](auto& group) { group.end_step(bit); });
  state.end_call();
  return {};
}

}  // namespace folio::inline v1::pool
