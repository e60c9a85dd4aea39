// SPDX-License-Identifier: Apache-2.0
/// tier/peer/pool_contents.cpp: contents of a pool, linked to those before them.
#include "tier/peer/pool_contents.h"

#include <algorithm>

namespace folio::inline v1::tier {

void PoolContents::add(const PoolEvent& event, std::span<const TokenId> tokens) {
  if (event.kind != PoolEventKind::stored || !event.has_name) return;
  if (event.group != 0) return snapshot_companions_.push_back(event);
  static_cast<void>(remove(event.content));  // no pool tells one twice
  contents_[event.content] = {.parent = event.parent,
                              .adapter = event.adapter,
                              .name = event.name,
                              .tokens = {tokens.begin(), tokens.end()}};
}

void PoolContents::settle() {
  for (const auto& [id, content] : contents_) look_at(id);
  for (const PoolEvent& event : snapshot_companions_) static_cast<void>(note_companion(event));
  snapshot_companions_ = {};
}

/// Several pages may have a content, each with a companion of its own, and several contents a name:
/// those that are served count.
bool PoolContents::note_companion(const PoolEvent& event) {
  const auto content = contents_.find(event.content);
  if (!event.has_name || content == contents_.end() || content->second.served == Served::no)
    return false;
  if (event.kind == PoolEventKind::stored) {
    Companion& companion = companions_[event.name];
    companion.place = {.leading = event.parent_name, .group = event.group};
    return ++companion.pages == 1;
  }
  const auto found = companions_.find(event.name);
  if (found == companions_.end() || --found->second.pages > 0) return false;
  companions_.erase(found);
  return true;
}

bool PoolContents::note(const PoolEvent& event, std::span<const TokenId> tokens) {
  if (event.group != 0) return note_companion(event);
  if (event.kind == PoolEventKind::removed) return remove(event.content);
  if (event.kind != PoolEventKind::stored) return false;
  const bool was_there = has(event.name);
  add(event, tokens);
  look_at(event.content);
  return !was_there && has(event.name);
}

void PoolContents::look_at(uint64_t content) {
  std::vector<uint64_t> path;
  for (auto at = contents_.find(content);
       at != contents_.end() && at->second.served == Served::unknown;
       at = contents_.find(at->second.parent)) {
    path.push_back(at->first);
    at->second.served = Served::no;  // a circle, which no pool has, ends here
  }
  for (; !path.empty(); path.pop_back()) {
    Content& c = contents_.at(path.back());
    c.served = served(c);
    if (c.served == Served::no) {
      ++unserved_;
    } else {
      names_[c.name].push_back(path.back());
    }
  }
}

PoolContents::Served PoolContents::served(const Content& content) const noexcept {
  const auto parent = contents_.find(content.parent);
  const bool is_first = parent == contents_.end();
  if (!is_first && parent->second.served == Served::no) return Served::no;
  PageName name;
  const PageContent page{.parent = is_first ? nullptr : &parent->second.name,
                         .tokens = content.tokens,
                         .adapter = content.adapter};
  if (!name_.function(name_.context, page, &name).is_ok() || name != content.name)
    return Served::no;
  return is_first ? Served::first : Served::behind;
}

bool PoolContents::remove(uint64_t content) {
  const auto found = contents_.find(content);
  if (found == contents_.end()) return false;
  bool is_last = false;
  if (found->second.served == Served::no) {
    --unserved_;
  } else {
    const auto entry = names_.find(found->second.name);
    std::erase(entry->second, content);
    is_last = entry->second.empty();
    if (is_last) names_.erase(entry);
  }
  contents_.erase(found);
  return is_last;
}

void PoolContents::clear() noexcept {
  contents_.clear();
  names_.clear();
  companions_.clear();
  unserved_ = 0;
}

std::optional<PoolContents::Place> PoolContents::find(const PageName& name) const noexcept {
  if (names_.contains(name)) return Place{.leading = name, .group = 0};
  const auto companion = companions_.find(name);
  if (companion == companions_.end()) return std::nullopt;
  return companion->second.place;
}

std::vector<PageName> PoolContents::names() const {
  std::vector<PageName> names;
  names.reserve(names_.size() + companions_.size());
  for (const auto& [name, ids] : names_) names.push_back(name);
  for (const auto& [name, companion] : companions_) names.push_back(name);
  return names;
}

std::vector<const PoolContents::Content*> PoolContents::path_to(uint64_t content) const {
  std::vector<const Content*> path;
  for (auto at = contents_.find(content); at != contents_.end();
       at = contents_.find(at->second.parent)) {
    path.push_back(&at->second);
    if (at->second.served == Served::first) return path;
  }
  return {};
}

PoolContents::Chain PoolContents::chain_to(const PageName& leading) const {
  const auto entry = names_.find(leading);
  if (entry == names_.end()) return {};
  for (const uint64_t content : entry->second) {
    const std::vector<const Content*> path = path_to(content);
    if (path.empty()) continue;
    Chain chain{.names = {}, .tokens = {}, .adapter = path.back()->adapter};
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      chain.names.push_back((*at)->name);
      chain.tokens.insert(chain.tokens.end(), (*at)->tokens.begin(), (*at)->tokens.end());
    }
    return chain;
  }
  return {};
}

}  // namespace folio::inline v1::tier
