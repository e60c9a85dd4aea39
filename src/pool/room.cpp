// SPDX-License-Identifier: Apache-2.0
/// pool/room.cpp: room for tokens to come, of one sequence or of several, and why there is none.
#include <algorithm>
#include <limits>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::PageList;
using pool::SequenceRecord;
using pool::TailWrite;

bool PagePool::State::copies_end_before(uint32_t page, int32_t cut) const noexcept {
  const auto reads_more = [&](const PageCopy& copy) {
    return (copy.from == page && copy.tokens > cut) || copy.to == page;
  };
  return std::ranges::none_of(page_copies.pending(), reads_more) &&
         std::ranges::none_of(page_copies.running(), reads_more) && !io_pins.have(0, page);
}

TailWrite PagePool::State::tail_write(const SequenceRecord& s, uint32_t fresh) const noexcept {
  if (!s.trimmed) return TailWrite::in_place;
  const uint32_t page = row(s)[s.length / options.page_size];
  const pool::PageRecord& record = records[page];
  // A step in flight may still read, or write, the slots behind the cut; so may other sequences and
  // copies.
  if (record.references != 1 || record.steps != 0 || unfinished_steps(s) != 0)
    return TailWrite::copy;
  if (record.copies != 0 && !copies_end_before(page, s.length % options.page_size))
    return TailWrite::copy;
  if (record.content == 0) return TailWrite::in_place;
  // Findable content is kept while there is a page for the copy, but it never makes reserve fail.
  return index.has_twin(page) || available() <= fresh ? TailWrite::forget_content : TailWrite::copy;
}

Status PagePool::State::no_pages(const char* call, int64_t needed,
                                 uint32_t held_back) const noexcept {
  return fail(Errc::out_of_pages,
              "PagePool::{}: {} pages needed, {} of {} are free or can be evicted, {} of these are "
              "held back, {} others are pinned",
              call, needed, available(), options.num_pages, std::min(held_back, available()),
              lists.count_pinned());
}

Status PagePool::State::check_room(const char* call, const SequenceRecord& s,
                                   int32_t new_tokens) const noexcept {
  if (new_tokens >= 0 && int64_t{s.length} + new_tokens <= max_tokens) return {};
  return fail(Errc::invalid_argument,
              "PagePool::{}: new_tokens is {}, expected 0 .. {} (a sequence holds {}, its length "
              "is {})",
              call, new_tokens, max_tokens - s.length, max_tokens, s.length);
}

TailWrite PagePool::State::least_tail(const SequenceRecord& s) const noexcept {
  return tail_write(s, std::numeric_limits<uint32_t>::max());
}

uint32_t PagePool::State::least_pages(const SequenceRecord& s, int64_t end) const noexcept {
  if (end <= s.room) return 0;
  return pages_for(end) - s.pages + (least_tail(s) == TailWrite::copy ? 1 : 0);
}

uint32_t PagePool::State::held_back(const SequenceRecord& s, uint32_t least,
                                    int64_t before) const noexcept {
  if (!s.starting || least == 0) return 0;
  // The source of a hit inside a page is held by a copy: nobody else's.
  return before != 0 || pages_of_sequences > s.pages ? options.watermark_pages : 0;
}

void PagePool::State::make_room(SequenceRecord& s, int64_t end, uint32_t least) noexcept {
  if (end <= s.room) return;
  const TailWrite tail = groups.active() ? claim_tail(s, end) : tail_write(s, least);
  uint32_t* const pages = row(s);
  uint32_t& last = pages[s.length / options.page_size];
  if (tail == TailWrite::forget_content) {
    if (groups.active()) groups.forget(last, pool::no_page);  // what it has is written over
    forget(last);
  }
  if (tail == TailWrite::copy) {
    const uint32_t shared = last;
    last = copy_page(shared, s.length % options.page_size);
    drop(shared, unfinished_steps(s));
  }
  if (groups.active()) reserve_groups(s, end, tail);
  s.trimmed = s.starting = false;
  for (const uint32_t wanted = pages_for(end); s.pages < wanted; ++s.pages)
    pages[s.pages] = take_page();
  s.room = static_cast<int32_t>(end);
}

Status PagePool::reserve(SequenceId id, int32_t new_tokens) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "reserve", id);
  State& state = *state_;
  SequenceRecord& s = *found;
  if (Status room = state.check_room("reserve", s, new_tokens); !room.is_ok()) return room;
  const int64_t end = state.room_for(s, new_tokens);
  if (end <= s.room) return {};
  const uint32_t least = state.least_pages(s, end), held_back = state.held_back(s, least, 0);
  if (state.groups.active()) {
    State::GroupNeeds needs = {};
    state.add_group_needs(s, end, state.least_tail(s), needs);
    if (!state.can_give(needs, held_back)) return state.no_group_room(needs, held_back);
    std::copy_n(needs, pool::max_groups, state.groups.needs);
  } else if (int64_t{least} + held_back > state.available()) {
    return state.no_pages("reserve", least, held_back);
  }
  state.make_room(s, end, least);
  state.end_call();
  return {};
}

Status PagePool::State::list_once(const char* call, const char* argument, size_t i,
                                  SequenceId id) noexcept {
  SequenceRecord* const s = find(id);
  if (s == nullptr || s->listed) {
    return fail(Errc::invalid_argument,
                "PagePool::{}: {}[{}] is sequence {} of generation {}, expected one that is {}",
                call, argument, i, id.index, id.generation, s == nullptr ? "alive" : "listed once");
  }
  s->listed = true;
  return {};
}

Status PagePool::State::check_requests(std::span<const ReserveRequest> requests,
                                       int64_t* least) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (Status s = list_once("reserve", "requests", i, requests[i].id); !s.is_ok()) return s;
  }
  GroupNeeds needs = {};
  for (size_t i = 0; i < requests.size(); ++i) {
    const SequenceRecord& s = *find(requests[i].id);
    if (Status room = check_room("reserve", s, requests[i].new_tokens); !room.is_ok()) {
      return fail(Errc::invalid_argument, "{}: requests[{}]", room.message(), i);
    }
    const int64_t end = room_for(s, requests[i].new_tokens);
    const uint32_t more = least_pages(s, end), kept = held_back(s, more, *least);
    *least += more;
    if (groups.active()) {
      add_group_needs(s, end, least_tail(s), needs);
      if (can_give(needs, kept)) continue;
      return fail(Errc::out_of_pages, "{}: requests[0 .. {}]", no_group_room(needs, kept).message(),
                  i);
    }
    if (more != 0 && *least + kept > available()) {
      return fail(Errc::out_of_pages, "{}: requests[0 .. {}]",
                  no_pages("reserve", *least, kept).message(), i);
    }
  }
  std::copy_n(needs, pool::max_groups, groups.needs);
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
    const uint32_t own = state.least_pages(s, end);
    state.make_room(s, end, static_cast<uint32_t>(least));
    least -= own;
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
  e.needed = state.least_pages(*s, state.room_for(*s, new_tokens));
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
  State::GroupNeeds needs = {};
  state.add_group_needs(*s, state.room_for(*s, new_tokens), state.least_tail(*s), needs);
  const uint32_t lacks = state.short_group(needs, static_cast<uint32_t>(e.held_back));
  if (lacks != pool::max_groups) e.short_group = static_cast<int32_t>(lacks);
  return e;
}

}  // namespace folio::inline v1
