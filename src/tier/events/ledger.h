// SPDX-License-Identifier: Apache-2.0
/// tier/events/ledger.h: which names are where, as places tell it: what routers are to be told.
///
/// A pool may have a name twice, under two contents: it is told of with the first and the last.
/// What a pool says of a name is kept while it is anywhere, so that tiers, which know names alone,
/// are told of with tokens and parents.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "folio/tier/event_publisher.h"
#include "tier/events/wire.h"

namespace folio::inline v1::tier {

/// Where a ledger's events go.
class EventOut {
 public:
  virtual ~EventOut() = default;
  virtual void stored(const PageName& name, const Content& content, std::string_view medium) = 0;
  virtual void removed(const PageName& name, std::string_view medium) = 0;
  virtual void cleared() = 0;
};

struct EventPlace {
  std::string medium;
  bool is_pool = false;  ///< else a tier
};

/// Of one thread. Calls may throw std::bad_alloc, and have done nothing then.
class Ledger {
 public:
  using Places = std::array<EventPlace, EventPublisher::max_places>;
  /// `places` are set before anything is told of them.
  explicit Ledger(const Places& places) : places_(places) {}

  void stored(size_t place, const PageName& name, Content content, EventOut& out) {
    const auto [at, is_new] = known_.try_emplace(name);
    Known& known = at->second;
    if (known.content.tokens.empty()) known.content = std::move(content);
    uint32_t& count = known.counts[place];
    const bool is_first = count == 0;
    if (is_first || places_[place].is_pool) ++count;
    if (is_first) out.stored(name, known.content, places_[place].medium);
  }

  void removed(size_t place, const PageName& name, EventOut& out) {
    const auto at = known_.find(name);
    if (at == known_.end() || at->second.counts[place] == 0) return;
    if (--at->second.counts[place] != 0) return;
    out.removed(name, places_[place].medium);
    if (is_nowhere(at->second)) known_.erase(at);
  }

  /// All blocks are told to be cleared where that is so: routers differ in whether that is of all
  /// media.
  void cleared(size_t place, EventOut& out) {
    const bool is_all = std::all_of(known_.begin(), known_.end(), [&](const auto& entry) {
      return is_only_at(entry.second, place);
    });
    if (is_all) {
      known_.clear();
      out.cleared();
      return;
    }
    for (auto at = known_.begin(); at != known_.end();) {
      if (std::exchange(at->second.counts[place], 0) != 0)
        out.removed(at->first, places_[place].medium);
      at = is_nowhere(at->second) ? known_.erase(at) : std::next(at);
    }
  }

  /// As if it were told for the first time.
  void tell_all(EventOut& out) const {
    out.cleared();
    for (const auto& [name, known] : known_)
      for (size_t place = 0; place < places_.size(); ++place)
        if (known.counts[place] != 0) out.stored(name, known.content, places_[place].medium);
  }

  [[nodiscard]] int64_t names() const { return std::ssize(known_); }

 private:
  struct Known {
    Content content;
    std::array<uint32_t, EventPublisher::max_places> counts{};
  };

  [[nodiscard]] static bool is_nowhere(const Known& known) {
    return std::all_of(known.counts.begin(), known.counts.end(), [](uint32_t n) { return n == 0; });
  }
  [[nodiscard]] static bool is_only_at(const Known& known, size_t place) {
    for (size_t i = 0; i < known.counts.size(); ++i)
      if (i != place && known.counts[i] != 0) return false;
    return true;
  }

  const Places& places_;
  std::map<PageName, Known> known_;
};

}  // namespace folio::inline v1::tier
