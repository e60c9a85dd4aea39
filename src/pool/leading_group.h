// SPDX-License-Identifier: Apache-2.0
/// pool/leading_group.h: the leading group: pages with content, by which all is found.
///
/// Its pages live as those of every group (page_life.h). Beside that they have tokens, which the
/// indices find, and companions in the other groups, which go with the content; a policy of
/// eviction orders those that are cached. A pool of one kind of pages has this group alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "folio/pool/page_pool.h"
#include "pool/eviction/policies.h"
#include "pool/eviction/retention.h"
#include "pool/groups/groups.h"
#include "pool/lookup/head_index.h"
#include "pool/lookup/prefix_index.h"
#include "pool/outside/event_log.h"
#include "pool/outside/page_ages.h"
#include "pool/pages/page_extras.h"
#include "pool/pages/page_life.h"

namespace folio::inline v1::pool {

struct LeadingGroup : GroupTable, PageLife<LeadingGroup, PageRecord> {
  static constexpr bool has_content = true;
  static constexpr uint32_t number = 0;

  /// `given`: checked, defaults filled in.
  explicit LeadingGroup(const PoolOptions& given) noexcept : options(without_groups(given)) {
    num_pages = given.num_pages;
    groups.lay_out(given);
  }

  // Content.
  [[nodiscard]] TokenId* tokens_of(uint32_t page) const noexcept {
    return tokens + int64_t{page} * options.page_size;
  }
  /// Of a page that is full.
  [[nodiscard]] std::span<const TokenId> full_page(uint32_t page) const noexcept {
    return {tokens_of(page), static_cast<size_t>(options.page_size)};
  }
  /// Tokens of a page that HeadIndex has.
  [[nodiscard]] int32_t fill_of(uint32_t page) const noexcept {
    return records[page].is_tail ? static_cast<int32_t>(records[page].fill) : options.page_size;
  }
  /// Takes what is findable of the page away: its content, or its being a tail.
  void forget(uint32_t page) noexcept;
  /// A tail answers no more: free, unless something holds it.
  void give_up_tail(uint32_t page) noexcept;

  // A page's life: PageLife.
  void add_row(uint32_t page) noexcept {
    pages_of_sequences += records[page].references++ == 0 ? 1 : 0;
  }
  [[nodiscard]] bool drop_row(uint32_t page) noexcept {
    if (--records[page].references != 0) return false;
    --pages_of_sequences;
    return true;
  }
  void note_used(uint32_t page) noexcept { groups.slabs.set(number, page, PageUse::used); }
  void rest(uint32_t page) noexcept;
  void lose(uint32_t page) noexcept;

  // Which page goes.
  /// Calls of the default policy are not virtual: they are on the way of every page.
  template <class Call>
  decltype(auto) with_policy(Call call) noexcept {
    return lru != nullptr ? call(*lru) : call(*eviction);
  }
  [[nodiscard]] uint32_t available() const noexcept {
    if (groups.slabs.has(number))
      return options.num_pages - groups.slabs.count(number, PageUse::used);
    return lists.count(PageList::free) + lists.count_evictable();
  }
  /// The cached page that goes first, or no_page.
  [[nodiscard]] uint32_t oldest_cached() noexcept;
  /// The one that goes before all slabs with other cached ones, or no_page: of an empty slab, if
  /// one of these is the group's, the pages are below the normal level.
  [[nodiscard]] uint32_t first_to_go(bool in_own) noexcept {
    return in_own ? oldest_cached() : no_page;
  }
  /// Of the group's pages that are not used the least goes first.
  [[nodiscard]] int place_of(uint32_t page) const noexcept {
    return records[page].list == PageList::free ? -1 : 2 * records[page].level;
  }

  [[nodiscard]] GroupFigures figures() const noexcept;

  const PoolOptions options;
  TokenId* tokens = nullptr;  ///< [num_pages, page_size]

  PageExtras extras;
  struct Places {  ///< of those options that are on
    PageExtras::Place heads = 0, wheel = 0, ages = 0;
  };
  Places places;
  EvictionPolicy* eviction = nullptr;
  Lru* lru = nullptr;              ///< the same, if it is that
  Retention* retention = nullptr;  ///< with PoolOptions::max_retention_ms
  PrefixIndex index;
  HeadIndex heads;
  Groups groups;  ///< the companions, and the slabs of all groups
  PageAges ages;
  uint32_t pages_of_sequences = 0;  ///< pages with references

  /// `ghosts`: of a policy that has them.
  void start_policy(const Ghosts& ghosts) noexcept {
    use_policy(policy_of(options.eviction)
                   .make(policy_, {records, &lists, options.max_pages_per_sequence, ghosts}));
  }
  /// A policy that outlives the group; no page is cached.
  void use_policy(EvictionPolicy* policy) noexcept {
    eviction = policy;
    lru = std::get_if<Lru>(&policy_);
    if (lru != policy) lru = nullptr;
  }

 private:
  [[nodiscard]] static PoolOptions without_groups(PoolOptions o) noexcept {
    o.groups = {};  // the caller's memory: `groups` has copied what it says
    return o;
  }
  void prefetch_behind(const PageRecord& record) noexcept;
  /// Another page with the content of `page`, the findable one if it is not that; no_page without.
  [[nodiscard]] uint32_t heir_of(uint32_t page) const noexcept {
    if (!index.has_twin(page)) return no_page;
    return records[page].findable ? records[page].twin_next : index.findable_twin(page);
  }

  AnyPolicy policy_;
  uint32_t coming_[distance_ahead] = {};  ///< pages that will be evicted soon: advice
  uint32_t num_coming_ = 0;
};

}  // namespace folio::inline v1::pool
