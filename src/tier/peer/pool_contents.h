// SPDX-License-Identifier: Apache-2.0
/// tier/peer/pool_contents.h: what a pool can find, by name, with the tokens that find it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "folio/pool/events.h"

namespace folio::inline v1::tier {

/// Follows a pool's events. Throws bad_alloc.
class PoolContents {
 public:
  explicit PoolContents(NameFunction name) noexcept : name_(name) {}

  /// True: the event's name can be found from now on, or no more, and could not, or could, before.
  [[nodiscard]] bool note(const PoolEvent& event, std::span<const TokenId> tokens);
  /// Of a snapshot, whose parents may come later; `settle` behind the last.
  void add(const PoolEvent& event, std::span<const TokenId> tokens);
  void settle();
  void clear() noexcept;

  /// A page by the name of its leading page, and its group.
  struct Place {
    PageName leading;
    uint32_t group = 0;
    auto operator<=>(const Place&) const = default;
  };
  [[nodiscard]] std::optional<Place> find(const PageName& name) const noexcept;
  [[nodiscard]] bool has(const PageName& name) const noexcept { return find(name).has_value(); }
  [[nodiscard]] std::vector<PageName> names() const;
  [[nodiscard]] int64_t size() const noexcept {
    return static_cast<int64_t>(names_.size() + companions_.size());
  }
  /// Contents that are in no way to be found by tokens and adapter alone.
  [[nodiscard]] int64_t unserved() const noexcept { return unserved_; }

  struct Chain {
    std::vector<PageName> names;  ///< first page to last
    std::vector<TokenId> tokens;
    uint64_t adapter = 0;
  };
  /// That leads to a page of this name; empty where none has all before it.
  [[nodiscard]] Chain chain_to(const PageName& leading) const;

 private:
  enum class Served : uint8_t { unknown, first, behind, no };
  struct Content {
    uint64_t parent = 0;
    uint64_t adapter = 0;
    PageName name;
    std::vector<TokenId> tokens;
    Served served = Served::unknown;
  };
  /// Finds out whether names come from tokens alone, for the content and those before it.
  void look_at(uint64_t content);
  [[nodiscard]] Served served(const Content& content) const noexcept;
  [[nodiscard]] bool remove(uint64_t content);
  [[nodiscard]] bool note_companion(const PoolEvent& event);
  /// From the content to the first one; empty where one before it is gone.
  [[nodiscard]] std::vector<const Content*> path_to(uint64_t content) const;

  NameFunction name_;
  std::map<uint64_t, Content> contents_;
  std::map<PageName, std::vector<uint64_t>> names_;  ///< of those that are served
  struct Companion {
    Place place;
    int64_t pages = 0;
  };
  std::map<PageName, Companion> companions_;    ///< of contents that are served
  std::vector<PoolEvent> snapshot_companions_;  ///< until `settle`
  int64_t unserved_ = 0;
};

}  // namespace folio::inline v1::tier
