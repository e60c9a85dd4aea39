// SPDX-License-Identifier: Apache-2.0
/// pool/partial_hits.cpp: hits that end inside a page: the tokens that match are copied.
///
/// The page they come from is found by its head: a findable page, or a *tail*: the cut last page of
/// a released or preempted sequence. A tail has no content, so nothing can follow it and no
/// sequence holds it; it is cached like any other page and only ever copied from.
#include <algorithm>
#include <cstring>

#include "pool/lookup.h"
#include "pool/outside/shared_word.h"

namespace folio::inline v1::pool {
namespace {

int32_t equal_tokens(const TokenId* a, const TokenId* b, int32_t count) {
  return static_cast<int32_t>(std::mismatch(a, a + count, b).first - a);
}

}  // namespace

Lookup::PartialMatch Lookup::match_partial(const Match& match,
                                           std::span<const TokenId> prompt) const noexcept {
  const int64_t begin = int64_t{match.pages} * options.page_size;
  const int64_t end = std::min(static_cast<int64_t>(prompt.size()) - 1, max_tokens);
  if (match.content == 0 || end - begin < options.min_partial_tokens) return {};
  const TokenId* const wanted = prompt.data() + begin;
  const uint32_t page = heads.find(match.content, match.last, wanted);
  if (page == no_page) return {};
  const auto most = static_cast<int32_t>(std::min<int64_t>(end - begin, fill_of(page)));
  const int32_t count = equal_tokens(tokens_of(page), wanted, most);
  if (!answers_partial(page, count)) return {};
  return {page, count};
}

int32_t Lookup::peek_partial(uint32_t space, const Match& match, std::span<const TokenId> prompt,
                             std::span<const ContentSpan> spans) const noexcept {
  if (space == no_namespace) return 0;
  const PartialMatch partial = match_partial(match, prompt);
  if (partial.tokens == 0) return 0;
  // The copy needs a page that is neither its source nor among the pages that match.
  const auto counts = [&](uint32_t page) { return is_evictable(records[page].list) ? 1U : 0U; };
  uint32_t held = counts(partial.page);
  uint64_t revived = 0;
  if (groups.active() || available() <= held + match.pages) {
    Before before = beginning(space);
    for (uint32_t p = 0; p < match.pages; ++p) {
      const TokenId* const wanted = prompt.data() + int64_t{p} * options.page_size;
      before = items.find(before, p, spans);
      const uint32_t page = index.find(before.content, index.hash(before.hash, wanted), wanted);
      held += counts(page);
      revived += idle_pages(page);
      before = {records[page].content, records[page].hash};
    }
  }
  GroupNeeds needs = {};
  if (!can_copy_groups(partial.page, revived, needs)) return 0;
  return available() > held ? partial.tokens : 0;
}

void Lookup::admit_partial(SequenceRecord& s, const Match& match,
                           std::span<const TokenId> prompt) noexcept {
  uint32_t* const pages = row(s);
  const PartialMatch partial = match_partial(match, prompt);
  if (partial.tokens == 0) return;
  PageRecord& from = records[partial.page];
  if (available() == (is_evictable(from.list) ? 1U : 0U)) return;
  if (!can_copy_groups(partial.page, 0, groups.needs)) {
    std::fill(std::begin(groups.needs), std::end(groups.needs), 0);
    return;
  }
  pin(partial.page);  // before a page is taken: it must not be this one
  if (ages.on()) ages.found(partial.page);
  copy_companions(s, partial.page, partial.tokens);
  pages[s.pages++] = copy_page(partial.page, partial.tokens);
  from.unpin();  // the copy holds it, too
  with_policy([&](auto& policy) { policy.found(partial.page); });
  s.length = s.room = s.length + partial.tokens;
  for (Group& group : groups.companions()) move_window(s, group);
  counters.hit_tokens_partial += partial.tokens;
}

void Lookup::add_heads(const SequenceRecord& s, uint32_t first, uint32_t last,
                       uint64_t known) noexcept {
  const uint32_t* const pages = row(s);
  for (uint32_t p = first; p < last; ++p)
    if (records[pages[p]].content > known) heads.add(pages[p], parent_page(s, p));
}

void Lookup::keep_tail(const SequenceRecord& s) noexcept {
  const int32_t fill = s.length % options.page_size;
  if (fill < options.min_partial_tokens) return;
  const int32_t position = s.length / options.page_size;
  const uint32_t* const pages = row(s);
  const uint32_t page = pages[position];
  PageRecord& record = records[page];
  // A trimmed page that has a content is found by it; one that awaits a copy has no K/V yet; one
  // that forks share is still to be written by others.
  if (record.content != 0 || record.awaits_copy || record.references != 1) return;
  const auto place = static_cast<uint32_t>(position);
  const uint64_t parent = enter_page(s, place).content;
  publish(record.parent, parent);
  const uint32_t other = heads.find(parent, parent_page(s, place), tokens_of(page));
  if (other != no_page) {
    const int32_t fill_there = fill_of(other), both = std::min(fill, fill_there);
    if (equal_tokens(tokens_of(other), tokens_of(page), both) == both) {
      const bool is_tail = records[other].is_tail;
      // it answers for everything that this one could
      if (fill_there >= fill && answers_partial(other, is_tail ? fill_there : fill)) return;
      if (is_tail) give_up_tail(other);
    }
  }
  publish(record.hash, heads.hash(parent, tokens_of(page)));
  record.fill = static_cast<uint32_t>(fill);
  record.use = 0;
  record.is_tail = true;
  keep_group_tail(s, page);
  with_policy([&](auto& policy) { policy.created(page); });
  heads.add(page, parent_page(s, place));
  ages.stored(page);
}

}  // namespace folio::inline v1::pool
