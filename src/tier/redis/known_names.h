// SPDX-License-Identifier: Apache-2.0
/// tier/redis/known_names.h: what a tier knows of the server's pages without asking: a bounded
/// table. Externally synchronised.
///
/// Knowledge has an age: the time when a page's TTL ends, or when it may have been stored by
/// another. After a server may have lost what it had (`lose`), pages are unknown again; those of
/// our own still count, as they may be there.
///
/// An observer is told of a page when it becomes present, and when it is that no more: absent,
/// leaving, forgotten, in doubt, or too old (`expire`).
#pragma once

#include <cstdint>
#include <list>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tier/redis/settings.h"

namespace folio::inline v1::tier::redis {

enum class Known : uint8_t {
  nothing = 0,
  present = 1,
  absent = 2,
  asked = 3,    ///< the server is about to be asked
  leaving = 4,  ///< it is about to be unlinked: not there for us
};

class KnownNames {
 public:
  /// Of pages that were stored by us: bytes, and names of any kind, at most.
  KnownNames(int64_t max_bytes, int64_t max_names, const TierObserver& observer = {})
      : max_bytes_(max_bytes), max_names_(max_names), observer_(observer) {}

  [[nodiscard]] Known of(const PageName& name, Clock::time_point now) const;
  /// As `of`; it is the page used last.
  Known use(const PageName& name, Clock::time_point now);
  /// The server has it, of so many bytes, until then. Returns pages of our own that are to leave.
  [[nodiscard]] std::vector<PageName> note_stored(const PageName& name, int64_t bytes,
                                                  Clock::time_point until);
  /// The server has one that may be another's.
  void note_seen(const PageName& name, Clock::time_point until);
  void note_absent(const PageName& name, Clock::time_point until);
  void note(const PageName& name, Known known);  ///< asked or leaving, or nothing
  void lose() noexcept;
  /// Tells of pages whose time has ended; returns when the next one's may, and never if none's.
  Clock::time_point expire(Clock::time_point now) noexcept;

  /// Those that an observer was told are there.
  [[nodiscard]] std::vector<PageName> told_names() const;
  [[nodiscard]] int64_t own_pages() const noexcept { return static_cast<int64_t>(own_.size()); }
  [[nodiscard]] int64_t own_bytes() const noexcept { return own_bytes_; }

 private:
  using Order = std::list<PageName>;  ///< the one used longest ago first
  struct Entry {
    Known known = Known::nothing;
    int64_t bytes = 0;  ///< of our own; 0: another's, or not there
    uint64_t epoch = 0;
    Clock::time_point until = Clock::time_point::max();
    bool is_told = false;                              ///< that it is there
    Clock::time_point end = Clock::time_point::max();  ///< as `ends_` has it; max: it has not
    Order::iterator place;
  };
  struct Hash {
    size_t operator()(const PageName& name) const noexcept {
      return std::hash<std::string_view>()(
          {reinterpret_cast<const char*>(name.bytes.data()), name.bytes.size()});
    }
  };
  using Entries = std::unordered_map<PageName, Entry, Hash>;

  void put(const PageName& name, Known known, int64_t bytes, Clock::time_point until);
  void remove(Entries::iterator at);
  void tell(const PageName& name, Entry& entry, TierChange change) noexcept;

  const int64_t max_bytes_, max_names_;
  const TierObserver observer_;
  Entries entries_;
  Order own_, others_;
  int64_t own_bytes_ = 0;
  uint64_t epoch_ = 0;
  std::set<std::pair<Clock::time_point, PageName>> ends_;  ///< when told pages may be too old
};

}  // namespace folio::inline v1::tier::redis
