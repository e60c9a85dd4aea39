// SPDX-License-Identifier: Apache-2.0
/// pool/sequences.cpp: the life of a sequence, from admit to release.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"
#include "pool/shared_word.h"

namespace folio::inline v1 {

using pool::SequenceRecord;

#ifdef FOLIO_MUTANT_WRONG_HIT
namespace {

/// The fault of a test build: a findable page with other content than `page`, once; else `page`.
uint32_t wrong_hit(const pool::PageRecord* records, uint32_t num_pages, uint32_t page) {
  static bool done = false;
  for (uint32_t other = num_pages; !done && other-- > 0;) {
    done = records[other].findable && records[other].content != records[page].content;
    if (done) return other;
  }
  return page;
}

}  // namespace
#endif

SequenceRecord* PagePool::State::find(SequenceId id) const noexcept {
  if (id.index >= options.max_sequences) return nullptr;
  SequenceRecord& s = sequences[id.index];
  return s.alive && s.generation == id.generation ? &s : nullptr;
}

SequenceRecord& PagePool::State::open_sequence() noexcept {
  SequenceRecord& s = sequences[free_sequence];
  free_sequence = s.next_free;
  // 0 stays the generation of no sequence
  s.generation += s.generation == std::numeric_limits<uint32_t>::max() ? 2 : 1;
  s.alive = true;
  ++counters.sequences;
  return s;
}

Result<Admission> PagePool::admit(std::span<const TokenId> prompt,
                                  const SequenceOptions& options) noexcept {
  if (!State::is_open(state_)) return State::refused(state_, "admit");
  if (Status s = pool::check_prompt(prompt, options); !s.is_ok()) return s;
  State& state = *state_;
  if (Status s = pool::check_spans(prompt, options, state.options); !s.is_ok()) return s;
  if (Status s = pool::check_retention("admit", options, state.options); !s.is_ok()) return s;
  if (state.free_sequence == pool::no_sequence)
    return pool::no_sequence_left("admit", state.options.max_sequences);

  SequenceRecord& s = state.open_sequence();
  s.space = state.namespaces.open(options.salt, options.adapter);
  if (state.retention != nullptr)
    state.retention->of_sequence(state.index_of(s)) = state.retention->ranges(
        options.retention, options.decode_retention, static_cast<int32_t>(prompt.size()));
  state.items.give(state.index_of(s), options.spans);
  const int32_t cached = state.hold_prefix(s, prompt);
  state.end_call();
  return Admission{state.id_of(s), cached};
}

int32_t PagePool::State::hold_prefix(SequenceRecord& s, std::span<const TokenId> prompt) noexcept {
  State& state = *this;
  uint32_t* const row = state.row(s);
  const uint32_t limit = state.lookup_limit(prompt.size());
  const Match match = state.match_prompt(s.space, prompt, items.of(index_of(s)), row);
  s.pages = match.pages;
#ifdef FOLIO_MUTANT_WRONG_HIT
  if (s.pages != 0)
    row[s.pages - 1] = wrong_hit(state.records, state.options.num_pages, row[s.pages - 1]);
#endif
  const uint32_t cached = state.lists.count_cached();
  for (uint32_t i = 0; i < s.pages; ++i) state.hold(row[i]);
  while (items.page_to_open(index_of(s)) < s.pages)
    (void)enter_page(s, items.page_to_open(index_of(s)));
  const int64_t were_cached = cached - state.lists.count_cached();
  for (uint32_t i = 0; state.ages.on() && i < s.pages; ++i) state.ages.found(row[i]);
  state.with_policy([&](auto& policy) {
    for (uint32_t i = 0; i < s.pages; ++i) policy.found(row[i]);
  });
  s.length = s.room = static_cast<int32_t>(s.pages) * state.options.page_size;
  if (state.groups.active()) {
    state.groups.likely[index_of(s)] = {
        .found = s.length,
        .diverged = static_cast<int32_t>(match.leading) * state.options.page_size,
        .prompt = static_cast<int32_t>(prompt.size())};
    state.hold_group_hits(s, match.states_of_tail);
  }
  state.counters.lookup_pages += limit;
  state.counters.hit_pages += s.pages;
  state.counters.hit_tokens_cached += were_cached * state.options.page_size;
  state.counters.hit_tokens_used += (s.pages - were_cached) * state.options.page_size;
  if (state.heads.is_on()) state.admit_partial(s, match, prompt);
  state.counters.hit_tokens += s.length;
  s.starting = true;
  return s.length;
}

void PagePool::State::name_full_pages(const SequenceRecord& s, uint32_t first, uint32_t last,
                                      bool merges) noexcept {
  while (first < last) {
    const pool::Before before = enter_page(s, first);
    const uint32_t end = std::min(last, items.page_to_open(index_of(s)));
    name_run(s, first, end, merges, before);
    first = end;
  }
}

void PagePool::State::name_run(const SequenceRecord& s, uint32_t first, uint32_t last, bool merges,
                               pool::Before before) noexcept {
  uint32_t* const pages = row(s);
  auto [parent, hash] = before;
  constexpr uint32_t ahead = pool::PrefixIndex::ahead;
  const uint64_t known = index.last_content();
  for (uint32_t p = first, hashed = first; p < last; ++p) {
    if ((p - first) % ahead == 0) {  // as in match, and one step more: the second of a bucket
      for (; hashed < std::min(last, p + 3 * ahead); ++hashed) {
        hash = index.hash(hash, tokens_of(pages[hashed]));
        pool::publish(records[pages[hashed]].hash, hash);
        index.prefetch(hash);
        with_policy([hash](auto& policy) { policy.prefetch(hash); });
      }
      for (uint32_t i = p + ahead; i < std::min(last, p + 2 * ahead); ++i)
        index.prefetch_chain(records[pages[i]].hash);
      for (uint32_t i = p; i < std::min(last, p + ahead); ++i)
        index.prefetch_second(records[pages[i]].hash);
    }
    const uint32_t twin = index.add(pages[p], parent);
    ages.stored(pages[p]);
    if (twin == pool::no_page) {
      with_policy([&](auto& policy) { policy.created(pages[p]); });
      if (events.on()) tell_stored(s, p);
    }
    if (twin != pool::no_page && merges) {
      merge(pages[p], twin);
    } else if (twin != pool::no_page && pool::is_cached(records[twin].list)) {
      lists.unlink(twin);  // the sequence's own page answers now
      settle(twin);
    }
    parent = records[pages[p]].content;
  }
  if (heads.is_on()) add_heads(s, first, last, known);
}

uint32_t PagePool::State::first_filling(const SequenceRecord& s, int32_t end) const noexcept {
  const uint32_t last = pages_for(end);
  if (io_pins.filling() == 0) return last;
  const uint32_t* const pages = row(s);
  auto p = static_cast<uint32_t>(s.length / options.page_size);
  while (p < last && !records[pages[p]].filling) ++p;
  return std::min(p, last);
}

Status PagePool::commit(SequenceId id, std::span<const TokenId> written, Merge merge) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "commit", id);
  State& state = *state_;
  SequenceRecord& s = *found;
  if (merge > Merge::allowed) return pool::no_merge(merge);
  if (written.empty()) return {};
  if (written.data() == nullptr) return pool::null_memory("commit", "written", written.size());
  if (written.size() > static_cast<size_t>(s.room - s.length)) {
    return fail(
        Errc::invalid_argument,
        "PagePool::commit: written has {} tokens, expected at most {} (the room that is reserved)",
        written.size(), s.room - s.length);
  }
  const int32_t page_size = state.options.page_size;
  const uint32_t* const row = state.row(s);
  if (state.records[row[s.length / page_size]].awaits_copy || state.group_awaits_copy(s)) {
    return fail(
        Errc::invalid_argument,
        "PagePool::commit: page {} of the sequence waits for a copy, expected take_copies before",
        s.length / page_size);
  }
  const int32_t end = s.length + static_cast<int32_t>(written.size());
  if (const uint32_t p = state.first_filling(s, end); p != state.pages_for(end)) {
    return fail(Errc::busy, "PagePool::commit: a transfer fills page {} of the sequence", p);
  }
  const int32_t first_full = s.length / page_size;
  while (!written.empty()) {
    const int32_t position = s.length / page_size, offset = s.length % page_size;
    const auto count = std::min(static_cast<size_t>(page_size - offset), written.size());
    std::memcpy(state.tokens_of(row[position]) + offset, written.data(), count * sizeof(TokenId));
    written = written.subspan(count);
    s.length += static_cast<int32_t>(count);
  }
  const bool merges = merge == Merge::allowed && state.unfinished_steps(s) == 0;
  if (state.options.prefix_reuse) {
    state.name_full_pages(s, static_cast<uint32_t>(first_full),
                          static_cast<uint32_t>(s.length / page_size), merges);
  }
  if (state.groups.active()) state.advance_groups(s, static_cast<uint32_t>(first_full), merges);
  state.end_call();
  return {};
}

void PagePool::State::drop_pages(SequenceRecord& s, uint32_t keep) noexcept {
  uint32_t* const pages = row(s);
  const uint64_t steps = unfinished_steps(s);
  while (s.pages > keep) drop(std::exchange(pages[--s.pages], options.num_pages), steps);
}

Status PagePool::State::check_length(const char* call, const SequenceRecord& s,
                                     int32_t length) const noexcept {
  if (length >= 0 && length <= s.length) return {};
  return fail(Errc::invalid_argument,
              "PagePool::{}: length is {}, expected 0 .. {} (the sequence's length)", call, length,
              s.length);
}

void PagePool::State::cut(SequenceRecord& s, int32_t length) noexcept {
  if (length == s.room) return;
  cut_groups(s, length);
  drop_pages(s, pages_for(length));
  s.length = s.room = length;
  s.trimmed = length % options.page_size != 0;
}

Status PagePool::trim(SequenceId id, int32_t length, CutItems items) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "trim", id);
  SequenceRecord& s = *found;
  if (items > CutItems::kept) {
    return fail(Errc::invalid_argument,
                "PagePool::trim: items is {}, expected removed or kept (0 .. 1)",
                static_cast<int>(items));
  }
  if (Status checked = state_->check_length("trim", s, length); !checked.is_ok()) return checked;
  if (const uint32_t group = state_->group_that_cannot(s, length); group != 0)
    return pool::cannot_go_back("trim", length, group, s.length);
  const uint32_t index = state_->index_of(s);
  state_->items.close_behind(index, length);
  if (items == CutItems::removed) state_->items.remove_behind(index, length);
  state_->cut(s, length);
  state_->end_call();
  return {};
}

Result<SequenceId> PagePool::fork(SequenceId id, int32_t length) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "fork", id);
  State& state = *state_;
  const SequenceRecord& parent = *found;
  if (Status s = state.check_length("fork", parent, length); !s.is_ok()) return s;
  if (state.free_sequence == pool::no_sequence)
    return pool::no_sequence_left("fork", state.options.max_sequences);
  if (const uint32_t group = state.group_that_cannot(parent, length); group != 0)
    return pool::cannot_go_back("fork", length, group, parent.length);
  const int32_t cut = length % state.options.page_size;
  if (state.groups.active()) {
    if (Status room = state.claim_fork(parent, length, 1); !room.is_ok()) return room;
  } else if (cut != 0 && state.available() == 0) {
    return state.no_pages("fork", 1);
  }
  SequenceRecord& child = state.open_sequence();
  state.share_prefix(parent, child, length);
  const auto full = static_cast<uint32_t>(length / state.options.page_size);
  if (state.groups.active()) state.fork_groups(parent, child, length);  // holds before it evicts
  if (cut != 0) state.row(child)[full] = state.copy_page(state.row(parent)[full], cut);
  child.pages += cut != 0 ? 1 : 0;
  state.end_call();
  return state.id_of(child);
}

Status PagePool::release(SequenceId id) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "release", id);
  state_->close_sequence(*found);
  state_->end_call();
  return {};
}

}  // namespace folio::inline v1
