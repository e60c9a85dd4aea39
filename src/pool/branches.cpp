// SPDX-License-Identifier: Apache-2.0
/// pool/branches.cpp: several sequences of one beginning, and sequences that wait without pages.
#include <algorithm>
#include <utility>

#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1 {

using pool::SequenceRecord;

void PagePool::State::share_prefix(const SequenceRecord& parent, SequenceRecord& child,
                                   int32_t length) noexcept {
  child.space = parent.space;
  namespaces.retain(child.space);
  if (retention != nullptr)
    retention->of_sequence(index_of(child)) = retention->of_sequence(index_of(parent));
  items.share(index_of(parent), index_of(child), length);
  const uint32_t* const from = row(parent);
  uint32_t* const to = row(child);
  const auto full = static_cast<uint32_t>(length / options.page_size);
  for (; child.pages < full; ++child.pages) hold(to[child.pages] = from[child.pages]);
  child.length = child.room = length;
}

void PagePool::State::give_up(SequenceRecord& s) noexcept {
  if (heads.is_on()) keep_tail(s);
  note_end(s);
  if (groups.active()) release_groups(s);
  drop_pages(s, 0);
  items.close(index_of(s));
}

void PagePool::State::close_sequence(SequenceRecord& s) noexcept {
  give_up(s);
  items.take_away(index_of(s));
  namespaces.close(s.space);
  s = {.generation = s.generation, .next_free = free_sequence};
  free_sequence = index_of(s);
  --counters.sequences;
}

Status PagePool::fork(SequenceId id, int32_t length, std::span<SequenceId> children) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "fork", id);
  State& state = *state_;
  SequenceRecord& parent = *found;
  if (Status s = state.check_length("fork", parent, length); !s.is_ok()) return s;
  if (children.empty()) return {};
  if (children.data() == nullptr) return pool::null_memory("fork", "children", children.size());
  if (const uint32_t group = state.group_that_cannot(parent, length); group != 0)
    return pool::cannot_go_back("fork", length, group, parent.length);
  const int64_t left = int64_t{state.options.max_sequences} - state.counters.sequences;
  if (children.size() > static_cast<size_t>(left)) {
    return fail(Errc::out_of_pages,
                "PagePool::fork: children has {} places, expected at most {} ({} of max_sequences "
                "{} are alive)",
                children.size(), left, state.counters.sequences, state.options.max_sequences);
  }
  const int32_t page_size = state.options.page_size, cut = length % page_size;
  uint32_t* const from = state.row(parent) + length / page_size;
  const bool is_last = cut != 0 && parent.length / page_size == length / page_size;
  const bool shares =
      !state.groups.active() &&
      (!is_last || (parent.room == parent.length && !state.records[*from].awaits_copy));
  if (state.groups.active()) {
    const auto count = static_cast<uint32_t>(children.size());
    if (Status room = state.claim_fork(parent, length, count); !room.is_ok()) return room;
  } else if (cut != 0 && !shares && children.size() > state.available()) {
    return state.no_pages("fork", static_cast<int64_t>(children.size()));
  }
  for (SequenceId& child_id : children) {
    SequenceRecord& child = state.open_sequence();
    state.share_prefix(parent, child, length);
    child_id = state.id_of(child);
    if (state.groups.active()) state.fork_groups(parent, child, length);
    if (cut == 0) continue;
    uint32_t& last = state.row(child)[child.pages++];
    child.trimmed = shares;
    if (shares) {
      state.hold(last = *from);
    } else {
      last = state.copy_page(*from, cut);
    }
  }
  if (is_last && shares) parent.trimmed = true;  // it looks at the page, too, before it writes
  state.end_call();
  return {};
}

Status PagePool::keep_path(std::span<const SequenceId> tree, size_t leaf) noexcept {
  if (leaf >= tree.size()) {
    return fail(Errc::invalid_argument,
                "PagePool::keep_path: leaf is {}, expected less than {} (the sequences of the "
                "tree)",
                leaf, tree.size());
  }
  if (tree.data() == nullptr) return pool::null_memory("keep_path", "tree", tree.size());
  if (!State::is_open(state_)) return State::refused(state_, "keep_path");
  State& state = *state_;
  Status checked;
  for (size_t i = 0; i < tree.size() && checked.is_ok(); ++i) {
    checked = state.list_once("keep_path", "tree", i, tree[i]);
    if (!checked.is_ok() || state.find(tree[i])->space == state.find(tree[0])->space) continue;
    checked = fail(Errc::invalid_argument,
                   "PagePool::keep_path: tree[{}] is sequence {}, expected one of tree[0]'s salt "
                   "and adapter",
                   i, tree[i].index);
  }
  for (const SequenceId id : tree) {
    if (SequenceRecord* const s = state.find(id); s != nullptr) s->listed = false;
  }
  if (!checked.is_ok()) return checked;
  if (leaf != 0) {
    SequenceRecord& kept = *state.find(tree[0]);
    state.swap_pages(kept, *state.find(tree[leaf]));
    if (state.first_filling(kept, kept.room) != kept.pages) state.cut(kept, kept.length);
  }
  for (size_t i = tree.size(); i-- > 1;) state.close_sequence(*state.find(tree[i]));
  state.end_call();
  return {};
}

void PagePool::State::swap_pages(SequenceRecord& a, SequenceRecord& b) noexcept {
  std::swap_ranges(row(a), row(a) + std::max(a.pages, b.pages), row(b));
  std::swap(a.length, b.length);
  std::swap(a.room, b.room);
  std::swap(a.pages, b.pages);
  std::swap(a.steps, b.steps);  // they hold the pages
  std::swap(a.last_step, b.last_step);
  std::swap(a.trimmed, b.trimmed);
  std::swap(a.starting, b.starting);
  items.swap(index_of(a), index_of(b));
  if (groups.active()) swap_groups(a, b);
}

Status PagePool::preempt(SequenceId id) noexcept {
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "preempt", id);
  state_->give_up(*s);
  s->length = s->room = 0;
  s->trimmed = false;
  s->starting = true;
  state_->end_call();
  return {};
}

Result<Admission> PagePool::resume(SequenceId id, std::span<const TokenId> tokens) noexcept {
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "resume", id);
  if (Status given = pool::check_tokens("resume", "tokens", tokens); !given.is_ok()) return given;
  if (s->pages != 0) {
    return fail(Errc::invalid_argument,
                "PagePool::resume: id is sequence {} with {} pages, expected one without (preempt)",
                id.index, s->pages);
  }
  const int32_t cached = state_->hold_prefix(*s, tokens);
  state_->end_call();
  return Admission{id, cached};
}

}  // namespace folio::inline v1
