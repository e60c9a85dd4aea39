// SPDX-License-Identifier: Apache-2.0
/// pool/inspection.h: a look into a pool, for tests.
#pragma once

#include <span>

#include "pool/pool_state.h"

namespace folio::inline v1::pool {

struct PoolInspection {
  /// Of a pool that has not been moved from.
  [[nodiscard]] static const pool::PrefixIndex& index(const PagePool& pool) noexcept {
    return pool.state_->index;
  }
  [[nodiscard]] static const pool::HeadIndex& heads(const PagePool& pool) noexcept {
    return pool.state_->heads;
  }
  [[nodiscard]] static const pool::PageRecord& record(const PagePool& pool,
                                                      uint32_t page) noexcept {
    return pool.state_->records[page];
  }
  [[nodiscard]] static std::span<const TokenId> tokens(const PagePool& pool,
                                                       uint32_t page) noexcept {
    return {pool.state_->tokens_of(page), static_cast<size_t>(pool.page_size())};
  }
  /// Of a pool without cached pages; `policy` outlives it.
  static void use_policy(PagePool& pool, pool::EvictionPolicy* policy) noexcept {
    pool.state_->use_policy(policy);
  }
  [[nodiscard]] static pool::PageLists* lists(PagePool& pool) noexcept {
    return &pool.state_->lists;
  }
  /// Takes a cached page out of the cache; a companion may have gone already.
  static void evict(PagePool& pool, uint32_t group, uint32_t page) noexcept {
    pool.state_->with_group(group, [page](auto& of) { take_out(of, page); });
  }
  [[nodiscard]] static const pool::Groups& groups(const PagePool& pool) noexcept {
    return pool.state_->groups;
  }
  /// Null without PoolOptions::max_retention_ms.
  [[nodiscard]] static const pool::Retention* retention(const PagePool& pool) noexcept {
    return pool.state_->retention;
  }
  [[nodiscard]] static const pool::Namespaces& namespaces(const PagePool& pool) noexcept {
    return pool.state_->namespaces;
  }
  [[nodiscard]] static const pool::ItemSpans& items(const PagePool& pool) noexcept {
    return pool.state_->items;
  }

 private:
  static void take_out(pool::LeadingGroup& group, uint32_t page) noexcept {
    group.forget(page);
    group.lists.unlink(page);
    group.settle(page);
  }
  static void take_out(pool::Group& group, uint32_t page) noexcept {
    if (group.records[page].leading != pool::no_page) group.detach(page);
  }
};

}  // namespace folio::inline v1::pool
