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

  /// Throws where an event is not the next one, or contradicts what is known.
  void take(const PoolEvent& event) {
    if (event.number != last_ + 1) throw std::runtime_error("a gap before an event");
    last_ = event.number;
    if (event.kind == PoolEventKind::cleared) return contents_.clear();
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
    contents_.clear();
    last_ = pool.snapshot(
                    {.function =
                         [](void* self, const PoolEvent& event, std::span<const TokenId>) noexcept {
                           static_cast<EventReplay*>(self)->add(event);
                         },
                     .context = this})
                .value();
  }

  [[nodiscard]] const Contents& contents() const { return contents_; }
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

 private:
  bool add(const PoolEvent& event) {
    return contents_.insert({event.content, {event.parent, event.has_name, event.name}}).second;
  }

  Contents contents_;
  uint64_t last_ = 0;
};

}  // namespace folio::test
