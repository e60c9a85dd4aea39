// SPDX-License-Identifier: Apache-2.0
/// pool/pages/block.h: where a pool's memory comes from unless its options say otherwise.
#pragma once

#include <cstddef>

namespace folio::inline v1::pool {

/// Aligned for any array of a pool; null where there is none. A large block asks the system for
/// large pages, for the pool's records are touched in no order: a wish, that nothing depends on.
[[nodiscard]] void* allocate_block(size_t bytes) noexcept;
void deallocate_block(void* memory, size_t bytes) noexcept;

}  // namespace folio::inline v1::pool
