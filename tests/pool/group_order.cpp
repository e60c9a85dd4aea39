// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_order.cpp: every page that has gone is compared with every one that has not.
#include "pool/group_order.h"

#include <algorithm>

#include <rapidcheck.h>

#include "pool/inspection.h"

namespace folio::test {

GroupOrder::GroupOrder(const PagePool& pool) {
  const pool::Groups& groups = pool::PoolInspection::groups(pool);
  for (uint32_t g = 0; g < pool.num_groups(); ++g) {
    pages_.emplace_back();
    pages_per_slab_.push_back(groups.slabs.layout().pages_per_slab[g]);
    for (uint32_t page = 0; page < pool.group(g).value().num_pages; ++page)
      pages_[g].push_back(g == 0 ? leading_page(pool, page) : companion_page(pool, g, page));
  }
  for (uint32_t slab = 0; slab < groups.slabs.layout().num_slabs; ++slab)
    owners_.push_back(groups.slabs.owner(slab));
  constexpr uint32_t nothing[pool::max_groups] = {};
  has_spare_ = groups.slabs.can_give(nothing, 1);
}

int GroupOrder::place_of(int level, bool behind) {
  return 1 + 2 * level + (level == retention_level::normal && !behind ? 1 : 0);
}

int GroupOrder::keeps(int place) {
  if (place > place_of(retention_level::normal, false)) return 2;
  return place > place_of(retention_level::normal, true) ? 1 : 0;
}

GroupOrder::Page GroupOrder::leading_page(const PagePool& pool, uint32_t page) {
  const pool::PageRecord& record = pool::PoolInspection::record(pool, page);
  Page seen{
      .place = outside, .what = record.is_tail ? ~record.parent : record.content, .leading = page};
  if (record.references != 0 || record.copies != 0 || record.list == pool::PageList::leaving)
    seen.place = used;
  if (record.list == pool::PageList::free) seen.place = free;
  if (pool::is_cached(record.list)) seen.place = place_of(record.level, false);
  return seen;
}

GroupOrder::Page GroupOrder::companion_page(const PagePool& pool, uint32_t group, uint32_t page) {
  const pool::GroupPage& p = pool::PoolInspection::groups(pool)[group].records[page];
  Page seen;
  if (p.leading != pool::no_page) seen = leading_page(pool, p.leading);
  seen.place = p.holds != 0 || p.steps != 0 ? used : outside;
  if (p.list == pool::PageList::free) seen.place = free;
  if (pool::is_cached(p.list))
    seen.place =
        place_of(pool::PoolInspection::record(pool, p.leading).level, p.list == pool::behind_queue);
  return seen;
}

uint32_t GroupOrder::slab_of(uint32_t group, uint32_t page) const {
  return pages_per_slab_[group] == 0 ? pool::no_slab : page / pages_per_slab_[group];
}

bool GroupOrder::is_gone(const GroupOrder& now, uint32_t group, uint32_t page) const {
  const Page& was = pages_[group][page];
  return was.place > free && now.pages_[group][page].what != was.what;
}

bool GroupOrder::went_along(const GroupOrder& now, uint32_t group, uint32_t page) const {
  const Page& was = pages_[group][page];
  return group != 0 && now.pages_[0][was.leading].what != was.what;
}

int GroupOrder::kept_in(const GroupOrder& now, uint32_t slab) const {
  const uint32_t owner = owners_[slab];
  int most = 0;
  for (uint32_t page = 0; owner < pages_.size() && page < pages_[owner].size(); ++page) {
    if (slab_of(owner, page) != slab) continue;
    const Page& was = pages_[owner][page];
    const bool counts = was.place <= free || !went_along(now, owner, page);
    if (counts) most = std::max(most, keeps(was.place));
  }
  return most;
}

int GroupOrder::least_kept(const GroupOrder& now) const {
  int least = 3;
  for (uint32_t slab = 0; slab < owners_.size(); ++slab) {
    const uint32_t owner = owners_[slab];
    bool waits = now.owners_[slab] == owner;
    for (uint32_t page = 0; owner < pages_.size() && page < pages_[owner].size(); ++page) {
      const Page& was = pages_[owner][page];
      waits = waits && (slab_of(owner, page) != slab ||
                        (was.place >= free && was.place != place_of(pool::pinned_level, false) &&
                         now.pages_[owner][page] == was));
    }
    if (waits) least = std::min(least, kept_in(now, slab));
  }
  return least;
}

bool GroupOrder::has_taken(const GroupOrder& now, uint32_t group) const {
  for (uint32_t page = 0; page < pages_[group].size(); ++page) {
    const Page &was = pages_[group][page], &is = now.pages_[group][page];
    if (is.place == used && (was.place <= free ? was.place != used : was.what != is.what))
      return true;
  }
  return false;
}

bool GroupOrder::may_come_back(const GroupOrder& now, uint32_t group, uint32_t slab) const {
  bool others = false;
  for (uint32_t g = 0; g < pages_.size(); ++g) others |= g != group && has_taken(now, g);
  for (uint32_t page = 0; page < pages_[group].size() && others; ++page) {
    const Page& was = pages_[group][page];
    others = slab_of(group, page) != slab ||
             (was.place != used && (was.place == free || is_gone(now, group, page)));
  }
  return others;
}

void GroupOrder::expect_order(const GroupOrder& now, uint32_t group, uint32_t page,
                              bool across) const {
  const Page& gone = pages_[group][page];
  for (uint32_t other = 0; other < pages_[group].size(); ++other) {
    const Page& left = pages_[group][other];
    const bool waits = left.place >= free && now.pages_[group][other] == left;
    if (waits && (across || slab_of(group, other) == slab_of(group, page))) {
      RC_ASSERT(gone.place <= left.place);
    }
  }
}

int64_t GroupOrder::expect_kept_by(const PagePool& pool, Room room) const {
  const GroupOrder now(pool);
  const int least = least_kept(now);
  int64_t by_level = 0;
  for (uint32_t g = 0; g < pages_.size(); ++g) {
    for (uint32_t page = 0; page < pages_[g].size(); ++page) {
      if (!is_gone(now, g, page) || went_along(now, g, page)) continue;
      const int place = pages_[g][page].place;
      RC_ASSERT(place < place_of(pool::pinned_level, false));
      by_level += keeps(place) != 1 ? 1 : 0;
      const uint32_t slab = slab_of(g, page);
      const bool has_slabs = slab != pool::no_slab;
      const bool across = !has_slabs || (now.has_spare_ && room == Room::exact);
      if (has_slabs && (now.owners_[slab] != g || may_come_back(now, g, slab))) {
        RC_ASSERT(kept_in(now, slab) <= least);
        continue;
      }
      expect_order(now, g, page, across);
      if (has_slabs && across) RC_ASSERT(keeps(place) <= least);
    }
  }
  return by_level;
}

}  // namespace folio::test
