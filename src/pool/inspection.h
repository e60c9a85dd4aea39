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
  [[nodiscard]] static const pool::Namespaces& namespaces(const PagePool& pool) noexcept {
    return pool.state_->namespaces;
  }
};

}  // namespace folio::inline v1
