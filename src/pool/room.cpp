// SPDX-License-Identifier: Apache-2.0
/// pool/room.cpp: which pages a reserve takes, whether they can be had, and why not.
#include "pool/room.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace folio::inline v1::pool {

// ---- The last page

bool Room::copies_end_before(uint32_t page, int32_t cut) const noexcept {
  const auto reads_more = [&](const PageCopy& copy) {
    return (copy.from == page && copy.tokens > cut) || copy.to == page;
  };
  return std::ranges::none_of(copies.pending(), reads_more) &&
         std::ranges::none_of(copies.running(), reads_more) && !io_pins.have(number, page);
}

TailWrite Room::trimmed_tail_write(const SequenceRecord& s, uint32_t fresh) const noexcept {
  const uint32_t page = row(s)[s.length / options.page_size];
  const PageRecord& record = records[page];
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

Status Room::no_pages(const char* call, int64_t needed, uint32_t held_back) const noexcept {
  return fail(Errc::out_of_pages,
              "PagePool::{}: {} pages needed, {} of {} are free or can be evicted, {} of these are "
              "held back, {} others are pinned",
              call, needed, available(), options.num_pages, std::min(held_back, available()),
              lists.count_pinned());
}

Status Room::too_many(const char* call, const SequenceRecord& s,
                      int32_t new_tokens) const noexcept {
  return fail(Errc::invalid_argument,
              "PagePool::{}: new_tokens is {}, expected 0 .. {} (a sequence holds {}, its length "
              "is {})",
              call, new_tokens, max_tokens - s.length, max_tokens, s.length);
}

uint32_t Room::held_back(const SequenceRecord& s, uint32_t least, int64_t before) const noexcept {
  if (!s.starting || least == 0) return 0;
  // The source of a hit inside a page is held by a copy: nobody else's.
  return before != 0 || pages_of_sequences > s.pages ? options.watermark_pages : 0;
}

// ---- Needs of all groups

bool Room::copies_group_tail(const SequenceRecord& s, const Group& group,
                             TailWrite tail) const noexcept {
  const int32_t next = s.reach();
  if (next % group.page_size == 0 || (!s.trimmed && !group.is_state())) return false;
  const GroupPage& page = group.records[group.row_of(index_of(s))[next / group.page_size]];
  if (s.loading != 0 && page.leading == no_page) return false;  // new: nobody else's, to be filled
  if (page.holds != 1 || page.steps != 0) return true;
  return !group.is_state() && tail == TailWrite::copy;
}

void Room::add_needs_of_companions(const SequenceRecord& s, int64_t end, TailWrite tail,
                                   GroupNeeds& needs) const noexcept {
  for (const Group& group : groups.companions()) {
    needs[group.number] +=
        group.pages_for(end) - end_of_row(group, s) + (copies_group_tail(s, group, tail) ? 1 : 0);
  }
}

bool Room::can_give_all(const GroupNeeds& needs, uint32_t held_back) const noexcept {
  GroupNeeds all = {};
  std::copy_n(needs, max_groups, all);
  all[number] += held_back;
  return groups.slabs.can_give(all);
}

uint32_t Room::short_group(const GroupNeeds& needs, uint32_t held_back) const noexcept {
  GroupNeeds first = {};
  for (uint32_t g = 0; g < groups.count(); ++g) {
    first[g] = needs[g];
    if (!can_give(first, held_back)) return g;
  }
  return max_groups;
}

Status Room::no_room(const GroupNeeds& needs, uint32_t held_back) const noexcept {
  if (!groups.active()) return no_pages("reserve", needs[number], held_back);
  return fail(Errc::out_of_pages,
              "PagePool::reserve: {} leading pages and {} of other groups needed, more than the "
              "arena's slabs have free or can evict for group {}; {} leading ones are held back",
              needs[number], std::accumulate(needs + 1, needs + groups.count(), uint64_t{0}),
              short_group(needs, held_back), held_back);
}

// ---- Making room

TailWrite Room::claim_tail(const SequenceRecord& s, int64_t end, uint32_t least) noexcept {
  if (!groups.active()) return tail_write(s, least);
  const TailWrite scarce = least_tail(s);
  if (scarce != TailWrite::forget_content || index.has_twin(row(s)[s.length / options.page_size]))
    return scarce;
  GroupNeeds own = {}, more = {};
  add_needs(s, end, scarce, own);
  add_needs(s, end, TailWrite::copy, more);
  for (uint32_t g = 0; g < groups.count(); ++g) more[g] += groups.needs[g] - own[g];
  if (!can_give(more, 0)) return scarce;
  groups.claim(more);
  return TailWrite::copy;
}

void Room::reserve(const SequenceRecord& s, Group& group, int64_t end, TailWrite tail) noexcept {
  uint32_t* const row = group.row_of(index_of(s));
  const int32_t next = s.reach();
  uint32_t& last = row[next / group.page_size];
  if (copies_group_tail(s, group, tail)) {
    const uint32_t shared = std::exchange(last, take_page(group));
    group.ask_copy(shared, last, group.copied_tokens(next));
    group.drop(shared, unfinished_steps(s));
  } else if (group.is_state() && next % group.page_size != 0 &&
             group.records[last].leading != no_page) {
    group.detach(last);  // its state goes on
  }
  GroupRow& r = group.rows[index_of(s)];
  for (const uint32_t wanted = group.pages_for(end); r.end < wanted; ++r.end)
    row[r.end] = take_page(group);
}

void Room::make_room(SequenceRecord& s, int64_t end, uint32_t least) noexcept {
  if (end <= s.room) return;
  const TailWrite tail = claim_tail(s, end, least);
  uint32_t* const pages = row(s);
  uint32_t& last = pages[s.length / options.page_size];
  if (tail == TailWrite::forget_content) {
    groups.forget(last);  // what it has is written over
    forget(last);
  }
  if (tail == TailWrite::copy) {
    const uint32_t shared = last;
    last = copy_page(shared, s.length % options.page_size);
    drop(shared, unfinished_steps(s));
  }
  for (Group& group : groups.companions()) reserve(s, group, end, tail);
  s.trimmed = s.starting = false;
  for (const uint32_t wanted = pages_for(end); s.pages < wanted; ++s.pages)
    pages[s.pages] = take_page();
  s.room = static_cast<int32_t>(end);
}

Status Room::check_requests(std::span<const ReserveRequest> requests, int64_t* least) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (Status s = list_once("reserve", "requests", i, requests[i].id); !s.is_ok()) return s;
  }
  GroupNeeds needs = {};
  for (size_t i = 0; i < requests.size(); ++i) {
    const SequenceRecord& s = *find(requests[i].id);
    if (Status room = check_room("reserve", s, requests[i].new_tokens); !room.is_ok()) {
      return fail(Errc::invalid_argument, "{}: requests[{}]", room.message(), i);
    }
    const uint32_t before = needs[number];
    add_needs(s, room_for(s, requests[i].new_tokens), needs);
    const uint32_t more = needs[number] - before, kept = held_back(s, more, *least);
    *least += more;
    if (can_give(needs, kept)) continue;
    return fail(Errc::out_of_pages, "{}: requests[0 .. {}]", no_room(needs, kept).message(), i);
  }
  groups.claim(needs);
  return {};
}

}  // namespace folio::inline v1::pool
