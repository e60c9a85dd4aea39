// SPDX-License-Identifier: Apache-2.0
/// pool/slabs.h: one arena in equal slabs, each of one group at a time.
///
/// A slab is *empty* (no page of it is used or cached; it may still have an owner, and pages that
/// are *behind*, which count as free), *idle* (pages are cached, none is used) or *bound* (a page
/// is used). Whoever needs a page may take an empty or idle slab from anybody; the pages of a bound
/// one are its owner's alone. So what several groups can get together is known exactly: pages of
/// their own bound slabs, then whole slabs.
#pragma once

#include <cstdint>
#include <span>

#include "core/carver.h"
#include "pool/page_lists.h"

namespace folio::inline v1::pool {

inline constexpr uint32_t max_groups = 8;
inline constexpr uint32_t no_slab = 0xffffffffU;
inline constexpr int64_t max_slab_bytes = int64_t{64} << 20;

enum class PageUse : uint8_t {
  outside,  ///< the slab belongs to another group
  free,
  used,
  cached,
};

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

  /// The page becomes this. Nothing happens if it is that already.
  void set(uint32_t group, uint32_t page, PageUse use) noexcept;
  [[nodiscard]] PageUse use_of(uint32_t group, uint32_t page) const noexcept {
    return pages_[group][page].use;
  }
  [[nodiscard]] uint32_t count(uint32_t group, PageUse use) const noexcept {
    return counts_[group][static_cast<int>(use)];
  }

  /// Whether each group can have that many pages more, all together, and `slabs` are left over.
  [[nodiscard]] bool can_give(const uint32_t (&needs)[max_groups],
                              uint64_t slabs = 0) const noexcept {
    return slabs_needed(needs) + slabs <= empty_.count + idle_.count;
  }
  /// Whether `group` may take a page of any slab, so that the rest of `needs` (this page among
  /// them) is still possible; if not, only one of a bound slab.
  [[nodiscard]] bool may_choose(uint32_t group,
                                const uint32_t (&needs)[max_groups]) const noexcept {
    return needs[group] > bound_[group] || slabs_needed(needs) < empty_.count + idle_.count;
  }

  [[nodiscard]] uint32_t empty_slab() const noexcept { return empty_.front; }
  [[nodiscard]] uint32_t oldest_idle_slab() const noexcept { return idle_.front; }
  /// A bound slab of the group with a page that is not used. Needs one.
  [[nodiscard]] uint32_t bound_slab(uint32_t group) const noexcept { return partial_[group].front; }
  [[nodiscard]] uint32_t owner(uint32_t slab) const noexcept { return slabs_[slab].owner; }
  /// Whether nothing of the slab was used since the page was given up.
  [[nodiscard]] bool is_older(uint32_t slab, uint32_t group, uint32_t page) const noexcept {
    return static_cast<int32_t>(slabs_[slab].since - pages_[group][page].since) < 0;
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
  enum class Place : uint8_t { empty, idle, partial, full };
  struct List {
    uint32_t front = no_slab, back = no_slab, count = 0;
  };
  struct Slab {
    uint32_t previous = no_slab, next = no_slab;
    uint32_t owner = max_groups;  ///< max_groups: nobody
    uint32_t used = 0, cached = 0;
    uint32_t since = 0;  ///< when its last used page was given up
    Place place = Place::empty;
  };
  struct Page {
    uint32_t since = 0;  ///< when it was given up
    PageUse use = PageUse::outside;
  };

  [[nodiscard]] Place place_of(const Slab& slab) const noexcept;
  [[nodiscard]] List* list_of(const Slab& slab) noexcept;
  void move(uint32_t slab, Place to) noexcept;
  [[nodiscard]] uint64_t slabs_needed(const uint32_t (&needs)[max_groups]) const noexcept;

  SlabLayout layout_;
  uint32_t groups_ = 0;
  Slab* slabs_ = nullptr;
  Page* pages_[max_groups] = {};
  List empty_, idle_;
  List partial_[max_groups];
  uint32_t bound_[max_groups] = {};  ///< pages of bound slabs that are not used
  uint32_t counts_[max_groups][4] = {};
  uint32_t clock_ = 0;
};

}  // namespace folio::inline v1::pool
