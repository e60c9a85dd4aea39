// SPDX-License-Identifier: Apache-2.0
/// tests/pool/event_replay.h: the index of a pool as its events tell it, and as it is.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "folio/pool/page_pool.h"
#include "pool/inspection.h"

namespace folio::test {

/// What a reader of events knows.
class EventReplay {
 public:
  struct Content {
    uint64_t parent = 0;
    bool has_name = false;
    PageName name;
    bool operator==(const Content&) const = default;
  };
  using Contents = std::map<uint64_t, Content>;
  /// How many pages of a content have a companion in a group.
  using Companions = std::map<std::pair<uint64_t, uint32_t>, int>;

  /// Throws where an event is not the next one, or contradicts what is known.
  void take(const PoolEvent& event) {
    if (event.number != last_ + 1) throw std::runtime_error("a gap before an event");
    last_ = event.number;
    if (event.kind == PoolEventKind::cleared) return clear();
    if (event.group != 0) return take_companion(event);
    if (event.kind == PoolEventKind::stored) {
      if (!add(event)) throw std::runtime_error("a content was stored twice");
      if (event.has_parent_name && contents_.contains(event.parent) &&
          contents_[event.parent].name != event.parent_name)
        throw std::runtime_error("the parent has another name");
      return;
    }
    if (contents_.erase(event.content) != 1)
      throw std::runtime_error("what was removed had not been stored");
  }

  /// Begins anew with what the pool has.
  void heal(const PagePool& pool) {
    clear();
    last_ = pool.snapshot(
                    {.function =
                         [](void* self, const PoolEvent& event, std::span<const TokenId>) noexcept {
                           auto& replay = *static_cast<EventReplay*>(self);
                           if (event.group != 0) return replay.take_companion(event);
                           replay.add(event);
                         },
                     .context = this})
                .value();
  }

  [[nodiscard]] const Contents& contents() const { return contents_; }
  [[nodiscard]] const Companions& companions() const { return companions_; }
  [[nodiscard]] uint64_t next() const { return last_ + 1; }

  /// Looks at every page.
  [[nodiscard]] static Contents of(const PagePool& pool) {
    Contents contents;
    for (uint32_t page = 0; page < pool.num_pages(); ++page) {
      const pool::PageRecord& record = pool::PoolInspection::record(pool, page);
      if (!record.findable) continue;
      const PageName* name = pool::PoolInspection::index(pool).name_of(page);
      contents[record.content] = {record.parent, name != nullptr,
                                  name == nullptr ? PageName() : *name};
    }
    return contents;
  }
  [[nodiscard]] static Companions companions_of(const PagePool& pool) {
    Companions companions;
    for (uint32_t page = 0; page < pool.num_pages(); ++page) {
      const uint64_t content = pool::PoolInspection::record(pool, page).content;
      for (uint32_t group = 1; content != 0 && group < pool.num_groups(); ++group)
        if (pool::PoolInspection::groups(pool).companion(page, group) != pool::no_page)
          ++companions[{content, group}];
    }
    return companions;
  }

 private:
  void clear() {
    contents_.clear();
    companions_.clear();
  }
  /// Throws where one goes that had not come, or its leading page has another name than was told.
  void take_companion(const PoolEvent& event) {
    const auto leading = contents_.find(event.content);
    if (leading != contents_.end() && leading->second.has_name &&
        (!event.has_parent_name || leading->second.name != event.parent_name))
      throw std::runtime_error("the companion's leading page has another name");
    int& count = companions_[{event.content, event.group}];
    count += event.kind == PoolEventKind::stored ? 1 : -1;
    if (count < 0) throw std::runtime_error("what was removed had not been stored");
    if (count == 0) companions_.erase({event.content, event.group});
  }
  bool add(const PoolEvent& event) {
    return contents_.insert({event.content, {event.parent, event.has_name, event.name}}).second;
  }

  Contents contents_;
  Companions companions_;
  uint64_t last_ = 0;
};

}  // namespace folio::test
