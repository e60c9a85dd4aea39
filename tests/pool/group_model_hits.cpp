// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model_hits.cpp: what of a prompt each group of the hybrid pool can serve.
#include <algorithm>

#include "pool/checked.h"
#include "pool/group_model.h"
#include "pool/inspection.h"

namespace folio::test {

/// Whether every group has what it needs behind so many pages, position by position.
bool GroupModel::serves(const std::vector<uint32_t>& leading, uint32_t pages,
                        bool with_states) const {
  const pool::Groups& groups = PoolInspection::groups(pool_);
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

GroupModel::Hit GroupModel::longest_hit(const std::vector<TokenId>& prompt, bool in_pages) const {
  const pool::PrefixIndex& index = PoolInspection::index(pool_);
  const pool::Namespaces& spaces = PoolInspection::namespaces(pool_);
  const uint32_t space = spaces.find({}, 0);
  if (space == pool::no_namespace) return {};
  std::vector<uint64_t> contents = {spaces[space].content};
  uint32_t hash = spaces[space].hash;
  std::vector<uint32_t> leading;
  const auto size = static_cast<size_t>(options_.page_size);
  while ((leading.size() + 1) * size < prompt.size() &&
         leading.size() < options_.max_pages_per_sequence) {
    const TokenId* const tokens = prompt.data() + leading.size() * size;
    hash = index.hash(hash, tokens);
    const uint32_t page = index.find(contents.back(), hash, tokens);
    if (page == pool::no_page) break;
    leading.push_back(page);
    contents.push_back(PoolInspection::record(pool_, page).content);
  }
  auto pages = static_cast<uint32_t>(leading.size());
  while (!serves(leading, pages, false)) --pages;
  const uint32_t without_states = pages;
  while (!serves(leading, pages, true)) --pages;
  const auto hit_of = [&](uint32_t count) {
    Hit hit{.tokens = static_cast<int32_t>(count) * options_.page_size};
    if (options_.min_partial_tokens != 0 && in_pages)
      add_partial(prompt, contents[count], count == 0 ? pool::no_page : leading[count - 1], hit);
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
void GroupModel::add_partial(const std::vector<TokenId>& prompt, uint64_t parent,
                             uint32_t parent_page, Hit& hit) const {
  const auto begin = static_cast<size_t>(hit.tokens);
  const size_t end = std::min(prompt.size() - 1, size_t{options_.max_pages_per_sequence} *
                                                     static_cast<size_t>(options_.page_size));
  if (end < begin + static_cast<size_t>(options_.min_partial_tokens)) return;
  const uint32_t page =
      PoolInspection::heads(pool_).find(parent, parent_page, prompt.data() + begin);
  if (page == pool::no_page) return;
  const pool::PageRecord& record = PoolInspection::record(pool_, page);
  const size_t fill = record.is_tail ? record.fill : static_cast<size_t>(options_.page_size);
  const std::span<const TokenId> there = PoolInspection::tokens(pool_, page);
  size_t equal = 0;
  while (equal < std::min(fill, end - begin) && there[equal] == prompt[begin + equal]) ++equal;
  for (uint32_t g = 1; g < num_groups(); ++g) {
    const bool state = groups_[g].rule == GroupRule::state;
    if (PoolInspection::groups(pool_).companion(page, g) == pool::no_page) return;
    if (state && equal != fill) return;
  }
  hit.partial = static_cast<int32_t>(equal);
  hit.source = page;
}

/// Whether the copies of a hit that ends inside a page find pages, if each cached page that it
/// holds lay in a slab of its own.
bool GroupModel::has_copies(const Hit& hit, std::vector<uint32_t> leading) const {
  const pool::Groups& groups = PoolInspection::groups(pool_);
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
    return pool::is_evictable(PoolInspection::record(pool_, page).list);
  });
  return groups.slabs.can_give(needs, idle) &&
         stats.free_pages + stats.cached_pages - stats.pinned_pages > held;
}

void GroupModel::admit(const std::vector<TokenId>& prompt) {
  if (prompt.empty()) return;
  const Hit expected = longest_hit(prompt);
  const int32_t peeked = pool_.peek(prompt);
  const auto admission = pool_.admit(prompt);
  if (!admission) {
    RC_ASSERT(admission.error().code() == Errc::out_of_pages);
    RC_ASSERT(sequences_.size() == options_.max_sequences);
    return;
  }
  const int32_t found = admission->cached_tokens;
  RC_ASSERT(peeked == expected.tokens || peeked == found);
  expect_found(expected, found);
  sequences_.push_back({admission->id, {prompt.begin(), prompt.begin() + found}, found});
  check();
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
  const Hit expected = prompt.empty() ? Hit() : longest_hit(prompt);
  const auto admission = pool_.resume(s.id, prompt);
  RC_ASSERT(admission.has_value() == (!prompt.empty() && !has_pages));
  if (!admission) {
    RC_ASSERT(admission.error().code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  expect_found(expected, admission->cached_tokens);
  s.room = admission->cached_tokens;
  s.tokens.assign(prompt.begin(), prompt.begin() + s.room);
  check();
}

// ---- How long it is kept

void GroupModel::retain(std::vector<TokenId> prompt, int32_t level, int64_t milliseconds) {
  const RetentionRange range{.level = level, .milliseconds = milliseconds};
  const auto before = memory_.snapshot();
  const auto kept = pool_.retain(prompt, {.retention = {&range, 1}});
  if (prompt.empty() || options_.max_retention_ms == 0) {
    RC_ASSERT(kept.error().code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  prompt.push_back(0);  // of retain, hits may be as long as the prompt
  RC_ASSERT(checked(kept) == longest_hit(prompt, false).tokens);
  check();
}

void GroupModel::advance_time(int64_t milliseconds) {
  now_ms_ += milliseconds;
  checked(pool_.advance_time(now_ms_));
  check();
}

}  // namespace folio::test
