// SPDX-License-Identifier: Apache-2.0
/// pool/sequences.cpp: the calls of a sequence's life, from admit to release.
#include <algorithm>
#include <cstring>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::SequenceRecord;

int32_t PagePool::peek(std::span<const TokenId> prompt,
                       const SequenceOptions& options) const noexcept {
  if (state_ == nullptr || !pool::check_prompt(prompt, options).is_ok() ||
      !pool::check_spans(prompt, options, state_->options).is_ok())
    return 0;
  const uint32_t space = state_->namespaces.find(options.salt, options.adapter);
  const State::Match match = state_->match_prompt(space, prompt, options.spans, nullptr);
  const auto tokens = static_cast<int32_t>(match.pages) * page_size();
  return state_->heads.is_on() ? tokens + state_->peek_partial(space, match, prompt, options.spans)
                               : tokens;
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

Status PagePool::commit(SequenceId id, std::span<const TokenId> written, Merge merge) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "commit", id);
  State& state = *state_;
  SequenceRecord& s = *found;
  if (merge > Merge::allowed) return pool::no_merge(merge);
  if (written.empty()) return {};
  if (written.data() == nullptr) return pool::null_memory("commit", "written", written.size());
  if (s.loading != 0) {
    return fail(Errc::busy,
                "PagePool::commit: the sequence has a load of {} tokens, expected commit_load or "
                "trim before",
                s.loading);
  }
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
  state.advance_groups(s, static_cast<uint32_t>(first_full), merges);
  state.end_call();
  return {};
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
  if (Status checked = state_->check_going_back("trim", s, length); !checked.is_ok())
    return checked;
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
  if (Status s = state.check_going_back("fork", parent, length); !s.is_ok()) return s;
  if (Status s = state.claim_fork(parent, length, 1, false); !s.is_ok()) return s;
  const SequenceId child = state.make_child(parent, length, false);
  state.end_call();
  return child;
}

Status PagePool::release(SequenceId id) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "release", id);
  state_->close_sequence(*found);
  state_->end_call();
  return {};
}

}  // namespace folio::inline v1::pool
