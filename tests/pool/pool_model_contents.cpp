// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_contents.cpp: what the pages of the naive pool contain: how it is found,
/// kept and named.
#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/inspection.h"
#include "pool/pool_model.h"

namespace folio::test {

/// The content that continues `parent` with `tokens` and that some page has, or 0.
int PoolModel::find_content(int parent, const std::vector<TokenId>& tokens) const {
  for (const Page& page : pages_) {
    const Content& content = contents_[static_cast<size_t>(page.content)];
    if (page.content != 0 && content.parent == parent && content.tokens == tokens)
      return page.content;
  }
  return 0;
}

std::vector<int> PoolModel::match(const std::vector<TokenId>& prompt, const Space& space,
                                  const std::vector<ContentSpan>& spans, int64_t spare) const {
  std::vector<int> chain;
  const auto known = std::find_if(spaces_.begin(), spaces_.end(),
                                  [&](const KnownSpace& s) { return s.space == space; });
  if (known == spaces_.end() || !options_.prefix_reuse) return chain;
  int parent = known->content;
  for (auto begin = prompt.begin(); prompt.end() - begin >= page_size_ + spare;
       begin += page_size_) {
    if (chain.size() == options_.max_pages_per_sequence) break;
    parent = find_content(items_.find(parent, spans, chain.size()), {begin, begin + page_size_});
    if (parent == 0) break;
    chain.push_back(parent);
  }
  return chain;
}

int PoolModel::find_head(int parent, const TokenId* tokens) const {
  int last = 0;
  for (const Page& page : pages_) {
    const Content& content = contents_[static_cast<size_t>(page.content)];
    if (page.content != 0 && content.parent == parent &&
        std::equal(tokens, tokens + options_.min_partial_tokens, content.tokens.begin()))
      last = std::max(last, page.content);
  }
  return last;
}

std::pair<int, int64_t> PoolModel::match_partial(const std::vector<int>& chain,
                                                 const std::vector<TokenId>& prompt,
                                                 const Space& space,
                                                 const std::vector<ContentSpan>& spans) const {
  const auto known = std::find_if(spaces_.begin(), spaces_.end(),
                                  [&](const KnownSpace& s) { return s.space == space; });
  if (known == spaces_.end() || options_.min_partial_tokens == 0) return {};
  const auto begin = static_cast<int64_t>(chain.size()) * page_size_;
  const auto end = std::min<int64_t>(std::ssize(prompt) - 1,
                                     int64_t{options_.max_pages_per_sequence} * page_size_);
  if (end - begin < options_.min_partial_tokens) return {};
  const int parent =
      items_.find(chain.empty() ? known->content : chain.back(), spans, chain.size());
  const int content = find_head(parent, prompt.data() + begin);
  if (content == 0) return {};
  const std::vector<TokenId>& there = contents_[static_cast<size_t>(content)].tokens;
  const int64_t most = std::min(end - begin, static_cast<int64_t>(there.size()));
  const auto equal = std::mismatch(there.begin(), there.begin() + most, prompt.begin() + begin);
  // The copy needs a page that is neither its source nor one of the chain.
  int64_t left = available();
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    const int c = pages_[page].content;
    const bool found = c == content || std::find(chain.begin(), chain.end(), c) != chain.end();
    const bool is_pinned = c != 0 && level(page) == retention_level::pinned;
    if (c != 0 && found && !held(page) && !is_pinned) --left;
  }
  if (left == 0) return {};
  return {content, equal.first - there.begin()};
}

uint32_t PoolModel::copied_page(int content) const {
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    const pool::PageRecord& record = pool::PoolInspection::record(pool_, page);
    if (pages_[page].content == content && (record.findable || record.is_tail)) return page;
  }
  RC_FAIL("no page answers for a content");
}

/// The cut last page of a sequence that has given up its pages gets a content of its own, unless
/// another sequence has it or another page answers for all that this one could.
void PoolModel::keep_tail(Sequence& s) {
  const auto fill = static_cast<std::ptrdiff_t>(std::ssize(s.tokens) % page_size_);
  if (options_.min_partial_tokens == 0 || fill < options_.min_partial_tokens) return;
  const auto position = s.tokens.size() / static_cast<size_t>(page_size_);
  const uint32_t page = s.row[position];
  const bool waits = std::any_of(pending_.begin(), pending_.end(),
                                 [&](const PageCopy& copy) { return copy.to == page; });
  if (pages_[page].content != 0 || pages_[page].references != 1 || waits) return;
  const int parent = enter_page(s, position);
  const std::vector<TokenId> tokens(s.tokens.end() - fill, s.tokens.end());
  const int other = find_head(parent, tokens.data());
  const std::vector<TokenId>& there = contents_[static_cast<size_t>(other)].tokens;
  const auto both = std::min(fill, std::ssize(there));
  if (other != 0 && std::equal(there.begin(), there.begin() + both, tokens.begin())) {
    if (std::ssize(there) >= fill) return;
    for (Page& shorter : pages_) {
      if (shorter.content == other) shorter.content = 0;
    }
  }
  pages_[page].content = static_cast<int>(contents_.size());
  contents_.push_back({parent, tokens});
  times_[page] = {taken_pages_, taken_pages_};
  eviction_.created(pages_[page].content, pool::PoolInspection::record(pool_, page).hash);
}

// ---- Retention

void PoolModel::retain(const std::vector<TokenId>& prompt, const Space& space,
                       const std::vector<RetentionRange>& ranges,
                       const std::vector<ContentSpan>& spans) {
  const std::vector<std::byte> before = memory_.snapshot();
  const Result<int32_t> found = pool_.retain(
      prompt, {.salt = space.salt, .adapter = space.adapter, .retention = ranges, .spans = spans});
  if (prompt.empty() || !keeps() || !items_.allow(spans, prompt))
    return expect_unchanged(found.error(), Errc::invalid_argument, before);
  const std::vector<int> chain = match(prompt, space, spans, 0);
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
  // With items, those that the function was told of last lie in the pool's memory.
  if (fails && fail_at == 0 && options_.max_spans == 0)
    return expect_unchanged(name.error(), Errc::io, before);
  RC_ASSERT(name.error().code() == (fails ? Errc::io : Errc::ok));
  PageName expected;
  for (auto page = s.tokens.begin(); !fails && page <= s.tokens.begin() + position * page_size_;
       page += page_size_) {
    const PageName parent = expected;
    const auto at = static_cast<size_t>(page - s.tokens.begin());
    expected = NaiveNames::of(at == 0 ? nullptr : &parent, {page, page + page_size_}, s.space.salt,
                              s.space.adapter,
                              items_.touching(s.items.spans, at / static_cast<size_t>(page_size_)));
  }
  if (!fails) RC_ASSERT(*name == expected);
  check();
}

}  // namespace folio::test
