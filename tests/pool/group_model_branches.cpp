// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model_branches.cpp: the calls by which sequences of the hybrid pool go back,
/// branch, wait and end.
#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/group_model.h"

namespace folio::test {

void GroupModel::trim(size_t sequence, int32_t length) {
  Sequence& s = sequences_[sequence];
  const auto before = memory_.snapshot();
  const Status status = pool_.trim(s.id, length);
  if (!status.is_ok()) {
    RC_ASSERT(status.code() == Errc::invalid_argument);
    if (length >= 0 && length <= static_cast<int32_t>(s.tokens.size())) {
      ++refused_lengths;
      RC_ASSERT(length < static_cast<int32_t>(s.tokens.size()) || !s.load.empty());
    }
    return expect_unchanged(before);
  }
  items_.cut(s.items, length);
  s.tokens.resize(static_cast<size_t>(length));
  s.load.clear();
  s.room = length;
  check();
}

void GroupModel::add_child(Sequence child, int32_t length) {
  child.tokens.resize(static_cast<size_t>(length));
  child.load.clear();
  child.room = length;
  items_.share(child.items, length);
  sequences_.push_back(std::move(child));
}

void GroupModel::fork_by(size_t sequence, int32_t length, auto call) {
  Sequence copy = sequences_[sequence];
  const auto before = memory_.snapshot();
  const GroupOrder order(pool_);
  const Result<std::vector<SequenceId>> children = call(copy.id);
  if (!children) {
    const Errc code = children.error().code();
    RC_ASSERT(code == Errc::invalid_argument || code == Errc::out_of_pages);
    return expect_unchanged(before);
  }
  for (const SequenceId id : *children) {
    copy.id = id;
    add_child(copy, length);
  }
  gone_by_level += order.expect_kept_by(pool_);
  check();
}

void GroupModel::fork(size_t sequence, int32_t length) {
  fork_by(sequence, length, [&](SequenceId id) -> Result<std::vector<SequenceId>> {
    const auto child = pool_.fork(id, length);
    if (!child) return child.error();
    return std::vector<SequenceId>{*child};
  });
}

void GroupModel::fork_children(size_t sequence, int32_t length, size_t count) {
  fork_by(sequence, length, [&](SequenceId id) -> Result<std::vector<SequenceId>> {
    std::vector<SequenceId> children(count);
    if (Status s = pool_.fork(id, length, children); !s.is_ok()) return s;
    return children;
  });
}

void GroupModel::keep_path(size_t leaf) {
  if (leaf != 0 && !sequences_[leaf].load.empty())  // it may lack what its length needs
    trim(leaf, static_cast<int32_t>(sequences_[leaf].tokens.size()));
  if (leaf != 0 && !sequences_[leaf].load.empty()) return;
  std::vector<SequenceId> tree;
  for (const Sequence& s : sequences_) tree.push_back(s.id);
  Sequence kept = sequences_[leaf];
  kept.id = tree[0];
  kept.wish = sequences_[0].wish;  // stays with the id
  GivenUp all;
  for (size_t i = tree.size(); i-- > 1;)
    give_up(sequences_[i == leaf ? 0 : i], sequences_[i].wish, all);
  checked(pool_.keep_path(tree, leaf));
  expect_tails(all);
  for (Step& step : steps_) {  // states go on with the id that has the pages now
    if (leaf == 0) break;
    for (auto& [cell, read] : step.reads) {
      if (read.state_of == tree[0]) read.state_of = {};
    }
    for (auto& [cell, read] : step.reads) {
      if (read.state_of == tree[leaf]) read.state_of = tree[0];
    }
  }
  sequences_.assign(1, kept);
  check();
}

void GroupModel::preempt(size_t sequence) {
  Sequence& s = sequences_[sequence];
  GivenUp all;
  give_up(s, s.wish, all);
  checked(pool_.preempt(s.id));
  expect_tails(all);
  s.tokens.clear();
  s.load.clear();
  s.room = 0;
  check();
}

void GroupModel::release(size_t sequence) {
  Sequence& s = sequences_[sequence];
  GivenUp all;
  give_up(s, s.wish, all);
  checked(pool_.release(s.id));
  expect_tails(all);
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(sequence));
  check();
}

}  // namespace folio::test
