// SPDX-License-Identifier: Apache-2.0
/// pool/groups/slabs.h: one arena in equal slabs, each of one group at a time.
///
/// A slab is *empty* (no page of it is used or cached; it may still have an owner, and cached pages
/// that are *behind* or below the normal level, which count as free), *idle* (pages are cached,
/// none is used) or *bound* (a page is used). Whoever needs a page may take an empty or idle slab
/// from anybody; the pages of a bound one are its owner's alone. So what several groups can get
/// together is known exactly: pages of their own bound slabs, then whole slabs. Of the idle ones
/// those go last in which a page is *kept*: cached, at a level above the normal one.
#pragma once

#include <cstdint>
#include <span>

#include "core/carver.h"
#include "pool/pages/links.h"
#include "pool/pages/page_record.h"

namespace folio::inline v1::pool {

inline constexpr uint32_t max_groups = 8;
inline constexpr uint32_t no_slab = no_entry;
inline constexpr int64_t max_slab_bytes = int64_t{64} << 20;

enum class PageUse : uint8_t {
  outside,  ///< the slab belongs to another group
  free,     ///< or cached, below the normal level: taken as if it were free
  used,     ///< or pinned
  cached,
  kept,  ///< cached, above the normal level
};
inline constexpr int num_page_uses = 5;
constexpr PageUse use_at_level(uint8_t level) noexcept {
  if (level == pinned_level) return PageUse::used;
  if (level == policy_level) return PageUse::cached;
  return level > policy_level ? PageUse::kept : PageUse::free;
}

/// How the arena is cut.
struct SlabLayout {
  int64_t slab_bytes = 0;  ///< 0: no group has bytes
  uint32_t num_slabs = 0;
  int64_t page_bytes[max_groups] = {};       ///< padded; they divide slab_bytes
  uint32_t pages_per_slab[max_groups] = {};  ///< 0: the group has no bytes
};

/// Slabs of the least common multiple of the page sizes. Where that would be longer than 64 MiB,
/// sizes are rounded up to a power of two, the least with which it is not. One page may be longer.
[[nodiscard]] SlabLayout lay_out_slabs(std::span<const int64_t> page_bytes, int64_t arena_bytes);

/// Pages that nobody uses and that are to be held as they are, and the slabs that they bind.
struct Revived {
  uint32_t pages[max_groups] = {};
  uint32_t slabs[max_groups] = {};
};

class Slabs {
 public:
  void carve(Carver& carver, const SlabLayout& layout, uint32_t groups) noexcept;
  void start() noexcept;  ///< all slabs are empty and nobody's

  /// Whether the group's pages lie in slabs.
  [[nodiscard]] bool has(uint32_t group) const noexcept {
    return layout_.pages_per_slab[group] != 0;
  }
  [[nodiscard]] const SlabLayout& layout() const noexcept { return layout_; }
  [[nodiscard]] uint32_t num_pages(uint32_t group) const noexcept {
    return layout_.num_slabs * layout_.pages_per_slab[group];
  }

  /// The page becomes this. Nothing happens if it is that already, or in no slab.
  void set(uint32_t group, uint32_t page, PageUse use) noexcept {
    if (has(group) && pages_[group][page].use != use) change(group, page, use);
  }
  [[nodiscard]] PageUse use_of(uint32_t group, uint32_t page) const noexcept {
    return pages_[group][page].use;
  }
  [[nodiscard]] uint32_t count(uint32_t group, PageUse use) const noexcept {
    return counts_[group][static_cast<int>(use)];
  }

  /// Whether each group can have that many pages more, all together, and `slabs` are left over.
  [[nodiscard]] bool can_give(const uint32_t (&needs)[max_groups],
                              uint64_t slabs = 0) const noexcept {
    return slabs_needed(needs) + slabs <= spare();
  }
  /// Adds a page, each once; `forget_revived` of each ends the count.
  void revive(uint32_t group, uint32_t page, Revived& revived) noexcept;
  void forget_revived(uint32_t group, uint32_t page) noexcept {
    slabs_[page / layout_.pages_per_slab[group]].is_counted = false;
  }
  /// Whether each group can have that many pages more, all together, once these are held.
  [[nodiscard]] bool can_give(const uint32_t (&needs)[max_groups],
                              const Revived& revived) const noexcept;
  /// Whether `group` may take a page of any slab, so that the rest of `needs` (this page among
  /// them) is still possible; if not, only one of a bound slab.
  [[nodiscard]] bool may_choose(uint32_t group,
                                const uint32_t (&needs)[max_groups]) const noexcept {
    return needs[group] > bound_[group] || slabs_needed(needs) < spare();
  }

  [[nodiscard]] uint32_t empty_slab() const noexcept { return empty_.front; }
  /// The idle slab that goes first.
  [[nodiscard]] uint32_t oldest_idle_slab() const noexcept {
    return idle_.front != no_slab ? idle_.front : keeping_.front;
  }
  /// A bound slab of the group with a page that is not used. Needs one.
  [[nodiscard]] uint32_t bound_slab(uint32_t group) const noexcept { return partial_[group].front; }
  [[nodiscard]] uint32_t owner(uint32_t slab) const noexcept { return slabs_[slab].owner; }
  /// Whether the idle slab goes before the cached page: nothing of it was used since the page was
  /// given up, unless one of the two is kept.
  [[nodiscard]] bool goes_before(uint32_t slab, uint32_t group, uint32_t page) const noexcept {
    const bool keeps = slabs_[slab].kept != 0;
    const Page& p = pages_[group][page];
    if (keeps != (p.use == PageUse::kept)) return !keeps;
    return static_cast<int32_t>(slabs_[slab].since - p.since) < 0;
  }
  [[nodiscard]] uint32_t first_page(uint32_t group, uint32_t slab) const noexcept {
    return slab * layout_.pages_per_slab[group];
  }
  /// Gives the slab, all of whose owner's pages are outside, to `group`; its pages are outside,
  /// too.
  void claim(uint32_t slab, uint32_t group) noexcept { slabs_[slab].owner = group; }

  /// What is wrong, or null.
  [[nodiscard]] const char* fault() const noexcept;

 private:
  enum class Place : uint8_t { empty, idle, keeping, partial, full };
  static constexpr int num_places = 5;
  struct List : ListEnds {
    uint32_t count = 0;
  };
  struct Slab {
    uint32_t previous = no_slab, next = no_slab;
    uint32_t owner = max_groups;  ///< max_groups: nobody
    uint32_t used = 0, cached = 0, kept = 0;
    uint32_t since = 0;  ///< when its last used page was given up
    Place place = Place::empty;
    bool is_counted = false;  ///< by `revive`
  };
  struct Page {
    uint32_t since = 0;  ///< when it was given up
    PageUse use = PageUse::outside;
  };

  [[nodiscard]] uint64_t spare() const noexcept {
    return uint64_t{empty_.count} + idle_.count + keeping_.count;
  }
  /// How many of the slab's pages are so; null of a use that slabs do not count.
  [[nodiscard]] static uint32_t* count_of(Slab& slab, PageUse use) noexcept;
  [[nodiscard]] Place place_of(const Slab& slab) const noexcept;
  [[nodiscard]] List* list_of(const Slab& slab) noexcept;
  void move(uint32_t slab, Place to) noexcept;
  void change(uint32_t group, uint32_t page, PageUse use) noexcept;
  [[nodiscard]] uint64_t slabs_needed(const uint32_t (&needs)[max_groups],
                                      const Revived& revived = {}) const noexcept;

  SlabLayout layout_;
  uint32_t groups_ = 0;
  Slab* slabs_ = nullptr;
  Page* pages_[max_groups] = {};
  List empty_, idle_, keeping_;
  List partial_[max_groups];
  uint32_t bound_[max_groups] = {};  ///< pages of bound slabs that are not used
  uint32_t counts_[max_groups][num_page_uses] = {};
  uint32_t clock_ = 0;
};

}  // namespace folio::inline v1::pool
