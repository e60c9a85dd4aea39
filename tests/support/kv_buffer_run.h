// SPDX-License-Identifier: Apache-2.0
/// tests/support/kv_buffer_run.h: buffers of a block with their first stages loaded, for tests of
/// single members.
#pragma once

#include "folio/attention/operand.h"
#include "folio/core/element.h"
#include "support/kv_buffer_configs.h"
#include "support/kv_buffer_pool.h"

namespace folio::test {

/// All warps' buffers over a pool of `context` keys, head 1; stage 0 holds the first tile (or its
/// first strip).
template <class Config, DType D = DType::bf16>
struct BufferRun {
  using Instance = BufferInstance<Config, D>;
  using Buffer = typename Block<Instance>::Buffer;
  static constexpr int64_t head = 1;

  explicit BufferRun(int64_t context = Buffer::BN, int32_t page_size = 16)
      : pool({.page_size = page_size, .context = context}, rng),
        block(pool.operand(), head, context) {
    for (int64_t token = 0; token < context; ++token) pool.store(token);
    block.load(0);
  }

  Buffer& warp(size_t i = 0) { return block.warp(i); }
  /// What the pool has for a key and a column of the buffer.
  [[nodiscard]] float key(int64_t token, int64_t column) const {
    return pool.expected(token, head, column);
  }
  /// The staged element, unswizzled position `index` of stage 0.
  [[nodiscard]] float raw(int64_t index) const { return to_float(block.smem()[index]); }
  /// Element `e` of MMA tile `mma` of a register tile.
  template <int k_mma, int bk_tile>
  [[nodiscard]] float reg(int mma, int e, int lane = 0, size_t warp_id = 0) {
    return to_float(warp(warp_id).template get_mma_tile<k_mma, bk_tile>(lane)(mma, e));
  }

  Rng rng{7};
  Pool<Instance> pool;
  Block<Instance> block;
};

}  // namespace folio::test
