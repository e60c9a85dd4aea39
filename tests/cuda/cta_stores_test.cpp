// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_stores_test.cpp: boxes and bytes stored from shared memory in the emulator: what
/// must be fenced before and waited for after.
#include "cuda/cta_tiles.h"

namespace folio::test {
namespace {

struct StoreFaults {
  bool fences = true;
  bool waits = true;
  bool overwrites = false;
};

auto store_tile(Matrix& m, StoreFaults f = {}) {
  return [&m, f](EmulatedThread& t) {
    for (int r = 0; r < 16; ++r) {
      for (int c = t.lane(); c < 64; c += 32)
        t.store_shared(element(t, r, c), static_cast<uint16_t>(100 * r + c));
    }
    if (f.fences) t.fence_async();
    t.sync_block();
    if (t.thread() != 0) return;
    t.store_tile<2>(m.out_map, {{0, 8}}, at(t, tile_at));
    t.store_bulk(m.out.data(), at(t, tile_at), 16);
    t.commit_stores();
    if (f.overwrites) t.store_shared(element(t, 0, 0), uint16_t{1});
    if (f.waits) t.wait_stores<0>();
  };
}

TEST(CtaStores, stores_write_boxes_and_bytes) {
  Matrix m;
  const GridCounts counts = expect_none(one_warp, store_tile(m), m.memory());
  EXPECT_EQ(counts.tma_stored_bytes, tile_bytes + 16);
  EXPECT_EQ(m.out[0], 0);
  EXPECT_EQ(m.out[7], 7);
  EXPECT_EQ(m.out[8], 0xffff);
  EXPECT_EQ(m.out[(8 + 15) * 64 + 63], 100 * 15 + 63);
  EXPECT_EQ(m.out[24 * 64], 0xffff);
}

TEST(CtaStores, stores_of_what_was_not_fenced_are_found) {
  Matrix m;
  expect_fault(one_warp, "lets a store touch shared byte", store_tile(m, {.fences = false}),
               m.memory());
}

TEST(CtaStores, stores_that_are_not_waited_for_are_found) {
  Matrix m;
  expect_fault(one_warp, "ends while a store of its own is in flight",
               store_tile(m, {.waits = false}), m.memory());
}

TEST(CtaStores, an_overwrite_of_what_is_being_stored_is_found) {
  Matrix m;
  expect_fault(one_warp, "which a store of block 0 warp 0 lane 0 reads unordered",
               store_tile(m, {.overwrites = true}), m.memory());
}

TEST(CtaStores, a_wait_for_reads_frees_shared_memory_and_orders_no_write) {
  Matrix m;
  const auto kernel = [&](bool loads) {
    return [&, loads](EmulatedThread& t) {
      if (t.thread() != 0) return;
      t.store_shared(at(t, 0), uint64_t{5});
      t.store_shared(at(t, 8), uint64_t{6});
      t.fence_async();
      t.store_bulk(m.out.data(), at(t, 0), 16);
      t.commit_stores();
      t.wait_store_reads<0>();
      t.store_shared(at(t, 0), uint64_t{7});
      if (loads) t.load(m.out.data());
      t.wait_stores<0>();
      if (t.load(m.out.data()) != 5) t.fail("another value");
    };
  };
  expect_none(one_warp, kernel(false), m.memory());
  expect_fault(one_warp, "reads out byte 0 before the write of a store of block 0", kernel(true),
               m.memory());
}

}  // namespace
}  // namespace folio::test
