// SPDX-License-Identifier: Apache-2.0
/// tests/pool/pool_model_namespaces.cpp: where the naive pool's contents begin: salts and adapters,
/// and items of another kind, each before the page in which it begins.
#include <algorithm>
#include <limits>

#include "pool/pool_model.h"

namespace folio::test {
namespace {

/// Of those that nobody uses, the one that was used last.
void forget_oldest(auto& known) {
  auto oldest = known.end();
  for (auto at = known.begin(); at != known.end(); ++at) {
    if (at->users == 0 && (oldest == known.end() || at->idle_since < oldest->idle_since))
      oldest = at;
  }
  known.erase(oldest);
}

}  // namespace

// ---- Salts and adapters

int PoolModel::open_space(const Space& space) {
  auto known = std::find_if(spaces_.begin(), spaces_.end(),
                            [&](const KnownSpace& s) { return s.space == space; });
  if (known == spaces_.end()) {
    if (spaces_.size() == size_t{options_.max_sequences} + options_.max_namespaces)
      forget_oldest(spaces_);
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

// ---- Items

bool PoolModel::allows(const std::vector<ContentSpan>& spans,
                       const std::vector<TokenId>& prompt) const {
  int64_t end = 0;
  for (const ContentSpan& span : spans) {
    if (span.offset < end || span.length < 1) return false;
    end = int64_t{span.offset} + span.length;
  }
  return spans.size() <= options_.max_spans && end <= std::ssize(prompt);
}

std::vector<ContentSpan> PoolModel::touching(const std::vector<ContentSpan>& spans,
                                             size_t position) const {
  std::vector<ContentSpan> seen;
  for (ContentSpan span : spans) {
    span.offset -= static_cast<int32_t>(static_cast<int64_t>(position) * page_size_);
    if (span.offset + span.length > 0 && span.offset < page_size_) seen.push_back(span);
  }
  return seen;
}

std::vector<ContentSpan> PoolModel::beginning_in(const std::vector<ContentSpan>& spans,
                                                 size_t position) const {
  std::vector<ContentSpan> seen = touching(spans, position);
  std::erase_if(seen, [](const ContentSpan& span) { return span.offset < 0; });
  return seen;
}

int PoolModel::behind_items(int parent, const std::vector<ContentSpan>& spans,
                            size_t position) const {
  for (const ContentSpan& span : beginning_in(spans, position)) {
    const auto known = std::find_if(items_.begin(), items_.end(), [&](const KnownItem& item) {
      return item.parent == parent && item.span == span;
    });
    if (known == items_.end()) return 0;
    parent = known->content;
  }
  return parent;
}

int PoolModel::open_item(int parent, const ContentSpan& span) {
  auto known = std::find_if(items_.begin(), items_.end(), [&](const KnownItem& item) {
    return item.parent == parent && item.span == span;
  });
  if (known == items_.end()) {
    if (items_.size() == size_t{2} * options_.max_sequences * options_.max_spans)
      forget_oldest(items_);
    contents_.push_back({});
    known = items_.insert(items_.end(), {parent, span, static_cast<int>(contents_.size()) - 1});
  }
  ++known->users;
  return known->content;
}

int PoolModel::enter_page(Sequence& s, size_t position) {
  int content = position == 0 ? s.space_content : pages_[s.row[position - 1]].content;
  for (const ContentSpan& span : beginning_in(s.spans, position))
    s.opened.push_back(content = open_item(content, span));
  return content;
}

void PoolModel::close_items(Sequence& s, size_t keep) {
  for (; s.opened.size() > keep; s.opened.pop_back()) {
    const auto known = std::find_if(items_.begin(), items_.end(), [&](const KnownItem& item) {
      return item.content == s.opened.back();
    });
    --known->users;
    known->idle_since = ++clock_;
  }
}

void PoolModel::cut_items(Sequence& s, int32_t length) {
  const int64_t full = length / page_size_ * page_size_;
  close_items(s, static_cast<size_t>(
                     std::count_if(s.spans.begin(), s.spans.end(),
                                   [&](const ContentSpan& span) { return span.offset < full; })));
  std::erase_if(s.spans, [&](const ContentSpan& span) { return span.offset >= length; });
}

void PoolModel::share_items(Sequence& child, int32_t length) {
  for (KnownItem& item : items_)
    item.users +=
        static_cast<int>(std::count(child.opened.begin(), child.opened.end(), item.content));
  cut_items(child, length);
}

}  // namespace folio::test
