// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_calls.cpp: the calls of the naive pool: the real pool does each first, and
/// the model looks at what it has done.
#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/inspection.h"
#include "pool/pool_model.h"

namespace folio::test {

// ---- Sequences

void PoolModel::admit(const std::vector<TokenId>& prompt, const Space& space, const NaiveWish& wish,
                      const std::vector<ContentSpan>& spans) {
  const std::vector<std::byte> before = memory_.snapshot();
  const SequenceOptions options{.salt = space.salt,
                                .adapter = space.adapter,
                                .retention = wish.ranges,
                                .decode_retention = wish.decode,
                                .spans = spans};
  const bool fails = prompt.empty() || !items_.allow(spans, prompt);
  const std::vector<int> chain = fails ? std::vector<int>() : match(prompt, space, spans);
  const auto [partial, partial_tokens] =
      fails ? std::pair<int, int64_t>() : match_partial(chain, prompt, space, spans);
  const int64_t cached = static_cast<int64_t>(chain.size()) * page_size_ + partial_tokens;
  RC_ASSERT(pool_.peek(prompt, options) == cached);
  RC_ASSERT(memory_.snapshot() == before);

  Result<Admission> admission = pool_.admit(prompt, options);
  if (fails) return expect_unchanged(admission.error(), Errc::invalid_argument, before);
  if (sequences_.size() == options_.max_sequences)
    return expect_unchanged(admission.error(), Errc::out_of_pages, before);
  const Admission given = checked(std::move(admission));
  Sequence s;
  s.id = given.id;
  s.row_start = checked(pool_.row_start(given.id));
  s.space = space;
  s.wish = wish;
  s.wish.prompt = static_cast<int32_t>(prompt.size());
  s.space_content = open_space(space);
  s.items.spans = spans;
  RC_ASSERT(given.cached_tokens == cached);
  RC_ASSERT(given.cached_tokens < static_cast<int64_t>(prompt.size()));
  hold_prefix(s, prompt, given, partial);
  sequences_.push_back(std::move(s));
  check();
}

void PoolModel::commit(size_t sequence, const std::vector<TokenId>& written, Merge merge) {
  Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const auto length = static_cast<int64_t>(s.tokens.size());
  run_copies();
  // the K/V come before the commit
  for (size_t i = 0; i < written.size() && length + static_cast<int64_t>(i) < s.room; ++i) {
    s.tokens.push_back(written[i]);
    const auto position = static_cast<int64_t>(s.tokens.size()) - 1;
    pages_[s.row[static_cast<size_t>(position / page_size_)]]
        .kv[static_cast<size_t>(position % page_size_)] = history(s, static_cast<size_t>(position));
  }
  names_.fail_at = -1;
  const Status status = pool_.commit(s.id, written, merge);
  const bool waits = !written.empty() && length < s.room &&
                     incomplete(s.row[static_cast<size_t>(length / page_size_)]);
  if (length + static_cast<int64_t>(written.size()) > s.room || waits) {
    s.tokens.resize(static_cast<size_t>(length));
    return expect_unchanged(status, Errc::invalid_argument, before);
  }
  checked(status);
  for (int64_t end = (length / page_size_ + 1) * page_size_;
       end <= static_cast<int64_t>(s.tokens.size()); end += page_size_) {
    if (!options_.prefix_reuse) break;
    const auto position = static_cast<size_t>(end / page_size_ - 1);
    const Content content{enter_page(s, position),
                          {s.tokens.begin() + (end - page_size_), s.tokens.begin() + end}};
    int name = find_content(content.parent, content.tokens);
    if (name == 0) {
      name = static_cast<int>(contents_.size());
      contents_.push_back(content);
      if (options_.event_capacity != 0) named_.insert(name);  // for its event
      eviction_.created(name, pool::PoolInspection::record(pool_, s.row[position]).hash);
    } else if (merge == Merge::allowed && s.steps.empty()) {
      const uint32_t own = s.row[position];
      s.row[position] = pool_row(s, s.row.size())[position];
      RC_ASSERT(s.row[position] != own);
      RC_ASSERT(pages_[s.row[position]].content == name);
      ++pages_[s.row[position]].references;
      pages_[own].content = name;
      times_[own] = {taken_pages_, taken_pages_};
      drop(own, {});
      continue;
    }
    for (uint32_t page = 0; page < options_.num_pages; ++page) {
      // the held one answers from now on
      if (pages_[page].content == name && !held(page)) pages_[page].content = 0;
    }
    pages_[s.row[position]].content = name;
    times_[s.row[position]] = {taken_pages_, taken_pages_};
  }
  check();
}

void PoolModel::clear() {
  const std::vector<std::byte> before = memory_.snapshot();
  const Status status = pool_.clear();
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    if (held(page)) return expect_unchanged(status, Errc::busy, before);
  }
  checked(status);
  for (Page& page : pages_) page.content = 0;
  check();
}

void PoolModel::drop_pages(Sequence& s, size_t keep) {
  while (s.row.size() > keep) {
    const uint32_t page = s.row.back();
    s.row.pop_back();
    drop(page, s.steps);
  }
}

void PoolModel::trim(size_t sequence, int32_t length, CutItems items) {
  Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const Status status = pool_.trim(s.id, length, items);
  if (length < 0 || length > static_cast<int64_t>(s.tokens.size()))
    return expect_unchanged(status, Errc::invalid_argument, before);
  checked(status);
  items_.cut(s.items, length, items);
  if (length < s.room) s.trimmed = length % page_size_ != 0;
  s.tokens.resize(static_cast<size_t>(length));
  s.room = length;
  drop_pages(s, pages_for(length));
  check();
}

void PoolModel::fork(size_t sequence, int32_t length) {
  const std::vector<std::byte> before = memory_.snapshot();
  Result<SequenceId> id = pool_.fork(sequences_[sequence].id, length);
  Sequence child = sequences_[sequence];
  if (length < 0 || length > static_cast<int64_t>(child.tokens.size())) {
    return expect_unchanged(id.error(), Errc::invalid_argument, before);
  }
  const bool cut = length % page_size_ != 0;
  if (sequences_.size() == options_.max_sequences || (cut && available() == 0)) {
    return expect_unchanged(id.error(), Errc::out_of_pages, before);
  }
  child.id = checked(std::move(id));
  child.row_start = checked(pool_.row_start(child.id));
  child.tokens.resize(static_cast<size_t>(length));
  child.room = length;
  child.steps.clear();
  child.trimmed = child.starting = false;
  RC_ASSERT(open_space(child.space) == child.space_content);
  items_.share(child.items, length);
  child.row.resize(pages_for(length));
  if (cut) child.row.pop_back();
  for (const uint32_t page : child.row) ++pages_[page].references;
  if (cut) {
    const uint32_t from = sequences_[sequence].row[child.row.size()];
    child.row = pool_row(child, pages_for(length));
    take(child.row.back());
    expect_copy(from, child.row.back(), static_cast<int32_t>(length % page_size_));
  }
  sequences_.push_back(std::move(child));
  check();
}

void PoolModel::give_up(Sequence& s) {
  keep_tail(s);
  std::vector<int> contents;
  for (size_t p = 0; p < s.tokens.size() / static_cast<size_t>(page_size_); ++p)
    contents.push_back(pages_[s.row[p]].content);
  if (keeps()) retention_.give_up(contents, page_size_, s.wish);
  const auto eighths = static_cast<int>(contents.size() * 8 / options_.max_pages_per_sequence);
  for (const int content : contents) eviction_.given_up(content, std::min(eighths, 7));
  drop_pages(s, 0);
  items_.close(s.items);
}

void PoolModel::release(size_t sequence) {
  Sequence& s = sequences_[sequence];
  checked(pool_.release(s.id));
  give_up(s);
  close_space(s.space);
  RC_ASSERT(pool_row(s, 0).empty());
  stale_.push_back(s.id);
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(sequence));
  check();
}

// ---- Ids that name nothing

void PoolModel::use_stale_ids(int32_t tokens) {
  const std::vector<std::byte> before = memory_.snapshot();
  std::vector<SequenceId> ids = stale_;
  ids.push_back({});
  ids.push_back({options_.max_sequences, 1});
  const std::vector<TokenId> written(static_cast<size_t>(tokens), 1);
  for (const SequenceId id : ids) {
    expect_unchanged(pool_.reserve(id, tokens), Errc::invalid_argument, before);
    expect_unchanged(pool_.commit(id, written), Errc::invalid_argument, before);
    expect_unchanged(pool_.trim(id, 0), Errc::invalid_argument, before);
    expect_unchanged(pool_.fork(id, 0).error(), Errc::invalid_argument, before);
    expect_unchanged(pool_.release(id), Errc::invalid_argument, before);
    expect_unchanged(pool_.preempt(id), Errc::invalid_argument, before);
    const TokenId token = 1;
    expect_unchanged(pool_.resume(id, {&token, 1}).error(), Errc::invalid_argument, before);
    expect_unchanged(pool_.explain(id, tokens).error(), Errc::invalid_argument, before);
    SequenceId child;
    expect_unchanged(pool_.fork(id, 0, {&child, 1}), Errc::invalid_argument, before);
    std::vector<ReserveRequest> requests{{id, tokens}};
    for (const Sequence& s : sequences_) requests.insert(requests.begin(), {s.id, tokens});
    expect_unchanged(pool_.reserve(requests), Errc::invalid_argument, before);
    expect_unchanged(pool_.length(id).error(), Errc::invalid_argument, before);
    expect_unchanged(pool_.row_start(id).error(), Errc::invalid_argument, before);
    expect_unchanged(pool_.name(id, tokens).error(), Errc::invalid_argument, before);
    std::vector<SequenceId> some{id};
    for (const Sequence& s : sequences_) some.insert(some.begin(), s.id);
    expect_unchanged(pool_.begin_step(some).error(), Errc::invalid_argument, before);
    expect_unchanged(pool_.keep_path(some, 0), Errc::invalid_argument, before);
  }
}

}  // namespace folio::test
