// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model_hits.cpp: what of a prompt each group of the hybrid pool can serve.
#include <algorithm>
#include <utility>

#include "pool/checked.h"
#include "pool/group_model.h"
#include "pool/inspection.h"

namespace folio::test {

/// Whether every group has what it needs behind so many pages, position by position.
bool GroupModel::serves(const std::vector<uint32_t>& leading, uint32_t pages,
                        bool with_states) const {
  const pool::Groups& groups = pool::PoolInspection::groups(pool_);
  const int64_t size = options_.page_size, length = pages * size;
  for (uint32_t g = 1; g < num_groups(); ++g) {
    const GroupOptions& o = groups_[g];
    if (o.rule == GroupRule::state && !with_states) continue;
    for (int64_t t = 0; t < length; ++t) {
      const bool needed = o.rule == GroupRule::full ||
                          (o.rule == GroupRule::window && (t > length - o.window || t < o.sinks)) ||
                          (o.rule == GroupRule::chunked && t / o.chunk == length / o.chunk) ||
                          (o.rule == GroupRule::state && t == length - 1);
      if (needed && groups.companion(leading[static_cast<size_t>(t / size)], g) == pool::no_page)
        return false;
    }
  }
  return true;
}

GroupModel::Hit GroupModel::longest_hit(const std::vector<TokenId>& prompt,
                                        const std::vector<ContentSpan>& spans,
                                        bool in_pages) const {
  std::vector<int> contents = {beginning()};
  std::vector<uint32_t> leading;
  const auto size = static_cast<size_t>(options_.page_size);
  const auto before = [&](size_t position) {
    return items_.find(contents[position], spans, position);
  };
  while ((leading.size() + 1) * size < prompt.size() &&
         leading.size() < options_.max_pages_per_sequence) {
    const uint32_t page = find_page(before(leading.size()), prompt.data() + leading.size() * size);
    if (page == pool::no_page) break;
    leading.push_back(page);
    contents.push_back(content(pool::PoolInspection::record(pool_, page).content));
  }
  auto pages = static_cast<uint32_t>(leading.size());
  while (!serves(leading, pages, false)) --pages;
  const uint32_t without_states = pages;
  while (!serves(leading, pages, true)) --pages;
  const auto hit_of = [&](uint32_t count) {
    Hit hit{.contents = {contents.begin() + 1, contents.begin() + 1 + count},
            .tokens = static_cast<int32_t>(count) * options_.page_size};
    if (options_.min_partial_tokens != 0 && in_pages)
      add_partial(prompt, before(count), count == 0 ? pool::no_page : leading[count - 1], hit);
    return hit;
  };
  if (pages != without_states) {
    Hit hit = hit_of(without_states);
    hit.is_sure = true;
    leading.resize(without_states);
    if (hit.partial != 0 && has_copies(hit, leading)) return hit;
  }
  return hit_of(pages);
}

/// What the page that answers for the next tokens, and its companions, have of them.
void GroupModel::add_partial(const std::vector<TokenId>& prompt, int parent, uint32_t parent_page,
                             Hit& hit) const {
  const auto begin = static_cast<size_t>(hit.tokens);
  const size_t end = std::min(prompt.size() - 1, size_t{options_.max_pages_per_sequence} *
                                                     static_cast<size_t>(options_.page_size));
  if (end < begin + static_cast<size_t>(options_.min_partial_tokens)) return;
  const auto number = std::find_if(item_contents_.begin(), item_contents_.end(),
                                   [&](const auto& item) { return item.second == parent; });
  if (parent <= 0 && number == item_contents_.end()) return;  // nothing continues it
  const uint64_t content = parent > 0 ? static_cast<uint64_t>(parent) : number->first;
  const uint32_t page =
      pool::PoolInspection::heads(pool_).find(content, parent_page, prompt.data() + begin);
  if (page == pool::no_page) return;
  const pool::PageRecord& record = pool::PoolInspection::record(pool_, page);
  const size_t fill = record.is_tail ? record.fill : static_cast<size_t>(options_.page_size);
  const std::span<const TokenId> there = pool::PoolInspection::tokens(pool_, page);
  size_t equal = 0;
  while (equal < std::min(fill, end - begin) && there[equal] == prompt[begin + equal]) ++equal;
  for (uint32_t g = 1; g < num_groups(); ++g) {
    const bool state = groups_[g].rule == GroupRule::state;
    if (pool::PoolInspection::groups(pool_).companion(page, g) == pool::no_page) return;
    if (state && equal != fill) return;
  }
  hit.partial = static_cast<int32_t>(equal);
  hit.source = page;
}

/// Whether the copies of a hit that ends inside a page find pages, if each cached page that it
/// holds lay in a slab of its own.
bool GroupModel::has_copies(const Hit& hit, std::vector<uint32_t> leading) const {
  const pool::Groups& groups = pool::PoolInspection::groups(pool_);
  leading.push_back(hit.source);
  uint32_t needs[pool::max_groups] = {};
  uint64_t idle = 0;
  for (uint32_t g = 0; g < num_groups(); ++g) {
    needs[g] = groups_[g].rule == GroupRule::state ? 0 : 1;
    for (const uint32_t held : leading) {
      const uint32_t page = g == 0 ? held : groups.companion(held, g);
      if (page != pool::no_page && groups.slabs.has(g))
        idle += groups.slabs.use_of(g, page) == pool::PageUse::used ? 0 : 1;
    }
  }
  const PoolStats stats = pool_.stats();
  const auto held = std::count_if(leading.begin(), leading.end(), [&](uint32_t page) {
    return pool::is_evictable(pool::PoolInspection::record(pool_, page).list);
  });
  return groups.slabs.can_give(needs, idle) &&
         stats.free_pages + stats.cached_pages - stats.pinned_pages > held;
}

void GroupModel::admit(const std::vector<TokenId>& prompt, const std::vector<ContentSpan>& spans,
                       const NaiveWish& wish) {
  const SequenceOptions options{
      .retention = wish.ranges, .decode_retention = wish.decode, .spans = spans};
  const auto before = memory_.snapshot();
  const bool fails = prompt.empty() || !items_.allow(spans, prompt);
  const Hit expected = fails ? Hit() : longest_hit(prompt, spans);
  const int32_t peeked = pool_.peek(prompt, options);
  const GroupOrder order(pool_);
  const auto admission = pool_.admit(prompt, options);
  if (!admission) {
    RC_ASSERT(admission.error().code() == (fails ? Errc::invalid_argument : Errc::out_of_pages));
    RC_ASSERT(fails || sequences_.size() == options_.max_sequences);
    return expect_unchanged(before);
  }
  RC_ASSERT(!fails);
  const int32_t found = admission->cached_tokens;
  RC_ASSERT(peeked == expected.tokens || peeked == found);
  expect_found(expected, found);
  Sequence s;
  s.id = admission->id;
  s.items.spans = spans;
  s.wish = wish;
  s.wish.prompt = static_cast<int32_t>(prompt.size());
  start(s, prompt, found);
  expect_order(order, found);
  sequences_.push_back(std::move(s));
  check();
}

void GroupModel::start(Sequence& s, const std::vector<TokenId>& prompt, int32_t found) {
  s.tokens.assign(prompt.begin(), prompt.begin() + found);
  s.room = found;
  name_pages(s, 0);
  const bool has_item = !s.items.spans.empty() && s.items.spans.front().offset < found;
  item_hits += has_item ? 1 : 0;
  partial_item_hits += has_item && found % options_.page_size != 0 ? 1 : 0;
}

/// Behind whole pages, a call holds for a while what the window of the tokens that are copied has
/// left: then no look behind it knows what was spoken for.
void GroupModel::expect_order(const GroupOrder& order, int32_t found) {
  if (found < options_.page_size) gone_by_level += order.expect_kept_by(pool_);
}

void GroupModel::expect_found(const Hit& expected, int32_t found) {
  if (expected.partial != 0 && found == expected.tokens) {
    ++refused_partial_hits;
    return RC_ASSERT(!expected.is_sure && !has_copies(expected, {}));
  }
  partial_hits += expected.partial != 0 ? 1 : 0;
  RC_ASSERT(found == expected.tokens + expected.partial);
}

void GroupModel::resume(size_t sequence, const std::vector<TokenId>& prompt) {
  Sequence& s = sequences_[sequence];
  const bool has_pages = s.room != 0;
  const auto before = memory_.snapshot();
  const Hit expected = prompt.empty() ? Hit() : longest_hit(prompt, s.items.spans);
  const GroupOrder order(pool_);
  const auto admission = pool_.resume(s.id, prompt);
  RC_ASSERT(admission.has_value() == (!prompt.empty() && !has_pages));
  if (!admission) {
    RC_ASSERT(admission.error().code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  expect_found(expected, admission->cached_tokens);
  start(s, prompt, admission->cached_tokens);
  expect_order(order, admission->cached_tokens);
  check();
}

}  // namespace folio::test
