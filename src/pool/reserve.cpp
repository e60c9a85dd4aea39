// SPDX-License-Identifier: Apache-2.0
/// pool/reserve.cpp: the calls that make room, of one sequence or of several, and explain.
#include <algorithm>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::PageList;
using pool::SequenceRecord;

Status PagePool::reserve(SequenceId id, int32_t new_tokens) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "reserve", id);
  State& state = *state_;
  SequenceRecord& s = *found;
  if (Status room = state.check_room("reserve", s, new_tokens); !room.is_ok()) return room;
  const int64_t end = state.room_for(s, new_tokens);
  if (end <= s.room) return {};
  pool::GroupNeeds needs = {};
  state.add_needs(s, end, needs);
  const uint32_t least = needs[state.number], held_back = state.held_back(s, least, 0);
  if (!state.can_give(needs, held_back)) return state.no_room(needs, held_back);
  state.groups.claim(needs);
  state.make_room(s, end, least);
  state.end_call();
  return {};
}

Status PagePool::reserve(std::span<const ReserveRequest> requests) noexcept {
  if (requests.empty()) return {};
  if (!State::is_open(state_)) return State::refused(state_, "reserve");
  if (requests.data() == nullptr) return pool::null_memory("reserve", "requests", requests.size());
  State& state = *state_;
  int64_t least = 0;
  Status checked = state.check_requests(requests, &least);
  for (const ReserveRequest& request : requests) {
    if (SequenceRecord* const s = state.find(request.id); s != nullptr) s->listed = false;
  }
  if (!checked.is_ok()) return checked;
  for (const ReserveRequest& request : requests) {
    SequenceRecord& s = *state.find(request.id);
    const int64_t end = state.room_for(s, request.new_tokens);
    // A copy that was counted may have become needless: `least` is never too small.
    pool::GroupNeeds own = {};
    state.add_needs(s, end, own);
    state.make_room(s, end, static_cast<uint32_t>(least));
    least -= own[state.number];
  }
  state.end_call();
  return {};
}

Result<PoolExplanation> PagePool::explain(SequenceId id, int32_t new_tokens) const noexcept {
  const SequenceRecord* const s = state_ == nullptr ? nullptr : state_->find(id);
  if (s == nullptr) return pool::not_alive("explain", id);
  const State& state = *state_;
  if (Status room = state.check_room("explain", *s, new_tokens); !room.is_ok()) return room;
  PoolExplanation e;
  pool::GroupNeeds needs = {};
  state.add_needs(*s, state.room_for(*s, new_tokens), needs);
  e.needed = needs[state.number];
  e.held_back = state.held_back(*s, static_cast<uint32_t>(e.needed), 0);
  e.free = int64_t{state.available()} - state.lists.count_evictable();
  e.cached = state.lists.count_evictable();
  e.pinned = state.lists.count_pinned();
  e.of_sequences = state.pages_of_sequences;
  for (uint32_t page = state.lists.front(PageList::leaving); page != pool::no_page;
       page = state.records[page].next)
    e.of_steps += state.records[page].references == 0 ? 1 : 0;
  e.of_copies =
      state.options.num_pages - e.free - e.cached - e.pinned - e.of_sequences - e.of_steps;
  if (!state.groups.active()) return e;
  const uint32_t lacks = state.short_group(needs, static_cast<uint32_t>(e.held_back));
  if (lacks != pool::max_groups) e.short_group = static_cast<int32_t>(lacks);
  return e;
}

}  // namespace folio::inline v1::pool
