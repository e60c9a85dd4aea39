// SPDX-License-Identifier: Apache-2.0
/// pool/forks.cpp: the calls of several sequences of one beginning, and of those that wait without
/// pages.
#include "pool/checks.h"
#include "pool/pool_state.h"

namespace folio::inline v1::pool {

using pool::SequenceRecord;

Status PagePool::fork(SequenceId id, int32_t length, std::span<SequenceId> children) noexcept {
  SequenceRecord* const found = State::find_open(state_, id);
  if (found == nullptr) return State::refused(state_, "fork", id);
  State& state = *state_;
  SequenceRecord& parent = *found;
  if (Status s = state.check_length("fork", parent, length); !s.is_ok()) return s;
  if (children.empty()) return {};
  if (children.data() == nullptr) return pool::null_memory("fork", "children", children.size());
  if (Status s = state.check_going_back("fork", parent, length); !s.is_ok()) return s;
  const int64_t left = int64_t{state.options.max_sequences} - state.num_alive;
  if (children.size() > static_cast<size_t>(left)) {
    return fail(Errc::out_of_pages,
                "PagePool::fork: children has {} places, expected at most {} ({} of max_sequences "
                "{} are alive)",
                children.size(), left, state.num_alive, state.options.max_sequences);
  }
  const int32_t page_size = state.options.page_size;
  const bool is_last = length % page_size != 0 && parent.length / page_size == length / page_size;
  const bool is_writing =
      is_last && (parent.room != parent.length ||
                  state.records[state.row(parent)[length / page_size]].waits_for_copy());
  const bool shares = !state.groups.active() && !is_writing;
  if (Status s = state.claim_fork(parent, length, children.size(), shares); !s.is_ok()) return s;
  for (SequenceId& child : children) child = state.make_child(parent, length, shares);
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
  if (checked.is_ok() && leaf != 0) {
    const SequenceRecord& s = *state.find(tree[leaf]);
    checked = state.check_going_back("keep_path", s, s.length);
  }
  if (!checked.is_ok()) return checked;
  if (leaf != 0) {
    SequenceRecord& kept = *state.find(tree[0]);
    state.swap_pages(kept, *state.find(tree[leaf]));
    if (kept.loading != 0 || state.first_filling(kept, kept.room) != kept.pages)
      state.cut(kept, kept.length);
  }
  for (size_t i = tree.size(); i-- > 1;) state.close_sequence(*state.find(tree[i]));
  state.end_call();
  return {};
}

Status PagePool::preempt(SequenceId id) noexcept {
  SequenceRecord* const s = State::find_open(state_, id);
  if (s == nullptr) return State::refused(state_, "preempt", id);
  state_->give_up(*s);
  s->length = s->room = s->loading = 0;
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

}  // namespace folio::inline v1::pool
