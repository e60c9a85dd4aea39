// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model.cpp: the naive pool. Everything is recomputed, nothing is fast.
#include "pool/pool_model.h"

#include <algorithm>
#include <utility>

#include <rapidcheck.h>

namespace folio::test {

namespace {

template <class T>
T checked(Result<T> result) {
  RC_ASSERT(result.error().message() == std::string_view());
  return std::move(*result);
}

void checked(const Status& status) { RC_ASSERT(status.message() == std::string_view()); }

}  // namespace

PoolModel::PoolModel(const PoolOptions& options)
    : options_(memory_.hooked(options)),
      page_size_(options.page_size),
      pool_(checked(PagePool::create(options_))) {
  if (options_.max_pages_per_sequence == 0) options_.max_pages_per_sequence = options_.num_pages;
  pages_.resize(options_.num_pages);
  for (Page& page : pages_) page.kv.assign(static_cast<size_t>(page_size_), 0);
  table_ = pool_.table();
  check();
}

// ---- The K/V memory

uint64_t PoolModel::history(const Sequence& s, size_t position) const {
  uint64_t h = 0x9e3779b97f4a7c15u ^ s.space.adapter;
  for (const char c : s.space.salt) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  for (size_t i = 0; i <= position; ++i)
    h = (h ^ static_cast<uint64_t>(s.tokens[i] + 7)) * 0x100000001b3u + (h >> 29);
  return h | 1;
}

void PoolModel::run_copies() {
  for (; copies_run_ < taken_.size(); ++copies_run_) {
    const PageCopy& copy = taken_[copies_run_];
    std::copy_n(pages_[copy.from].kv.begin(), copy.tokens, pages_[copy.to].kv.begin());
  }
}

bool PoolModel::incomplete(uint32_t page) const {
  const auto into = [&](const PageCopy& copy) { return copy.to == page; };
  return std::any_of(pending_.begin(), pending_.end(), into) ||
         std::any_of(taken_.begin() + static_cast<std::ptrdiff_t>(copies_run_), taken_.end(), into);
}

// ---- Pages

bool PoolModel::held(uint32_t page) const {
  return pages_[page].references != 0 || pages_[page].copies != 0 || !pages_[page].steps.empty();
}

bool PoolModel::has_twin(uint32_t page) const {
  return std::count_if(pages_.begin(), pages_.end(), [&](const Page& other) {
           return other.content == pages_[page].content;
         }) > 1;
}

int64_t PoolModel::available() const {
  int64_t count = 0;
  for (uint32_t page = 0; page < options_.num_pages; ++page) count += held(page) ? 0 : 1;
  return count;
}

/// The pool has chosen `page` for new tokens: it must be free, or the longest cached one where none
/// is free.
void PoolModel::take(uint32_t page) {
  RC_ASSERT(page < options_.num_pages);
  RC_ASSERT(!held(page));
  for (const Step& step : steps_)
    RC_ASSERT(std::find(step.pages.begin(), step.pages.end(), page) == step.pages.end());
  if (pages_[page].content != 0) {
    for (uint32_t other = 0; other < options_.num_pages; ++other) {
      if (held(other) || other == page) continue;
      RC_ASSERT(pages_[other].content != 0);
      RC_ASSERT(pages_[page].cached_since < pages_[other].cached_since);
    }
    ++stats_.evicted_pages;
  }
  pages_[page].content = 0;
  pages_[page].references = 1;
  std::fill(pages_[page].kv.begin(), pages_[page].kv.end(), 0);
}

void PoolModel::drop(uint32_t page, const std::vector<uint64_t>& steps) {
  for (const uint64_t ticket : steps) hold_for_step(page, ticket);
  if (--pages_[page].references != 0) return;
  const auto into = std::find_if(pending_.begin(), pending_.end(),
                                 [&](const PageCopy& copy) { return copy.to == page; });
  if (into != pending_.end()) {
    const uint32_t from = into->from;
    pending_.erase(into);
    unhold_copy(from);
  }
  settle(page);
}

void PoolModel::hold_for_step(uint32_t page, uint64_t ticket) {
  std::vector<uint64_t>& steps = pages_[page].steps;
  if (std::find(steps.begin(), steps.end(), ticket) == steps.end()) steps.push_back(ticket);
  pages_[page].given_up = ++clock_;
}

void PoolModel::settle(uint32_t page) {
  if (held(page)) return;
  if (pages_[page].content != 0 && has_twin(page)) pages_[page].content = 0;
  pages_[page].cached_since = ++clock_;
}

void PoolModel::expect_copy(uint32_t from, uint32_t to, int32_t tokens) {
  for (const PageCopy& copy : pending_) {
    if (copy.to == from) from = copy.from;
  }
  ++pages_[from].copies;
  pending_.push_back({from, to, tokens});
}

void PoolModel::unhold_copy(uint32_t page) {
  --pages_[page].copies;
  settle(page);
}

// ---- Contents

/// The content that continues `parent` with `tokens` and that some page has, or 0.
int PoolModel::find_content(int parent, const std::vector<TokenId>& tokens) const {
  for (const Page& page : pages_) {
    const Content& content = contents_[static_cast<size_t>(page.content)];
    if (page.content != 0 && content.parent == parent && content.tokens == tokens)
      return page.content;
  }
  return 0;
}

std::vector<int> PoolModel::match(const std::vector<TokenId>& prompt, const Space& space) const {
  std::vector<int> chain;
  const auto known = std::find_if(spaces_.begin(), spaces_.end(),
                                  [&](const KnownSpace& s) { return s.space == space; });
  if (known == spaces_.end() || !options_.prefix_reuse) return chain;
  int parent = known->content;
  for (auto begin = prompt.begin(); prompt.end() - begin > page_size_; begin += page_size_) {
    if (chain.size() == options_.max_pages_per_sequence) break;
    parent = find_content(parent, {begin, begin + page_size_});
    if (parent == 0) break;
    chain.push_back(parent);
  }
  return chain;
}

int PoolModel::open_space(const Space& space) {
  auto known = std::find_if(spaces_.begin(), spaces_.end(),
                            [&](const KnownSpace& s) { return s.space == space; });
  if (known == spaces_.end()) {
    if (spaces_.size() == size_t{options_.max_sequences} + options_.max_namespaces) {
      auto oldest = spaces_.end();
      for (auto at = spaces_.begin(); at != spaces_.end(); ++at) {
        if (at->users == 0 && (oldest == spaces_.end() || at->idle_since < oldest->idle_since))
          oldest = at;
      }
      spaces_.erase(oldest);
    }
    contents_.push_back({});
    known = spaces_.insert(spaces_.end(), {space, static_cast<int>(contents_.size()) - 1});
  }
  ++known->users;
  return known->content;
}

void PoolModel::close_space(const Space& space) {
  const auto known = std::find_if(spaces_.begin(), spaces_.end(),
                                  [&](const KnownSpace& s) { return s.space == space; });
  --known->users;
  known->idle_since = ++clock_;
}

// ---- Calls

void PoolModel::admit(const std::vector<TokenId>& prompt, const Space& space) {
  const std::vector<std::byte> before = memory_.snapshot();
  const SequenceOptions options{.salt = space.salt, .adapter = space.adapter};
  const std::vector<int> chain = match(prompt, space);
  if (!prompt.empty())
    RC_ASSERT(pool_.peek(prompt, options) == static_cast<int64_t>(chain.size()) * page_size_);
  RC_ASSERT(memory_.snapshot() == before);

  Result<Admission> admission = pool_.admit(prompt, options);
  if (prompt.empty()) return expect_unchanged(admission.error(), Errc::invalid_argument, before);
  if (sequences_.size() == options_.max_sequences)
    return expect_unchanged(admission.error(), Errc::out_of_pages, before);
  const Admission given = checked(std::move(admission));
  RC_ASSERT(given.cached_tokens == static_cast<int64_t>(chain.size()) * page_size_);
  RC_ASSERT(given.cached_tokens < static_cast<int64_t>(prompt.size()));

  Sequence s;
  s.id = given.id;
  s.row_start = checked(pool_.row_start(given.id));
  s.space = space;
  s.space_content = open_space(space);
  s.tokens.assign(prompt.begin(), prompt.begin() + given.cached_tokens);
  s.room = given.cached_tokens;
  s.row = pool_row(s, chain.size());
  for (size_t i = 0; i < chain.size(); ++i) {
    RC_ASSERT(s.row[i] < options_.num_pages);
    RC_ASSERT(pages_[s.row[i]].content == chain[i]);
    ++pages_[s.row[i]].references;
  }
  stats_.lookup_pages += (static_cast<int64_t>(prompt.size()) - 1) / page_size_;
  stats_.hit_pages += static_cast<int64_t>(chain.size());
  stats_.hit_tokens += given.cached_tokens;
  sequences_.push_back(std::move(s));
  check();
}

void PoolModel::reserve(size_t sequence, int32_t new_tokens) {
  Sequence& s = sequences_[sequence];
  const std::vector<std::byte> before = memory_.snapshot();
  const Status status = pool_.reserve(s.id, new_tokens);
  const int64_t length = static_cast<int64_t>(s.tokens.size()), end = length + new_tokens;
  if (new_tokens < 0 || end > int64_t{options_.max_pages_per_sequence} * page_size_) {
    return expect_unchanged(status, Errc::invalid_argument, before);
  }
  if (end <= s.room) return expect_unchanged(status, Errc::ok, before);

  const auto fresh = static_cast<int64_t>(pages_for(end) - s.row.size());
  const uint32_t last = s.trimmed ? s.row.back() : 0;
  bool copy = false, forget = false;
  if (s.trimmed) {
    const Page& page = pages_[last];
    const bool alone =
        page.references == 1 && page.copies == 0 && page.steps.empty() && s.steps.empty();
    forget = alone && page.content != 0 && (has_twin(last) || available() <= fresh);
    copy = !alone || (page.content != 0 && !forget);
  }
  if (fresh + (copy ? 1 : 0) > available())
    return expect_unchanged(status, Errc::out_of_pages, before);
  checked(status);
  const std::vector<uint32_t> row = pool_row(s, pages_for(end));
  if (forget) pages_[last].content = 0;
  if (copy) {
    take(s.row.back() = row[s.row.size() - 1]);
    expect_copy(last, s.row.back(), static_cast<int32_t>(length % page_size_));
    drop(last, s.steps);
  }
  s.trimmed = false;
  while (s.row.size() < row.size()) {
    take(row[s.row.size()]);
    s.row.push_back(row[s.row.size()]);
  }
  s.room = end;
  check();
}

void PoolModel::commit(size_t sequence, const std::vector<TokenId>& written) {
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
  const Status status = pool_.commit(s.id, written);
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
    }
    for (uint32_t page = 0; page < options_.num_pages; ++page) {
      // the held one answers from now on
      if (pages_[page].content == name && !held(page)) pages_[page].content = 0;
    }
    pages_[s.row[position]].content = name;
  }
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
  child.trimmed = false;
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

void PoolModel::release(size_t sequence) {
  Sequence& s = sequences_[sequence];
  checked(pool_.release(s.id));
  drop_pages(s, 0);
  close_space(s.space);
  RC_ASSERT(pool_row(s, 0).empty());
  stale_.push_back(s.id);
  sequences_.erase(sequences_.begin() + static_cast<std::ptrdiff_t>(sequence));
  check();
}

void PoolModel::take_copies() {
  run_copies();
  if (taken_hold_pages_) {
    for (const PageCopy& copy : taken_) {
      unhold_copy(copy.from);
      unhold_copy(copy.to);
    }
  }
  const std::span<const PageCopy> copies = pool_.take_copies();
  RC_ASSERT(std::vector<PageCopy>(copies.begin(), copies.end()) == pending_);
  taken_ = std::exchange(pending_, {});
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
    expect_unchanged(pool_.length(id).error(), Errc::invalid_argument, before);
    expect_unchanged(pool_.row_start(id).error(), Errc::invalid_argument, before);
    std::vector<SequenceId> some{id};
    for (const Sequence& s : sequences_) some.insert(some.begin(), s.id);
    expect_unchanged(pool_.begin_step(some).error(), Errc::invalid_argument, before);
  }
}

// ---- Comparing

std::vector<uint32_t> PoolModel::pool_row(const Sequence& s, size_t pages) const {
  const uint32_t* first = table_.entries + s.row_start;
  for (auto i = static_cast<int64_t>(pages); i < table_.row_stride; ++i)
    RC_ASSERT(first[i] == options_.num_pages);
  return {first, first + pages};
}

void PoolModel::expect_unchanged(const Status& status, Errc code,
                                 const std::vector<std::byte>& before) const {
  RC_ASSERT(status.code() == code);
  RC_ASSERT(memory_.snapshot() == before);
}

void PoolModel::check() const {
  checked(pool_.check_invariants());
  RC_ASSERT(pool_.table().entries == table_.entries);
  RC_ASSERT(pool_.table().row_stride == table_.row_stride);
  PoolStats expected = stats_;
  const PoolStats stats = pool_.stats();
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    ++(held(page)                  ? expected.used_pages
       : pages_[page].content != 0 ? expected.cached_pages
                                   : expected.free_pages);
  }
  expected.sequences = static_cast<int64_t>(sequences_.size());
  expected.unfinished_steps = static_cast<int64_t>(steps_.size());
  RC_ASSERT(stats.peak_used_pages >= expected.used_pages);
  expected.peak_used_pages = stats.peak_used_pages;
  RC_ASSERT(stats == expected);
  for (const Sequence& s : sequences_) {
    RC_ASSERT(checked(pool_.length(s.id)) == static_cast<int64_t>(s.tokens.size()));
    RC_ASSERT(checked(pool_.row_start(s.id)) == s.row_start);
    RC_ASSERT(pool_row(s, s.row.size()) == s.row);
    for (size_t t = 0; t < s.tokens.size(); ++t) {
      const uint32_t page = s.row[t / static_cast<size_t>(page_size_)];
      if (!incomplete(page))
        RC_ASSERT(pages_[page].kv[t % static_cast<size_t>(page_size_)] == history(s, t));
    }
  }
  for (const Step& step : steps_) {
    for (const auto& [slot, value] : step.reads)
      RC_ASSERT(pages_[slot.first].kv[slot.second] == value);
  }
  RC_ASSERT(memory_.living.size() == 1U);
  RC_ASSERT(memory_.wrong_frees == 0);
}

}  // namespace folio::test
