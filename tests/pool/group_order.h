// SPDX-License-Identifier: Apache-2.0
/// tests/pool/group_order.h: what may go first of a hybrid pool's cached pages, by a look before a
/// call and one behind it.
///
/// Of a group, what is free is taken first, then the lowest level, of the normal one what is behind
/// before what is ordinary (folio/pool/retention.h, docs/hybrid.md). A page of another group goes
/// with its leading page, and all pages of a slab go when another group takes it; of slabs those go
/// first whose pages are all below the normal level, or behind, and those last with one above it.
/// Where every slab is spoken for, the order holds within each.
#pragma once

#include <cstdint>
#include <vector>

#include "folio/pool/page_pool.h"

namespace folio::test {

/// How exactly a call knows what it takes.
enum class Room : uint8_t {
  exact,
  may_be_too_much,  ///< so slabs may be spoken for that are left over
};

class GroupOrder {
 public:
  explicit GroupOrder(const PagePool& pool);

  /// Since then, one call has taken pages and has given none back: each that has gone had to.
  /// Returns how many have gone for which the level decided.
  [[nodiscard]] int64_t expect_kept_by(const PagePool& pool, Room room = Room::exact) const;

 private:
  /// What waits for less goes first.
  static constexpr int outside = -2, used = -1, free = 0;
  struct Page {
    int place = outside;   ///< as above, or that of a cached one
    uint64_t what = 0;     ///< it has
    uint32_t leading = 0;  ///< whose companion it is
    bool operator==(const Page&) const = default;
  };
  [[nodiscard]] static Page leading_page(const PagePool& pool, uint32_t page);
  [[nodiscard]] static Page companion_page(const PagePool& pool, uint32_t group, uint32_t page);
  [[nodiscard]] static int place_of(int level, bool behind);
  /// 0: below the normal level, behind or free; 1: ordinary, or used; 2: above the normal level.
  [[nodiscard]] static int keeps(int place);
  /// Gone with its leading page, whatever its own level was.
  [[nodiscard]] bool went_along(const GroupOrder& now, uint32_t group, uint32_t page) const;
  [[nodiscard]] bool is_gone(const GroupOrder& now, uint32_t group, uint32_t page) const;
  [[nodiscard]] uint32_t slab_of(uint32_t group, uint32_t page) const;
  /// What a slab kept, without pages that went along.
  [[nodiscard]] int kept_in(const GroupOrder& now, uint32_t slab) const;
  /// Of the unused slabs in which nothing has changed, the least that one keeps; 3: there is none.
  [[nodiscard]] int least_kept(const GroupOrder& now) const;
  [[nodiscard]] bool has_taken(const GroupOrder& now, uint32_t group) const;
  /// Whether the slab may have gone to another group and come back: it is as if it were new.
  [[nodiscard]] bool may_come_back(const GroupOrder& now, uint32_t group, uint32_t slab) const;
  void expect_order(const GroupOrder& now, uint32_t group, uint32_t page, bool across) const;

  std::vector<std::vector<Page>> pages_;  ///< of each group
  std::vector<uint32_t> pages_per_slab_;  ///< 0: the group has none
  std::vector<uint32_t> owners_;          ///< of slabs
  bool has_spare_ = false;                ///< slabs in which no page is used
};

}  // namespace folio::test
