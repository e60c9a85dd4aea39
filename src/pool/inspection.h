// SPDX-License-Identifier: Apache-2.0
/// pool/inspection.h: a look into a pool, for tests.
#pragma once

#include "pool/pool_state.h"

namespace folio::inline v1 {

struct PoolInspection {
  /// Of a pool that has not been moved from.
  [[nodiscard]] static const pool::PrefixIndex& index(const PagePool& pool) noexcept {
    return pool.state_->index;
  }
  [[nodiscard]] static const pool::PageRecord& record(const PagePool& pool,
                                                      uint32_t page) noexcept {
    return pool.state_->records[page];
  }
  /// Of a pool without cached pages; `policy` outlives it.
  static void use_policy(PagePool& pool, pool::EvictionPolicy* policy) noexcept {
    pool.state_->eviction = policy;
  }
  [[nodiscard]] static pool::PageLists* lists(PagePool& pool) noexcept {
    return &pool.state_->lists;
  }
  [[nodiscard]] static const pool::Groups& groups(const PagePool& pool) noexcept {
    return pool.state_->groups;
  }
  [[nodiscard]] static const pool::Namespaces& namespaces(const PagePool& pool) noexcept {
    return pool.state_->namespaces;
  }
};

}  // namespace folio::inline v1
