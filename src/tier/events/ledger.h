// SPDX-License-Identifier: Apache-2.0
/// tier/events/ledger.h: which names are where, as places tell it: what routers are to be told.
///
/// A pool may have a name twice, under two contents: it is told of with the first and the last.
/// What a pool says of a name is kept while it is anywhere, so that tiers, which know names alone,
/// are told of with tokens and parents. A companion is told of by the name of its leading page and
/// its group; tiers have it under a name of its own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "folio/tier/event_publisher.h"
#include "tier/events/wire.h"

namespace folio::inline v1::tier {

/// Where a ledger's events go.
class EventOut {
 public:
  virtual ~EventOut() = default;
  virtual void stored(const PageName& name, const Content& content, std::string_view medium) = 0;
  virtual void removed(const PageName& name, uint32_t group, std::string_view medium) = 0;
  virtual void cleared() = 0;
};

struct EventPlace {
  std::string medium;
  bool is_pool = false;                   ///< else a tier
  std::vector<GroupOptions> groups = {};  ///< of a pool, where the publisher was told them
};

/// Of one thread. Calls may throw std::bad_alloc, and have done nothing then.
class Ledger {
 public:
  using Places = std::array<EventPlace, EventPublisher::max_places>;
  /// `places` are set before anything is told of them.
  explicit Ledger(const Places& places) : places_(places) {}

  void stored(size_t place, const PageName& name, Content content, EventOut& out) {
    add(place, key_of(name), std::move(content), out);
  }
  void removed(size_t place, const PageName& name, EventOut& out) {
    remove(place, key_of(name), out);
  }

  /// The same of a companion: `own` is its own name, null: it has none.
  void stored(size_t place, const PageName& leading, uint32_t group, const PageName* own,
              EventOut& out) {
    const Key key{leading, group};
    Content content{.group = group_of(place, group)};
    if (const auto at = known_.find({leading, 0}); at != known_.end()) {
      content = at->second.content;
      content.group = group_of(place, group);
    }
    if (own == nullptr) {
      add(place, key, std::move(content), out);
      return;
    }
    const bool is_new = companions_.emplace(*own, key).second;
    try {
      learn(*own, key, content, out);
      add(place, key, std::move(content), out).own = *own;
    } catch (...) {
      const auto at = known_.find(key);
      if (is_new && (at == known_.end() || !at->second.own)) companions_.erase(*own);
      throw;
    }
  }
  void removed(size_t place, const PageName& leading, uint32_t group, EventOut& out) {
    remove(place, {leading, group}, out);
  }

  /// All blocks are told to be cleared where that is so: routers differ in whether that is of all
  /// media.
  void cleared(size_t place, EventOut& out) {
    const bool is_all = std::all_of(known_.begin(), known_.end(), [&](const auto& entry) {
      return is_only_at(entry.second, place);
    });
    if (is_all) {
      known_.clear();
      companions_.clear();
      out.cleared();
      return;
    }
    for (auto at = known_.begin(); at != known_.end();) {
      if (std::exchange(at->second.counts[place], 0) != 0) tell_removed(place, at->first, out);
      at = is_nowhere(at->second) ? forget(at) : std::next(at);
    }
  }

  /// A tier has these names, in ascending order, and no others.
  void retold(size_t place, std::span<const PageName> names, EventOut& out) {
    for (auto at = known_.begin(); at != known_.end();) {
      uint32_t& count = at->second.counts[place];
      if (count != 0 && !std::ranges::binary_search(names, name_in_tiers(*at))) {
        count = 0;
        tell_removed(place, at->first, out);
      }
      at = is_nowhere(at->second) ? forget(at) : std::next(at);
    }
    for (const PageName& name : names) stored(place, name, {}, out);
  }
  [[nodiscard]] bool is_pool(size_t place) const { return places_[place].is_pool; }

  /// As if it were told for the first time.
  void tell_all(EventOut& out) const {
    out.cleared();
    for (const auto& [key, known] : known_)
      for (size_t place = 0; place < places_.size(); ++place)
        if (known.counts[place] != 0) out.stored(key.name, known.content, places_[place].medium);
  }

  /// A companion's counts beside its leading page's.
  [[nodiscard]] int64_t names() const { return std::ssize(known_); }

 private:
  /// A leading page's name and a group.
  struct Key {
    PageName name;
    uint32_t group = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Known {
    Content content;
    std::array<uint32_t, EventPublisher::max_places> counts{};
    std::optional<PageName> own = {};  ///< of a companion
  };
  using Names = std::map<Key, Known>;

  [[nodiscard]] static bool is_nowhere(const Known& known) {
    return std::all_of(known.counts.begin(), known.counts.end(), [](uint32_t n) { return n == 0; });
  }
  [[nodiscard]] static bool is_only_at(const Known& known, size_t place) {
    for (size_t i = 0; i < known.counts.size(); ++i)
      if (i != place && known.counts[i] != 0) return false;
    return true;
  }
  [[nodiscard]] static const PageName& name_in_tiers(const Names::value_type& entry) {
    return entry.second.own ? *entry.second.own : entry.first.name;
  }
  [[nodiscard]] Key key_of(const PageName& name) const {
    const auto at = companions_.find(name);
    return at == companions_.end() ? Key{name, 0} : at->second;
  }
  [[nodiscard]] WireGroup group_of(size_t place, uint32_t group) const {
    const std::vector<GroupOptions>& groups = places_[place].groups;
    if (group >= groups.size()) return {.index = group, .rule = {}};
    return {.index = group, .rule = groups[group].rule, .window = groups[group].window};
  }
  void tell_removed(size_t place, const Key& key, EventOut& out) const {
    out.removed(key.name, key.group, places_[place].medium);
  }

  Known& add(size_t place, const Key& key, Content content, EventOut& out) {
    Known& known = known_.try_emplace(key).first->second;
    if (known.content.tokens.empty()) {
      if (content.group.index != key.group) content.group = known.content.group;  // a tier's
      known.content = std::move(content);
    }
    uint32_t& count = known.counts[place];
    const bool is_first = count == 0;
    if (is_first || places_[place].is_pool) ++count;
    if (is_first) out.stored(key.name, known.content, places_[place].medium);
    return known;
  }
  void remove(size_t place, const Key& key, EventOut& out) {
    const auto at = known_.find(key);
    if (at == known_.end() || at->second.counts[place] == 0) return;
    if (--at->second.counts[place] != 0) return;
    tell_removed(place, key, out);
    if (is_nowhere(at->second)) forget(at);
  }
  Names::iterator forget(Names::iterator at) {
    if (const std::optional<PageName>& own = at->second.own) companions_.erase(*own);
    return known_.erase(at);
  }
  /// Tiers that have told of `own` before a pool said what it is have the companion. What it was
  /// taken for goes last: a call that throws can be made again.
  void learn(const PageName& own, const Key& key, const Content& content, EventOut& out) {
    const auto at = known_.find({own, 0});
    if (at == known_.end()) return;
    const std::array counts = at->second.counts;
    for (size_t place = 0; place < places_.size(); ++place)
      if (counts[place] != 0) add(place, key, content, out).own = own;
    for (size_t place = 0; place < places_.size(); ++place)
      if (counts[place] != 0) tell_removed(place, {own, 0}, out);
    known_.erase(at);
  }

  const Places& places_;
  Names known_;
  std::map<PageName, Key> companions_;  ///< by their own names, while they are anywhere
};

}  // namespace folio::inline v1::tier
