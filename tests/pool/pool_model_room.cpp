// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_room.cpp: the calls of the naive pool that make room, branch, and wait.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "pool/checked.h"
#include "pool/pool_model.h"

namespace folio::test {

void PoolModel::hold_prefix(Sequence& s, const std::vector<TokenId>& tokens, const Admission& given,
                            int partial) {
  const auto full = static_cast<size_t>(given.cached_tokens / page_size_);
  s.tokens.assign(tokens.begin(), tokens.begin() + given.cached_tokens);
  s.room = given.cached_tokens;
  s.starting = true;
  s.row = pool_row(s, pages_for(given.cached_tokens));
  for (size_t i = 0; i < full; ++i) {
    RC_ASSERT(s.row[i] < options_.num_pages);
    const auto first = tokens.begin() + static_cast<int64_t>(i) * page_size_;
    const int content = find_content(enter_page(s, i), {first, first + page_size_});
    RC_ASSERT(content != 0);
    RC_ASSERT(pages_[s.row[i]].content == content);
    eviction_.found(content);
    item_hits_ += s.items.opened.empty() ? 0 : 1;
    (held(s.row[i]) ? stats_.hit_tokens_used : stats_.hit_tokens_cached) += page_size_;
    count(histograms_.reuse, taken_pages_ - times_[s.row[i]].used);
    times_[s.row[i]].used = taken_pages_;
    ++pages_[s.row[i]].references;
  }
  if (partial != 0) {
    const uint32_t from = copied_page(partial);
    const int64_t copied = given.cached_tokens % page_size_;
    count(histograms_.reuse, taken_pages_ - times_[from].used);
    times_[from].used = taken_pages_;
    expect_copy(from, s.row.back(), static_cast<int32_t>(copied));  // first: it holds the source
    take(s.row.back());
    eviction_.found(partial);
    stats_.hit_tokens_partial += copied;
  }
  stats_.lookup_pages += (static_cast<int64_t>(tokens.size()) - 1) / page_size_;
  stats_.hit_pages += static_cast<int64_t>(full);
  stats_.hit_tokens += given.cached_tokens;
}

// ---- Room

PoolModel::Tail PoolModel::tail(const Sequence& s, int64_t rest) const {
  if (!s.trimmed) return {};
  const uint32_t last = s.row.back();
  const Page& page = pages_[last];
  const auto cut = static_cast<int32_t>(static_cast<int64_t>(s.tokens.size()) % page_size_);
  const auto reads_more = [&](const PageCopy& copy) {
    return (copy.from == last && copy.tokens > cut) || copy.to == last;
  };
  bool quiet = page.copies == 0 || std::none_of(pending_.begin(), pending_.end(), reads_more);
  if (page.copies != 0 && taken_hold_pages_)
    quiet = quiet && std::none_of(taken_.begin(), taken_.end(), reads_more);
  const bool alone =
      page.references == 1 && page.transfers == 0 && quiet && page.steps.empty() && s.steps.empty();
  const bool forget = alone && page.content != 0 && (has_twin(last) || available() <= rest);
  return {!alone || (page.content != 0 && !forget), forget};
}

bool PoolModel::fits(const Sequence& s, int32_t new_tokens) const {
  return new_tokens >= 0 && static_cast<int64_t>(s.tokens.size()) + new_tokens <=
                                int64_t{options_.max_pages_per_sequence} * page_size_;
}

int64_t PoolModel::room_for(const Sequence& s, int32_t new_tokens) const {
  return std::min(static_cast<int64_t>(s.tokens.size()) + new_tokens + options_.lookahead_tokens,
                  int64_t{options_.max_pages_per_sequence} * page_size_);
}

int64_t PoolModel::least_pages(const Sequence& s, int32_t new_tokens) const {
  const int64_t end = room_for(s, new_tokens);
  if (end <= s.room) return 0;
  const auto fresh = static_cast<int64_t>(pages_for(end) - s.row.size());
  return fresh + (tail(s, std::numeric_limits<int64_t>::max()).copy ? 1 : 0);
}

int64_t PoolModel::held_back(const Sequence& s, int64_t least, int64_t before) const {
  const std::set<uint32_t> own(s.row.begin(), s.row.end());
  bool others_hold = before != 0;
  for (uint32_t page = 0; page < options_.num_pages; ++page)
    others_hold = others_hold || (pages_[page].references != 0 && !own.contains(page));
  return s.starting && least != 0 && others_hold ? options_.watermark_pages : 0;
}

void PoolModel::make_room(Sequence& s, int32_t new_tokens, int64_t least) {
  const int64_t end = room_for(s, new_tokens);
  if (end <= s.room) return;
  const Tail t = tail(s, least);
  const std::vector<uint32_t> row = pool_row(s, pages_for(end));
  if (t.forget) pages_[s.row.back()].content = 0;
  if (t.copy) {
    const uint32_t last = s.row.back();
    take(s.row.back() = row[s.row.size() - 1]);
    expect_copy(last, s.row.back(),
                static_cast<int32_t>(static_cast<int64_t>(s.tokens.size()) % page_size_));
    drop(last, s.steps);
  }
  s.trimmed = s.starting = false;
  while (s.row.size() < row.size()) {
    take(row[s.row.size()]);
    s.row.push_back(row[s.row.size()]);
  }
  s.room = end;
}

void PoolModel::reserve(size_t sequence, int32_t new_tokens) {
  Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const Status status = pool_.reserve(s.id, new_tokens);
  if (!fits(s, new_tokens)) return expect_unchanged(status, Errc::invalid_argument, before);
  const int64_t least = least_pages(s, new_tokens);
  if (room_for(s, new_tokens) <= s.room) return expect_unchanged(status, Errc::ok, before);
  if (least + held_back(s, least, 0) > available())
    return expect_unchanged(status, Errc::out_of_pages, before);
  checked(status);
  make_room(s, new_tokens, least);
  check();
}

void PoolModel::reserve(const std::vector<std::pair<size_t, int32_t>>& requests) {
  const std::vector<std::byte> before = memory_.snapshot();
  std::vector<ReserveRequest> given;
  for (const auto& [sequence, tokens] : requests)
    given.push_back({sequences_[sequence].id, tokens});
  const Status status = pool_.reserve(given);
  std::set<size_t> named;
  for (const auto& [sequence, tokens] : requests) {
    if (!named.insert(sequence).second)
      return expect_unchanged(status, Errc::invalid_argument, before);
  }
  int64_t least = 0;
  for (const auto& [sequence, tokens] : requests) {
    const Sequence& s = sequences_[sequence];
    if (!fits(s, tokens)) return expect_unchanged(status, Errc::invalid_argument, before);
    const int64_t more = least_pages(s, tokens);
    if (more != 0 && least + more + held_back(s, more, least) > available())
      return expect_unchanged(status, Errc::out_of_pages, before);
    least += more;
  }
  checked(status);
  for (const auto& [sequence, tokens] : requests) {
    const int64_t own = least_pages(sequences_[sequence], tokens);
    make_room(sequences_[sequence], tokens, least);
    least -= own;
  }
  check();
}

void PoolModel::explain(size_t sequence, int32_t new_tokens) {
  const Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const Result<PoolExplanation> told = pool_.explain(s.id, new_tokens);
  if (!fits(s, new_tokens)) return expect_unchanged(told.error(), Errc::invalid_argument, before);
  PoolExplanation expected;
  expected.needed = least_pages(s, new_tokens);
  expected.held_back = held_back(s, expected.needed, 0);
  for (uint32_t i = 0; i < options_.num_pages; ++i) {
    const Page& page = pages_[i];
    const bool pinned = is_cached(i) && level(i) == retention_level::pinned;
    ++(page.references != 0                ? expected.of_sequences
       : !page.steps.empty()               ? expected.of_steps
       : page.copies + page.transfers != 0 ? expected.of_copies
       : pinned                            ? expected.pinned
       : page.content != 0                 ? expected.cached
                                           : expected.free);
  }
  expect_unchanged(told.error(), Errc::ok, before);
  RC_ASSERT(*told == expected);
}

// ---- Branches

void PoolModel::add_child(Sequence child, size_t pages) {
  child.row_start = checked(pool_.row_start(child.id));
  RC_ASSERT(open_space(child.space) == child.space_content);
  items_.share(child.items, static_cast<int32_t>(child.tokens.size()));
  const std::vector<uint32_t> shared = child.row;
  child.row = pool_row(child, pages);
  for (size_t i = 0; i < shared.size(); ++i) {
    RC_ASSERT(child.row[i] == shared[i]);
    ++pages_[shared[i]].references;
  }
  sequences_.push_back(std::move(child));
}

void PoolModel::fork(size_t sequence, int32_t length, size_t children) {
  const std::vector<std::byte> before = memory_.snapshot();
  std::vector<SequenceId> ids(children);
  const Status status = pool_.fork(sequences_[sequence].id, length, ids);
  const Sequence& parent = sequences_[sequence];
  const auto tokens = static_cast<int64_t>(parent.tokens.size());
  if (length < 0 || length > tokens)
    return expect_unchanged(status, Errc::invalid_argument, before);
  if (children == 0) return expect_unchanged(status, Errc::ok, before);
  const auto cut = static_cast<int32_t>(length % page_size_);
  const bool writes = cut != 0 && length / page_size_ == tokens / page_size_;
  const bool shares =
      cut != 0 && !(writes && (parent.room != tokens || incomplete_for_others(parent)));
  const bool copies = cut != 0 && !shares;
  if (sequences_.size() + children > options_.max_sequences ||
      (copies && static_cast<int64_t>(children) > available())) {
    return expect_unchanged(status, Errc::out_of_pages, before);
  }
  checked(status);
  Sequence child = parent;
  child.tokens.resize(static_cast<size_t>(length));
  child.room = length;
  child.steps.clear();
  child.trimmed = shares;
  child.starting = false;
  child.row.resize(pages_for(length) - (copies ? 1 : 0));
  if (writes && shares) sequences_[sequence].trimmed = true;
  for (const SequenceId id : ids) {
    child.id = id;
    add_child(child, pages_for(length));
    if (!copies) continue;
    take(sequences_.back().row.back());
    expect_copy(sequences_[sequence].row[child.row.size()], sequences_.back().row.back(), cut);
  }
  check();
}

bool PoolModel::incomplete_for_others(const Sequence& s) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [&](const PageCopy& copy) { return copy.to == s.row.back(); });
}

void PoolModel::keep_path(const std::vector<size_t>& tree, size_t leaf) {
  const std::vector<std::byte> before = memory_.snapshot();
  std::vector<SequenceId> ids;
  bool fails = leaf >= tree.size();
  for (const size_t i : tree) {
    fails = fails || !(sequences_[i].space == sequences_[tree[0]].space);
    fails = fails || std::find(ids.begin(), ids.end(), sequences_[i].id) != ids.end();
    ids.push_back(sequences_[i].id);
  }
  const Status status = pool_.keep_path(ids, leaf);
  if (fails) return expect_unchanged(status, Errc::invalid_argument, before);
  checked(status);
  Sequence& root = sequences_[tree[0]];
  Sequence& kept = sequences_[tree[leaf]];
  if (leaf != 0) {
    std::swap(root, kept);
    std::swap(root.id, kept.id);
    std::swap(root.row_start, kept.row_start);
    std::swap(root.wish, kept.wish);
  }
  for (size_t i = tree.size(); i-- > 1;) {
    Sequence& s = sequences_[tree[i]];
    give_up(s);
    close_space(s.space);
    stale_.push_back(s.id);
  }
  std::erase_if(sequences_, [&](const Sequence& s) {
    return std::find(ids.begin() + 1, ids.end(), s.id) != ids.end();
  });
  check();
}

// ---- Waiting

void PoolModel::preempt(size_t sequence) {
  Sequence& s = sequences_[sequence];
  checked(pool_.preempt(s.id));
  give_up(s);
  s.tokens.clear();
  s.room = 0;
  s.trimmed = false;
  s.starting = true;
  RC_ASSERT(pool_row(s, 0).empty());
  check();
}

void PoolModel::resume(size_t sequence, const std::vector<TokenId>& tokens) {
  Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const std::vector<int> chain = match(tokens, s.space, s.items.spans);
  const auto [partial, partial_tokens] = match_partial(chain, tokens, s.space, s.items.spans);
  const Result<Admission> given = pool_.resume(s.id, tokens);
  if (tokens.empty() || !s.row.empty())
    return expect_unchanged(given.error(), Errc::invalid_argument, before);
  RC_ASSERT(given.error().is_ok());
  RC_ASSERT(given->id == s.id);
  RC_ASSERT(given->cached_tokens ==
            static_cast<int64_t>(chain.size()) * page_size_ + partial_tokens);
  hold_prefix(s, tokens, *given, partial);
  check();
}

}  // namespace folio::test
