// SPDX-License-Identifier: Apache-2.0
/// tier/host/stored_pages.cpp: leaves in the order of their use.
#include "tier/host/stored_pages.h"

#include <utility>

namespace folio::inline v1::tier {

void StoredPages::join_leaves(Entry& entry) noexcept {
  if (entry.is_held || continued_.contains(entry.page->name)) return;
  entry.place.key() = entry.used;
  leaves_.insert(std::move(entry.place));
}

void StoredPages::leave_leaves(Entry& entry) noexcept { entry.place = leaves_.extract(entry.used); }

StoredPages::Page StoredPages::use(const PageName& name) noexcept {
  const auto at = entries_.find(name);
  if (at == entries_.end()) return nullptr;
  Entry& entry = at->second;
  const bool is_leaf = entry.place.empty();
  if (is_leaf) leave_leaves(entry);
  entry.used = ++clock_;
  if (is_leaf) join_leaves(entry);
  return entry.page;
}

TierOutcome StoredPages::put(Page page) {
  if (use(page->name) != nullptr) return TierOutcome::done;
  Entries one;
  Entry& entry = one[page->name];  // stays where it is when it moves to the others
  Leaves leaf = {{0, &entry}};
  entry.place = leaf.extract(leaf.begin());
  entry.page = std::move(page);
  const Stored& stored = *entry.page;
  if (stored.parent) {
    ++continued_[*stored.parent];
    const auto parent = entries_.find(*stored.parent);
    if (parent != entries_.end() && parent->second.place.empty()) leave_leaves(parent->second);
  }
  while (bytes_ > max_bytes_ - room_of(stored)) {
    if (remove_oldest()) continue;
    unlink(stored);
    return TierOutcome::full;
  }
  entries_.insert(one.extract(one.begin()));
  bytes_ += room_of(stored);
  entry.used = ++clock_;
  join_leaves(entry);
  tell(observer_, TierChange::stored, stored.name);
  return TierOutcome::done;
}

bool StoredPages::remove_oldest(const std::optional<PageName>& kept) noexcept {
  auto oldest = leaves_.begin();
  if (oldest != leaves_.end() && oldest->second->page->name == kept) ++oldest;
  if (oldest == leaves_.end()) return false;
  remove(*oldest->second);
  return true;
}

void StoredPages::unlink(const Stored& page) noexcept {
  if (!page.parent) return;
  const auto at = continued_.find(*page.parent);
  if (--at->second != 0) return;
  continued_.erase(at);
  const auto parent = entries_.find(*page.parent);
  if (parent != entries_.end()) join_leaves(parent->second);
}

void StoredPages::remove(Entry& entry) noexcept {
  const Page page = std::move(entry.page);
  if (entry.place.empty()) leave_leaves(entry);
  bytes_ -= room_of(*page);
  ++dropped_;
  tell(observer_, TierChange::removed, page->name);
  entries_.erase(page->name);
  unlink(*page);
}

void StoredPages::drop(const PageName& name) noexcept {
  if (const auto at = entries_.find(name); at != entries_.end()) remove(at->second);
}

StoredPages::Page StoredPages::hold(const PageName& name) noexcept {
  Page page = use(name);
  if (page == nullptr) return nullptr;
  Entry& entry = entries_.find(name)->second;
  if (entry.place.empty()) leave_leaves(entry);
  entry.is_held = true;
  return page;
}

void StoredPages::give_back(const Page& page) noexcept {
  const auto at = entries_.find(page->name);
  if (at == entries_.end() || at->second.page != page) return;
  at->second.is_held = false;
  at->second.used = ++clock_;
  join_leaves(at->second);
}

std::vector<PageName> StoredPages::names() const {
  std::vector<PageName> names;
  names.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

void StoredPages::count(TierFigures& figures) const noexcept {
  figures.pages = static_cast<int64_t>(entries_.size());
  figures.bytes = bytes_;
  figures.dropped_pages = dropped_;
}

}  // namespace folio::inline v1::tier
