// SPDX-License-Identifier: Apache-2.0
/// pool/check_invariants.cpp: what must always be true, recomputed from scratch.
#include <algorithm>
#include <bit>
#include <cstring>

#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::PageList;
using pool::PageRecord;
using pool::SequenceRecord;

namespace {

Status broken(const char* what, int64_t which) {
  return fail(Errc::internal, "PagePool::check_invariants: {} {}", what, which);
}

bool in_its_list(const PageRecord& record) {
  if (!pool::is_evictable(record.list) && record.steps != 0)
    return record.list == PageList::leaving;
  if (record.references != 0 || record.copies != 0) return record.list == PageList::none;
  if (record.content == 0 && !record.is_tail) return record.list == PageList::free;
  return record.level == pool::policy_level ? pool::is_queue(record.list)
                                            : record.list == pool::level_list(record.level);
}

}  // namespace

Status PagePool::check_invariants() const noexcept {
  if (state_ == nullptr) return {};
  const State& state = *state_;
  const uint32_t num_pages = state.options.num_pages;
  const size_t bytes = size_t{num_pages} * 2 * sizeof(uint32_t);
  auto* const references = static_cast<uint32_t*>(
      state.options.allocate(state.options.context, bytes, Carver::alignment));
  if (references == nullptr)
    return fail(Errc::out_of_memory, "PagePool::check_invariants: {} bytes are not to be had",
                bytes);
  uint32_t* const pins = references + num_pages;
  std::memset(references, 0, bytes);
  Status s = state.check_sequences(references);
  if (s.is_ok()) s = state.check_steps_and_copies(pins);
  if (s.is_ok()) s = state.check_pages(references, pins);
  if (s.is_ok()) s = state.check_lists();
  if (s.is_ok()) s = state.check_groups();
  state.options.deallocate(state.options.context, references, bytes);
  return s;
}

Status PagePool::State::check_sequences(uint32_t* references) const noexcept {
  int64_t alive = 0, users = 0, unused = 0;
  for (uint32_t i = 0; i < options.max_sequences; ++i) {
    const SequenceRecord& s = sequences[i];
    if (!s.alive && (s.pages != 0 || s.length != 0 || s.room != 0 || s.steps != 0))
      return broken("released sequence holds something:", i);
    if (Status row = check_row(s, references); !row.is_ok()) return row;
    if (s.listed) return broken("left in the list of a call: sequence", i);
    if (!s.alive) continue;
    ++alive;
    if (s.space >= namespaces.capacity() || namespaces[s.space].users == 0)
      return broken("no namespace for sequence", i);
  }
  for (uint32_t i = 0; i < namespaces.capacity(); ++i) users += namespaces[i].users;
  int64_t opened = 0;
  for (uint32_t i = 0; i < options.max_sequences; ++i) opened += items.count(i).opened;
  for (uint32_t i = 0; i < items.namespaces().capacity(); ++i)
    opened -= items.namespaces()[i].users;
  if (opened != 0) return broken("users of items are not those of sequences:", opened);
  if (users != alive) return broken("users of namespaces are not the living sequences:", users);
  if (alive != num_alive) return broken("miscounted living sequences:", num_alive);
  for (uint32_t i = free_sequence; i != pool::no_sequence; i = sequences[i].next_free) {
    if (sequences[i].alive || ++unused > options.max_sequences)
      return broken("list of free sequences is broken at", i);
  }
  return unused + alive == options.max_sequences
             ? Status()
             : broken("lost sequences:", options.max_sequences - unused - alive);
}

Status PagePool::State::check_row(const SequenceRecord& s, uint32_t* references) const noexcept {
  const uint32_t* const pages = row(s);
  const uint32_t i = index_of(s);
  if (s.length > s.room || s.room > max_tokens || s.pages != pages_for(s.room))
    return broken("length, room or pages of sequence", i);
  const auto full = static_cast<uint32_t>(s.length / options.page_size);
  std::span<const ContentSpan> spans = items.of(i);
  if (items.page_to_open(i) < full || items.count(i).opened > spans.size() ||
      (items.count(i).opened != 0 &&
       items.page_of_first(spans.subspan(items.count(i).opened - 1)) >= full))
    return broken("not the items of full pages are open in sequence", i);
  if (s.trimmed && (s.length != s.room || s.length % options.page_size == 0))
    return broken("no cut last page in sequence", i);
  for (int64_t p = 0; p < row_stride; ++p) {
    if (p >= s.pages) {
      if (pages[p] != options.num_pages)
        return broken("no sentinel behind the pages of sequence", i);
      continue;
    }
    if (pages[p] >= options.num_pages) return broken("page id out of range in sequence", i);
    ++references[pages[p]];
    const PageRecord& record = records[pages[p]];
    const bool is_of_load = s.loading != 0 && p < s.loading / options.page_size;
    if (p >= full && !s.trimmed && !(is_of_load && record.content != 0) &&
        (record.content != 0 || record.references != 1))
      return broken("a page to write is not the own one of", i);
    if (p >= full || !options.prefix_reuse) continue;
    const auto position = static_cast<uint32_t>(p);
    const pool::Before before = items.find(before_page(s, position), position, spans);
    if (record.content == 0 || record.parent != before.content)
      return broken("contents do not form a chain in sequence", i);
    if (record.hash != index.hash(before.hash, tokens_of(pages[p])))
      return broken("hash is not of the tokens in sequence", i);
  }
  return {};
}

Status PagePool::State::check_steps_and_copies(uint32_t* pins) const noexcept {
  for (int slot = 0; slot < max_unfinished_steps; ++slot) {
    if ((tickets[slot] != 0) != ((unfinished >> slot & 1) != 0))
      return broken("ticket and step differ in slot", slot);
  }
  for (uint32_t i = 0; i < options.max_sequences; ++i) {
    if (sequences[i].last_step > last_ticket) return broken("a step to come holds sequence", i);
  }
  const std::span<const PageCopy> pending = copies.pending();
  if (pending.size() > options.max_sequences)
    return broken("pending copies:", static_cast<int64_t>(pending.size()));
  for (uint32_t i = 0; i < pending.size(); ++i) {
    ++pins[pending[i].from];
    const PageRecord& to = records[pending[i].to];
    if (!to.awaits_copy || to.references != 1 || to.content != 0)
      return broken("nobody waits for pending copy", i);
    if (to.pending_copy != i) return broken("its page does not know pending copy", i);
    if (records[pending[i].from].awaits_copy)
      return broken("source is not complete of pending copy", i);
  }
  for (const PageCopy& copy : copies.running()) {
    ++pins[copy.from];
    ++pins[copy.to];
  }
  uint32_t filling = 0;
  io_pins.visit([&](const pool::IoPins::Place& place) {
    if (place.group == number) ++pins[place.page];
    filling += place.fills && records[place.page].filling ? 1 : 0;
  });
  return filling == io_pins.filling() ? Status() : broken("transfers that fill:", filling);
}

Status PagePool::State::check_pages(const uint32_t* references,
                                    const uint32_t* pins) const noexcept {
  uint32_t waiting = 0, of_sequences = 0, filling = 0;
  for (uint32_t page = 0; page < options.num_pages; ++page) {
    const PageRecord& record = records[page];
    if (record.references != references[page])
      return broken("references are not the table's entries for page", page);
    if (record.copies != pins[page]) return broken("copies are miscounted for page", page);
    if (!pool::is_evictable(record.list) && (record.steps & ~unfinished) != 0)
      return broken("a finished step holds page", page);
    waiting += record.awaits_copy ? 1 : 0;
    filling += record.filling ? 1 : 0;
    of_sequences += record.references != 0 ? 1 : 0;
    const bool is_outside =
        groups.slabs.has(number) && groups.slabs.use_of(number, page) == pool::PageUse::outside;
    if (is_outside ? record.list != PageList::none || record.content != 0 : !in_its_list(record))
      return broken("wrong list for page", page);
    if (record.content == 0 && record.findable)
      return broken("findable without content: page", page);
    if (record.named && (!record.findable || names == nullptr))
      return broken("named, but not what its content is found by: page", page);
    if (Status s = check_head(page); !s.is_ok()) return s;
    if (Status s = record.content == 0 ? Status() : check_content(page); !s.is_ok()) return s;
  }
  if (of_sequences != pages_of_sequences)
    return broken("miscounted pages of sequences:", pages_of_sequences);
  if (filling != io_pins.filling()) return broken("pages that transfers fill:", filling);
  return waiting == copies.pending().size() ? Status()
                                            : broken("pages that wait for a copy:", waiting);
}

Status PagePool::State::check_content(uint32_t page) const noexcept {
  const PageRecord& record = records[page];
  if (!options.prefix_reuse) return broken("content without prefix_reuse: page", page);
  if (record.findable && index.find(record.parent, record.hash, tokens_of(page)) != page)
    return broken("not found: page", page);
  if (pool::is_cached(record.list) && (!record.findable || index.has_twin(page)))
    return broken("cached for nothing: page", page);
  int findable = 0;
  uint32_t at = page, length = 0;
  do {  // once around the ring
    const uint32_t next = records[at].twin_next;
    const PageRecord& twin = records[next];
    const bool equal = twin.content == record.content && twin.parent == record.parent &&
                       twin.hash == record.hash &&
                       std::memcmp(tokens_of(next), tokens_of(page),
                                   static_cast<size_t>(options.page_size) * sizeof(TokenId)) == 0;
    if (!equal || twin.twin_previous != at || ++length > options.num_pages)
      return broken("ring of twins is broken at page", next);
    findable += twin.findable ? 1 : 0;
    at = next;
  } while (at != page);
  return findable == 1 ? Status() : broken("not exactly one findable twin of page", page);
}

Status PagePool::State::check_head(uint32_t page) const noexcept {
  const PageRecord& record = records[page];
  if (record.is_tail) {
    const auto fill = static_cast<int32_t>(record.fill);
    if (!heads.is_on() || record.content != 0 || record.references != 0 || record.awaits_copy ||
        fill < options.min_partial_tokens || fill >= options.page_size)
      return broken("a tail that cannot be: page", page);
    if (record.hash != heads.hash(record.parent, tokens_of(page)))
      return broken("hash is not of the head of tail", page);
  }
  if (!heads.is_on()) return {};
  if ((record.findable || record.is_tail) && !heads.holds(page))
    return broken("its head does not lead to page", page);
  if (!record.findable && !record.is_tail && record.first_child)
    return broken("a first child that is not findable: page", page);
  return {};
}

Status PagePool::State::check_lists() const noexcept {
  uint32_t which = 0;
  if (const char* const what = lists.fault(options.num_pages, &which); what != nullptr)
    return broken(what, which);
  const char* fault = eviction->fault();
  if (fault == nullptr && retention != nullptr) fault = retention->fault(options.num_pages);
  return fault == nullptr ? Status()
                          : fail(Errc::internal, "PagePool::check_invariants: {}", fault);
}

}  // namespace folio::inline v1::pool
