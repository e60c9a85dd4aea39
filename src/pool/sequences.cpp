// SPDX-License-Identifier: Apache-2.0
/// pool/sequences.cpp: the life of a sequence, from admit to release.
#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::SequenceRecord;
using pool::TailWrite;

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

uint32_t PagePool::State::lookup_limit(size_t prompt_tokens) const noexcept {
  return static_cast<uint32_t>((prompt_tokens - 1) / static_cast<size_t>(options.page_size));
}

uint32_t PagePool::State::match(uint32_t space, const TokenId* prompt, uint32_t limit,
                                uint32_t* found) const noexcept {
  if (!options.prefix_reuse || space == pool::no_namespace) return 0;
  limit = static_cast<uint32_t>(std::min<int64_t>(limit, max_tokens / options.page_size));
  constexpr uint32_t ahead = pool::PrefixIndex::ahead;
  uint64_t parent = namespaces[space].name, hash = namespaces[space].hash;
  uint64_t hashes[2 * ahead];
  uint32_t hits = 0, hashed = 0;
  pool::JointHit joint(groups, options.page_size);
  for (; hits < limit; ++hits) {
    // Hashes do not depend on what is found: ask for the buckets of the next pages together, and
    // for the pages of those whose buckets have come meanwhile. Twice as far ahead where something
    // has been found.
    if (hits % ahead == 0) {
      for (; hashed < std::min(hits == 0 ? ahead : hits + 2 * ahead, limit); ++hashed) {
        hash = index.hash(hash, prompt + int64_t{hashed} * options.page_size);
        hashes[hashed % (2 * ahead)] = hash;
        index.prefetch(hash);
      }
      for (uint32_t i = hits; i < std::min(hits + ahead, limit); ++i)
        index.prefetch_page(hashes[i % (2 * ahead)]);
    }
    const uint32_t page =
        index.find(parent, hashes[hits % (2 * ahead)], prompt + int64_t{hits} * options.page_size);
    if (page == pool::no_page) break;
    parent = records[page].content;
    if (found != nullptr) found[hits] = page;
    if (groups.active()) joint.add(page);
  }
  if (!groups.active()) return hits;
  if (found != nullptr) std::fill_n(found + joint.pages(), hits - joint.pages(), options.num_pages);
  return joint.pages();
}

int32_t PagePool::peek(std::span<const TokenId> prompt,
                       const SequenceOptions& options) const noexcept {
  if (state_ == nullptr || !pool::check_prompt(prompt, options).is_ok()) return 0;
  const uint32_t space = state_->namespaces.find(options.salt, options.adapter);
  return static_cast<int32_t>(
             state_->match(space, prompt.data(), state_->lookup_limit(prompt.size()), nullptr)) *
         page_size();
}

Result<Admission> PagePool::admit(std::span<const TokenId> prompt,
                                  const SequenceOptions& options) noexcept {
  if (state_ == nullptr) return pool::moved_from("admit");
  if (Status s = pool::check_prompt(prompt, options); !s.is_ok()) return s;
  State& state = *state_;
  if (state.free_sequence == pool::no_sequence)
    return pool::no_sequence_left("admit", state.options.max_sequences);

  SequenceRecord& s = state.open_sequence();
  s.space = state.namespaces.open(options.salt, options.adapter);
  uint32_t* const row = state.row(s);
  const uint32_t limit = state.lookup_limit(prompt.size());
  s.pages = state.match(s.space, prompt.data(), limit, row);
#ifdef FOLIO_MUTANT_WRONG_HIT
  if (s.pages != 0)
    row[s.pages - 1] = wrong_hit(state.records, state.options.num_pages, row[s.pages - 1]);
#endif
  for (uint32_t i = 0; i < s.pages; ++i) state.hold(row[i]);
  state.with_policy([&](auto& policy) {
    for (uint32_t i = 0; i < s.pages; ++i) policy.found(row[i]);
  });
  s.length = s.room = static_cast<int32_t>(s.pages) * state.options.page_size;
  if (state.groups.active()) state.hold_group_hits(s);
  state.counters.lookup_pages += limit;
  state.counters.hit_pages += s.pages;
  state.counters.hit_tokens += s.length;
  return Admission{state.id_of(s), s.length};
}

TailWrite PagePool::State::tail_write(const SequenceRecord& s, int64_t end,
                                      uint32_t fresh) const noexcept {
  if (!s.trimmed) return TailWrite::in_place;
  const uint32_t page = row(s)[s.length / options.page_size];
  const pool::PageRecord& record = records[page];
  // A step in flight may still read, or write, the slots behind the cut; so may other sequences and
  // copies.
  if (record.references != 1 || record.copies != 0 || record.steps != 0 || unfinished_steps(s) != 0)
    return TailWrite::copy;
  if (record.content == 0) return TailWrite::in_place;
  // Findable content is kept while there is a page for the copy, but it never makes reserve fail.
  uint32_t needs[pool::max_groups] = {};
  const bool has_room =
      groups.active() ? group_needs(s, end, TailWrite::copy, needs) : available() > fresh;
  return index.has_twin(page) || !has_room ? TailWrite::forget_content : TailWrite::copy;
}

Status PagePool::reserve(SequenceId id, int32_t new_tokens) noexcept {
  SequenceRecord* const found = state_ == nullptr ? nullptr : state_->find(id);
  if (found == nullptr) return pool::not_alive("reserve", id);
  State& state = *state_;
  SequenceRecord& s = *found;
  const int64_t end = int64_t{s.length} + new_tokens;
  if (new_tokens < 0 || end > state.max_tokens) {
    return fail(Errc::invalid_argument,
                "PagePool::reserve: new_tokens is {}, expected 0 .. {} (a sequence holds {}, its "
                "length is {})",
                new_tokens, state.max_tokens - s.length, state.max_tokens, s.length);
  }
  if (end <= s.room) return {};

  const uint32_t wanted = state.pages_for(end), fresh = wanted - s.pages;
  const TailWrite tail = state.tail_write(s, end, fresh);
  const uint32_t needed = fresh + (tail == TailWrite::copy ? 1 : 0);
  if (state.groups.active()) {
    if (Status room = state.claim_room(s, end, tail); !room.is_ok()) return room;
  } else if (needed > state.available()) {
    return fail(Errc::out_of_pages,
                "PagePool::reserve: {} pages needed, {} of {} are free or can be evicted", needed,
                state.available(), state.options.num_pages);
  }
  uint32_t* const row = state.row(s);
  uint32_t& last = row[s.length / state.options.page_size];
  if (tail == TailWrite::forget_content) {
    if (state.groups.active()) state.groups.forget(last, pool::no_page);
    state.index.remove(last);
  }
  if (tail == TailWrite::copy) {
    const uint32_t shared = last;
    last = state.copy_page(shared, s.length % state.options.page_size);
    state.drop(shared, state.unfinished_steps(s));
  }
  if (state.groups.active()) state.reserve_groups(s, end, tail);
  s.trimmed = false;
  for (; s.pages < wanted; ++s.pages) row[s.pages] = state.take_page();
  s.room = static_cast<int32_t>(end);
  return {};
}

void PagePool::State::name_full_pages(const SequenceRecord& s, uint32_t first,
                                      uint32_t last) noexcept {
  const uint32_t* const pages = row(s);
  uint64_t parent = first == 0 ? namespaces[s.space].name : records[pages[first - 1]].content;
  uint64_t hash = first == 0 ? namespaces[s.space].hash : records[pages[first - 1]].hash;
  constexpr uint32_t ahead = pool::PrefixIndex::ahead;
  for (uint32_t p = first, hashed = first; p < last; ++p) {
    if ((p - first) % ahead == 0) {  // as in match, and one step more: the second of a bucket
      for (; hashed < std::min(last, p + 3 * ahead); ++hashed) {
        records[pages[hashed]].hash = hash = index.hash(hash, tokens_of(pages[hashed]));
        index.prefetch(hash);
        with_policy([hash](auto& policy) { policy.prefetch(hash); });
      }
      for (uint32_t i = p + ahead; i < std::min(last, p + 2 * ahead); ++i)
        index.prefetch_chain(records[pages[i]].hash);
      for (uint32_t i = p; i < std::min(last, p + ahead); ++i)
        index.prefetch_second(records[pages[i]].hash);
    }
    const uint32_t twin = index.add(pages[p], parent);
    if (twin == pool::no_page) with_policy([&](auto& policy) { policy.created(pages[p]); });
    if (twin != pool::no_page && pool::is_queue(records[twin].list)) {
      lists.unlink(twin);  // the sequence's own page answers now
      settle(twin);
    }
    parent = records[pages[p]].content;
  }
}

Status PagePool::commit(SequenceId id, std::span<const TokenId> written) noexcept {
  SequenceRecord* const found = state_ == nullptr ? nullptr : state_->find(id);
  if (found == nullptr) return pool::not_alive("commit", id);
  State& state = *state_;
  SequenceRecord& s = *found;
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
  const int32_t first_full = s.length / page_size;
  while (!written.empty()) {
    const int32_t position = s.length / page_size, offset = s.length % page_size;
    const auto count = std::min(static_cast<size_t>(page_size - offset), written.size());
    std::memcpy(state.tokens_of(row[position]) + offset, written.data(), count * sizeof(TokenId));
    written = written.subspan(count);
    s.length += static_cast<int32_t>(count);
  }
  if (state.options.prefix_reuse) {
    state.name_full_pages(s, static_cast<uint32_t>(first_full),
                          static_cast<uint32_t>(s.length / page_size));
  }
  if (state.groups.active()) state.advance_groups(s, static_cast<uint32_t>(first_full));
  return {};
}

void PagePool::State::drop_pages(SequenceRecord& s, uint32_t keep) noexcept {
  uint32_t* const pages = row(s);
  const uint64_t steps = unfinished_steps(s);
  while (s.pages > keep) drop(std::exchange(pages[--s.pages], options.num_pages), steps);
}

Status PagePool::trim(SequenceId id, int32_t length) noexcept {
  SequenceRecord* const found = state_ == nullptr ? nullptr : state_->find(id);
  if (found == nullptr) return pool::not_alive("trim", id);
  SequenceRecord& s = *found;
  if (length < 0 || length > s.length) {
    return fail(Errc::invalid_argument,
                "PagePool::trim: length is {}, expected 0 .. {} (the sequence's length)", length,
                s.length);
  }
  if (length == s.room) return {};
  if (const uint32_t group = state_->group_that_cannot(s, length); group != 0)
    return pool::cannot_go_back("trim", length, group, s.length);
  state_->cut_groups(s, length);
  state_->drop_pages(s, state_->pages_for(length));
  s.length = s.room = length;
  s.trimmed = length % state_->options.page_size != 0;
  return {};
}

Result<SequenceId> PagePool::fork(SequenceId id, int32_t length) noexcept {
  SequenceRecord* const found = state_ == nullptr ? nullptr : state_->find(id);
  if (found == nullptr) return pool::not_alive("fork", id);
  State& state = *state_;
  const SequenceRecord& parent = *found;
  if (length < 0 || length > parent.length) {
    return fail(Errc::invalid_argument,
                "PagePool::fork: length is {}, expected 0 .. {} (the sequence's length)", length,
                parent.length);
  }
  if (state.free_sequence == pool::no_sequence)
    return pool::no_sequence_left("fork", state.options.max_sequences);
  if (const uint32_t group = state.group_that_cannot(parent, length); group != 0)
    return pool::cannot_go_back("fork", length, group, parent.length);
  const int32_t cut = length % state.options.page_size;
  if (state.groups.active()) {
    if (Status room = state.claim_fork(parent, length); !room.is_ok()) return room;
  } else if (cut != 0 && state.available() == 0) {
    return fail(Errc::out_of_pages,
                "PagePool::fork: 1 page needed for {} tokens of a cut page, 0 of {} are free or "
                "can be evicted",
                cut, state.options.num_pages);
  }
  SequenceRecord& child = state.open_sequence();
  child.space = parent.space;
  state.namespaces.retain(child.space);
  const uint32_t* const from = state.row(parent);
  uint32_t* const to = state.row(child);
  const auto full = static_cast<uint32_t>(length / state.options.page_size);
  for (; child.pages < full; ++child.pages) state.hold(to[child.pages] = from[child.pages]);
  state.fork_groups(parent, child, length);  // holds before anything is evicted
  if (cut != 0) to[child.pages++] = state.copy_page(from[full], cut);
  child.length = child.room = length;
  return state.id_of(child);
}

Status PagePool::release(SequenceId id) noexcept {
  SequenceRecord* const found = state_ == nullptr ? nullptr : state_->find(id);
  if (found == nullptr) return pool::not_alive("release", id);
  State& state = *state_;
  state.release_groups(*found);
  state.drop_pages(*found, 0);
  state.namespaces.close(found->space);
  *found = {.generation = found->generation, .next_free = state.free_sequence};
  state.free_sequence = id.index;
  --state.counters.sequences;
  return {};
}

}  // namespace folio::inline v1
