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

void PoolModel::admit(const std::vector<TokenId>& prompt, const Space& space,
                      const NaiveWish& wish) {
  const std::vector<std::byte> before = memory_.snapshot();
  const SequenceOptions options{.salt = space.salt,
                                .adapter = space.adapter,
                                .retention = wish.ranges,
                                .decode_retention = wish.decode};
  const std::vector<int> chain = match(prompt, space);
  const auto [partial, partial_tokens] = match_partial(chain, prompt, space);
  const int64_t cached = static_cast<int64_t>(chain.size()) * page_size_ + partial_tokens;
  if (!prompt.empty()) RC_ASSERT(pool_.peek(prompt, options) == cached);
  RC_ASSERT(memory_.snapshot() == before);

  Result<Admission> admission = pool_.admit(prompt, options);
  if (prompt.empty()) return expect_unchanged(admission.error(), Errc::invalid_argument, before);
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
    const Content content{position == 0 ? s.space_content : pages_[s.row[position - 1]].content,
                          {s.tokens.begin() + (end - page_size_), s.tokens.begin() + end}};
    int name = find_content(content.parent, content.tokens);
    if (name == 0) {
      name = static_cast<int>(contents_.size());
      contents_.push_back(content);
      if (options_.event_capacity != 0) named_.insert(name);  // for its event
      eviction_.created(name, PoolInspection::record(pool_, s.row[position]).hash);
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

void PoolModel::trim(size_t sequence, int32_t length) {
  Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const Status status = pool_.trim(s.id, length);
  if (length < 0 || length > static_cast<int64_t>(s.tokens.size()))
    return expect_unchanged(status, Errc::invalid_argument, before);
  checked(status);
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

// ---- Copies and steps

void PoolModel::take_copies() {
  run_copies();
  if (taken_hold_pages_) {
    for (const PageCopy& copy : taken_) {
      unhold_copy(copy.from);
      unhold_copy(copy.to);
    }
  }
  const std::span<const PageCopy> copies = pool_.take_copies();
  RC_ASSERT(std::is_permutation(copies.begin(), copies.end(), pending_.begin(), pending_.end()));
  pending_.clear();
  taken_.assign(copies.begin(), copies.end());  // the order is the pool's own business
  for (const PageCopy& copy : taken_) ++pages_[copy.to].copies;
  taken_hold_pages_ = true;
  copies_run_ = 0;
  check();
}

void PoolModel::begin_step(const std::vector<size_t>& sequences) {
  const std::vector<std::byte> before = memory_.snapshot();
  std::vector<SequenceId> ids;
  for (const size_t i : sequences) ids.push_back(sequences_[i].id);
  Result<StepTicket> ticket = pool_.begin_step(ids);
  if (steps_.size() == PagePool::max_unfinished_steps)
    return expect_unchanged(ticket.error(), Errc::busy, before);
  Step step;
  step.ticket = checked(std::move(ticket));
  for (const size_t i : sequences) {
    Sequence& s = sequences_[i];
    if (std::find(s.steps.begin(), s.steps.end(), step.ticket.value) == s.steps.end())
      s.steps.push_back(step.ticket.value);
    step.pages.insert(step.pages.end(), s.row.begin(), s.row.end());
    for (size_t t = 0; t < s.tokens.size(); ++t) {
      const uint32_t page = s.row[t / static_cast<size_t>(page_size_)];
      if (!incomplete(page))
        step.reads[{page, t % static_cast<size_t>(page_size_)}] = history(s, t);
    }
  }
  if (std::exchange(taken_hold_pages_, false)) {
    step.runs_copies = true;
    for (const PageCopy& copy : taken_) {
      for (const uint32_t page : {copy.from, copy.to}) {
        step.pages.push_back(page);
        hold_for_step(page, step.ticket.value);
        unhold_copy(page);
      }
    }
  }
  steps_.push_back(std::move(step));
  check();
}

void PoolModel::end_step(size_t index) {
  const Step step = steps_[index];
  if (step.runs_copies) run_copies();
  checked(pool_.end_step(step.ticket));
  const std::vector<std::byte> before = memory_.snapshot();
  expect_unchanged(pool_.end_step(step.ticket), Errc::invalid_argument, before);
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(index));
  for (Sequence& s : sequences_) std::erase(s.steps, step.ticket.value);
  std::vector<uint32_t> left;
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    if (std::erase(pages_[page].steps, step.ticket.value) != 0 && pages_[page].steps.empty())
      left.push_back(page);
  }
  std::sort(left.begin(), left.end(),
            [&](uint32_t a, uint32_t b) { return pages_[a].given_up < pages_[b].given_up; });
  for (const uint32_t page : left) settle(page);
  check();
}

// ---- Retention

void PoolModel::retain(const std::vector<TokenId>& prompt, const Space& space,
                       const std::vector<RetentionRange>& ranges) {
  const std::vector<std::byte> before = memory_.snapshot();
  const Result<int32_t> found =
      pool_.retain(prompt, {.salt = space.salt, .adapter = space.adapter, .retention = ranges});
  if (prompt.empty() || !keeps())
    return expect_unchanged(found.error(), Errc::invalid_argument, before);
  const std::vector<int> chain = match(prompt, space, 0);
  RC_ASSERT(*found == static_cast<int64_t>(chain.size()) * page_size_);
  wait_again(retention_.retain(chain, page_size_, ranges));
  check();
}

void PoolModel::advance_time(int64_t now_ms) {
  const std::vector<std::byte> before = memory_.snapshot();
  const Status status = pool_.advance_time(now_ms);
  if (now_ms < retention_.now()) return expect_unchanged(status, Errc::invalid_argument, before);
  checked(status);
  if (!keeps()) return expect_unchanged(status, Errc::ok, before);
  wait_again(retention_.advance(now_ms));
  check();
}

// ---- Names

/// Each content is named once, whichever page had it when it was asked for.
void PoolModel::name(size_t sequence, int32_t position, int fail_at) {
  const Sequence& s = sequences_[sequence];
  const auto full = static_cast<int64_t>(s.tokens.size()) / page_size_;
  const std::vector<std::byte> before = memory_.snapshot();
  const int calls = names_.calls;
  names_.fail_at = fail_at < 0 ? -1 : calls + fail_at;
  const Result<PageName> name = pool_.name(s.id, position);
  if (position < 0 || position >= full || !options_.prefix_reuse) {
    RC_ASSERT(names_.calls == calls);
    return expect_unchanged(name.error(), Errc::invalid_argument, before);
  }
  int32_t first = position + 1;
  while (first > 0 && !named_.contains(pages_[s.row[static_cast<size_t>(first) - 1]].content))
    --first;
  const int missing = position + 1 - first;
  const bool fails = fail_at >= 0 && fail_at < missing;
  RC_ASSERT(names_.calls - calls == (fails ? fail_at + 1 : missing));
  for (int i = 0; i < (fails ? fail_at : missing); ++i)
    named_.insert(pages_[s.row[static_cast<size_t>(first + i)]].content);
  if (fails && fail_at == 0) return expect_unchanged(name.error(), Errc::io, before);
  RC_ASSERT(name.error().code() == (fails ? Errc::io : Errc::ok));
  PageName expected;
  for (auto page = s.tokens.begin(); !fails && page <= s.tokens.begin() + position * page_size_;
       page += page_size_) {
    const PageName parent = expected;
    const bool is_first = page == s.tokens.begin();
    expected = NaiveNames::of(is_first ? nullptr : &parent, {page, page + page_size_}, s.space.salt,
                              s.space.adapter);
  }
  if (!fails) RC_ASSERT(*name == expected);
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
