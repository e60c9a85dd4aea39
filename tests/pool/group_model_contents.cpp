// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_model_contents.cpp: what the leading pages of the hybrid pool contain, behind
/// which items, and how long they are kept.
#include <algorithm>

#include "pool/checked.h"
#include "pool/group_model.h"
#include "pool/inspection.h"

namespace folio::test {

// ---- What pages continue

int GroupModel::content(uint64_t number) const {
  const auto item = item_contents_.find(number);
  return item != item_contents_.end() ? item->second : static_cast<int>(number);
}

int GroupModel::beginning() const {
  const pool::Namespaces& spaces = pool::PoolInspection::namespaces(pool_);
  const uint32_t space = spaces.find({}, 0);
  return space == pool::no_namespace ? 0 : static_cast<int>(spaces[space].content);
}

int GroupModel::content_before(SequenceId id, int64_t position) const {
  if (position == 0) return beginning();
  return content(pool::PoolInspection::record(pool_, entry(id, 0, position - 1)).content);
}

uint32_t GroupModel::find_page(int parent, const TokenId* tokens) const {
  for (uint32_t page = 0; page < checked(pool_.group(0)).num_pages && parent != 0; ++page) {
    const pool::PageRecord& record = pool::PoolInspection::record(pool_, page);
    const std::span<const TokenId> there = pool::PoolInspection::tokens(pool_, page);
    if (record.findable && content(record.parent) == parent &&
        std::equal(there.begin(), there.end(), tokens))
      return page;
  }
  return pool::no_page;
}

void GroupModel::expect_parent(uint64_t parent, int content) {
  if (content > 0) return RC_ASSERT(this->content(parent) == content);
  RC_ASSERT(item_contents_.emplace(parent, content).first->second == content);
  RC_ASSERT(std::count_if(item_contents_.begin(), item_contents_.end(),
                          [&](const auto& item) { return item.second == content; }) == 1);
}

void GroupModel::name_pages(Sequence& s, int64_t begin) {
  const int64_t size = options_.page_size;
  for (int64_t p = begin / size; (p + 1) * size <= std::ssize(s.tokens); ++p) {
    if (!options_.prefix_reuse) return;
    const int before = items_.enter(s.items, content_before(s.id, p), static_cast<size_t>(p));
    const pool::PageRecord& record = pool::PoolInspection::record(pool_, entry(s.id, 0, p));
    expect_parent(record.parent, before);
    // of all pages with one content, one is found
    const uint32_t found = find_page(before, s.tokens.data() + p * size);
    RC_ASSERT(found != pool::no_page);
    RC_ASSERT(pool::PoolInspection::record(pool_, found).content == record.content);
  }
}

// ---- What is left of sequences

void GroupModel::give_up(Sequence& s, const NaiveWish& wish, GivenUp& all) {
  const int64_t size = options_.page_size, fill = std::ssize(s.tokens) % size;
  const int64_t full = std::ssize(s.tokens) / size;
  if (options_.min_partial_tokens != 0 && fill >= options_.min_partial_tokens) {
    const uint32_t page = entry(s.id, 0, full);
    const pool::PageRecord& record = pool::PoolInspection::record(pool_, page);
    if (record.content == 0 && !record.awaits_copy &&
        record.references - all.references[page] == 1) {
      const int before = content_before(s.id, full);
      all.tails.emplace_back(page, items_.enter(s.items, before, static_cast<size_t>(full)));
    }
  }
  std::vector<int> contents;
  for (int64_t p = 0; p < full && options_.prefix_reuse; ++p)
    contents.push_back(content_before(s.id, p + 1));
  if (keeps()) retention_.give_up(contents, size, wish);
  for (int64_t p = 0; p < (s.room + size - 1) / size; ++p) ++all.references[entry(s.id, 0, p)];
  items_.close(s.items);
}

void GroupModel::expect_tails(const GivenUp& all) {
  for (const auto& [page, before] : all.tails) {
    const pool::PageRecord& record = pool::PoolInspection::record(pool_, page);
    if (record.is_tail) expect_parent(record.parent, before);
  }
}

// ---- How long it is kept

void GroupModel::retain(std::vector<TokenId> prompt, const std::vector<ContentSpan>& spans,
                        const std::vector<RetentionRange>& ranges) {
  const auto before = memory_.snapshot();
  const auto kept = pool_.retain(prompt, {.retention = ranges, .spans = spans});
  if (prompt.empty() || !keeps() || !items_.allow(spans, prompt)) {
    RC_ASSERT(kept.error().code() == Errc::invalid_argument);
    return expect_unchanged(before);
  }
  prompt.push_back(0);  // of retain, hits may be as long as the prompt
  const Hit hit = longest_hit(prompt, spans, false);
  RC_ASSERT(checked(kept) == hit.tokens);
  retention_.retain(hit.contents, options_.page_size, ranges);
  check();
}

void GroupModel::advance_time(int64_t milliseconds) {
  checked(pool_.advance_time(retention_.now() + milliseconds));
  retention_.advance(retention_.now() + milliseconds);
  check();
}

/// Cached pages wait at the level that was asked for; companions at the same one, as
/// check_invariants says.
void GroupModel::check_levels() const {
  for (uint32_t page = 0; page < checked(pool_.group(0)).num_pages; ++page) {
    const pool::PageRecord& record = pool::PoolInspection::record(pool_, page);
    if (!pool::is_cached(record.list)) continue;
    const int asked = record.is_tail ? retention_level::normal
                                     : retention_.level(static_cast<int>(record.content));
    RC_ASSERT(int{record.level} == asked);
  }
}

}  // namespace folio::test
