// SPDX-License-Identifier: Apache-2.0
/// tier/redis/known_names.cpp: entries, and two orders of them: our own pages, and the rest.
#include "tier/redis/known_names.h"

#include <utility>

#include "folio/tier/medium.h"

namespace folio::inline v1::tier::redis {

Known KnownNames::of(const PageName& name, Clock::time_point now) const {
  const auto at = entries_.find(name);
  if (at == entries_.end() || at->second.until <= now) return Known::nothing;
  const Entry& e = at->second;
  return e.known == Known::present && e.epoch != epoch_ ? Known::nothing : e.known;
}

Known KnownNames::use(const PageName& name, Clock::time_point now) {
  if (const auto at = entries_.find(name); at != entries_.end()) {
    Order& order = at->second.bytes != 0 ? own_ : others_;
    order.splice(order.end(), order, at->second.place);
  }
  return of(name, now);
}

void KnownNames::tell(const PageName& name, Entry& entry, TierChange change) noexcept {
  if (entry.is_told == (change == TierChange::stored)) return;
  entry.is_told = !entry.is_told;
  tier::tell(observer_, change, name);
}

std::vector<PageName> KnownNames::told_names() const {
  std::vector<PageName> names;
  for (const auto& [name, entry] : entries_)
    if (entry.is_told) names.push_back(name);
  return names;
}

void KnownNames::lose() noexcept {
  ++epoch_;
  if (observer_.function == nullptr) return;
  for (auto& [name, entry] : entries_) tell(name, entry, TierChange::removed);
}

Clock::time_point KnownNames::expire(Clock::time_point now) noexcept {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    auto end = ends_.extract(ends_.begin());
    const auto at = entries_.find(end.value().second);
    Entry& entry = at->second;
    if (entry.is_told && entry.until > now) {  // it was noted anew
      entry.end = end.value().first = entry.until;
      ends_.insert(std::move(end));
      continue;
    }
    entry.end = Clock::time_point::max();
    tell(at->first, entry, TierChange::removed);
  }
  return ends_.empty() ? Clock::time_point::max() : ends_.begin()->first;
}

void KnownNames::remove(Entries::iterator at) {
  tell(at->first, at->second, TierChange::removed);
  ends_.erase({at->second.end, at->first});
  own_bytes_ -= at->second.bytes;
  (at->second.bytes != 0 ? own_ : others_).erase(at->second.place);
  entries_.erase(at);
}

void KnownNames::put(const PageName& name, Known known, int64_t bytes, Clock::time_point until) {
  const auto [at, is_new] = entries_.try_emplace(name);
  Entry& e = at->second;
  Order& order = bytes != 0 ? own_ : others_;
  if (is_new) {
    e.place = order.insert(order.end(), name);
  } else {
    order.splice(order.end(), e.bytes != 0 ? own_ : others_, e.place);
  }
  own_bytes_ += bytes - e.bytes;
  e.known = known;
  e.bytes = bytes;
  e.epoch = epoch_;
  e.until = until;
  tell(name, e, known == Known::present ? TierChange::stored : TierChange::removed);
  if (e.is_told && observer_.function != nullptr && e.end == Clock::time_point::max() &&
      until != Clock::time_point::max()) {
    ends_.emplace(until, name);
    e.end = until;
  }
  if (std::cmp_greater(others_.size(), max_names_)) remove(entries_.find(others_.front()));
}

std::vector<PageName> KnownNames::note_stored(const PageName& name, int64_t bytes,
                                              Clock::time_point until) {
  put(name, Known::present, bytes, until);
  std::vector<PageName> leaving;
  while (own_bytes_ > max_bytes_ || std::cmp_greater(own_.size(), max_names_)) {
    leaving.push_back(own_.front());
    note(leaving.back(), Known::leaving);
  }
  return leaving;
}

void KnownNames::note_seen(const PageName& name, Clock::time_point until) {
  const auto at = entries_.find(name);
  const bool is_own = at != entries_.end() && at->second.bytes != 0;
  put(name, Known::present, is_own ? at->second.bytes : 0, is_own ? at->second.until : until);
}

void KnownNames::note_absent(const PageName& name, Clock::time_point until) {
  put(name, Known::absent, 0, until);
}

void KnownNames::note(const PageName& name, Known known) {
  if (known == Known::nothing) {
    if (const auto at = entries_.find(name); at != entries_.end()) remove(at);
    return;
  }
  put(name, known, 0, Clock::time_point::max());
}

}  // namespace folio::inline v1::tier::redis
