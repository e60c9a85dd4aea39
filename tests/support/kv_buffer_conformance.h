// SPDX-License-Identifier: Apache-2.0
/// tests/support/kv_buffer_conformance.h: what every instance of KVBuffer must do, over pools full
/// of NaN.
///
/// A type-parameterised suite. An instance is a BufferInstance, or a BufferInstanceApart where it
/// is compiled for an instruction set of its own (kv_buffer_pool.h); a test program says
/// INSTANTIATE_TYPED_TEST_SUITE_P(Name, KVBufferConformance, ::testing::Types<...>).
#pragma once

#include <gtest/gtest.h>

#include "support/kv_buffer_pool.h"

namespace folio::test {

template <class Instance>
class KVBufferConformance : public ::testing::Test {
 protected:
  using Shape = typename Pool<Instance>::Shape;
  using Warps = typename Instance::BlockType;

  void SetUp() override {
    if (!Instance::can_run()) GTEST_SKIP() << "this machine has not the instance's instruction set";
  }

  /// Whether the instance takes such planes. Some need a tensor map, and refuse planes that have
  /// none by the map's check().
  static bool can_load(const Pool<Instance>& pool) {
    if constexpr (requires { Warps::can_load(pool.operand()); })
      return Warps::can_load(pool.operand());
    return true;
  }

  /// Compares a stage that holds strip `strip` of the keys from `first` on, of which those for
  /// which `is_live` exist.
  template <class IsLive>
  void expect_stage(const Warps& block, const Pool<Instance>& pool, int stage, int64_t first,
                    int64_t head, int strip, IsLive is_live) {
    int wrong = 0;
    for (int key = 0; key < Shape::BN; ++key) {
      for (int column = 0; column < Shape::smem_cols; ++column) {
        const float expected =
            is_live(key) ? pool.expected(first + key, head, strip * Shape::bk_smem + column) : 0.0f;
        const float staged = block.at(stage, key, column);
        if (staged == expected || ++wrong > 3) continue;
        ADD_FAILURE() << "key " << first + key << ", column " << strip * Shape::bk_smem + column
                      << " of head " << head << " is " << staged << ", expected " << expected;
      }
    }
    EXPECT_EQ(wrong, 0);
  }

  /// Walks a sequence tile by tile, strip by strip, stage by stage.
  void expect_walk(const PoolSpec& spec, Rng& rng) {
    SCOPED_TRACE(::testing::Message()
                 << "page_size " << spec.page_size << ", context " << spec.context
                 << ", missing columns " << spec.missing_columns << ", hole " << spec.has_hole
                 << ", order " << static_cast<int>(spec.order));
    Pool<Instance> pool(spec, rng);
    if (!can_load(pool)) return;
    for (int64_t token = 0; token < spec.context; ++token) pool.store(token);
    const int64_t head = rng.between(0, Pool<Instance>::heads - 1);
    Warps block(pool.operand(), head, spec.context);
    // one tile past the end
    for (int load = 0; load * Shape::BN < (spec.context + Shape::BN) * Shape::num_strips; ++load) {
      block.load(load % Shape::num_smem_stages);
      // loading leaves the stage before alone
      for (int last = load > 0 ? load - 1 : 0; last <= load; ++last) {
        const int64_t first = int64_t{last / Shape::num_strips} * Shape::BN;
        expect_stage(block, pool, last % Shape::num_smem_stages, first, head,
                     last % Shape::num_strips, [&](int key) { return first + key < spec.context; });
      }
    }
  }
};

TYPED_TEST_SUITE_P(KVBufferConformance);

TYPED_TEST_P(KVBufferConformance, rows_past_the_end_and_of_unassigned_pages_read_as_zero) {
  constexpr int64_t tile = TestFixture::Shape::BN;
  Rng rng(test_seed());
  for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
    for (const int32_t page_size : {0, 1, 5, 8, 16, 32, 64, 256}) {
      for (const int64_t context : {int64_t{1}, tile - 1, tile, 2 * tile + 17})
        this->expect_walk(
            {.page_size = page_size, .order = order, .context = context, .has_hole = page_size > 0},
            rng);
    }
  }
}

TYPED_TEST_P(KVBufferConformance, columns_that_a_row_has_not_read_as_zero) {
  Rng rng(test_seed());
  for (const int32_t missing : {4, 8, 12, TestFixture::Shape::depth / 2}) {
    this->expect_walk({.page_size = 16, .context = 130, .missing_columns = missing}, rng);
    this->expect_walk({.page_size = 16, .context = 64, .missing_columns = missing, .gap = 3}, rng);
  }
}

/// A tile found once for all heads: rows that nobody sees were never stored, so they are NaN in the
/// pool.
TYPED_TEST_P(KVBufferConformance, rows_that_nobody_sees_read_as_zero) {
  if constexpr (TestFixture::Shape::BN == tile_keys) {
    Rng rng(test_seed());
    const uint64_t masks[] = {
        ~uint64_t{0},   0,          1,          uint64_t{1} << 63,      0xffff0000ffff0000u,
        0x00ffffffffff, rng.next(), rng.next(), rng.next() & rng.next()};
    for (const StorageOrder order : {StorageOrder::token_major, StorageOrder::head_major}) {
      for (const int32_t page_size : {0, 1, 7, 16, 64, 512}) {
        for (const uint64_t mask : masks) {
          SCOPED_TRACE(::testing::Message()
                       << "page_size " << page_size << ", seen " << std::hex << mask);
          Pool<TypeParam> pool(
              {.page_size = page_size, .order = order, .context = 192, .has_hole = page_size == 7},
              rng);
          for (int key = 0; key < 64; ++key)
            if ((mask >> key & 1) != 0) pool.store(64 + key);
          KeyTile keys;
          keys.first = 64;
          keys.seen = mask;
          const PagedKVView view = pool.view();
          PageCursor(view, {pool.table(), 0, nullptr}, 0).find(keys);
          typename TypeParam::BlockType block(pool.operand(), 0, 0);
          for (int64_t head = 0; head < Pool<TypeParam>::heads; ++head) {
            block.set_tile(keys, head);
            for (int strip = 0; strip < TestFixture::Shape::num_strips; ++strip) {
              block.load(strip % 2);
              this->expect_stage(block, pool, strip % 2, 64, head, strip,
                                 [&](int key) { return (mask >> key & 1) != 0; });
            }
          }
        }
      }
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(KVBufferConformance,
                            rows_past_the_end_and_of_unassigned_pages_read_as_zero,
                            columns_that_a_row_has_not_read_as_zero,
                            rows_that_nobody_sees_read_as_zero);

}  // namespace folio::test
