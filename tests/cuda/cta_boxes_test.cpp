// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_boxes_test.cpp: boxes of tensor maps and bulk copies to shared memory in the
/// emulator: what they bring, what must be fenced before, what they may not touch.
#include "cuda/cta_tiles.h"

namespace folio::test {
namespace {

TEST(CtaBoxes, a_box_is_there_after_its_barrier) {
  Matrix m;
  const GridCounts counts = expect_none(one_warp, load_tile(m, 32), m.memory());
  EXPECT_EQ(counts.tma_copies, 1);
  EXPECT_EQ(counts.tma_bytes, tile_bytes);
  EXPECT_EQ(counts.tma_read_bytes, tile_bytes);
}

TEST(CtaBoxes, rows_beyond_the_tensor_are_zeros_and_no_traffic) {
  Matrix m;
  const GridCounts counts = expect_none(one_warp, load_tile(m, 60), m.memory());
  EXPECT_EQ(counts.tma_bytes, tile_bytes);
  EXPECT_EQ(counts.tma_read_bytes, 4 * 128);
}

TEST(CtaBoxes, gathers_bring_four_rows) {
  Matrix m;
  const GridCounts counts = expect_none(
      one_warp,
      [&](EmulatedThread& t) {
        make_barrier(t);
        if (t.thread() == 0) {
          t.arrive_expecting(at(t, 0), 4 * 128);
          t.copy_gather4(m.row_map, {{0, 9, -1, 40, 9}}, at(t, tile_at), at(t, 0));
        }
        t.wait(at(t, 0), 0);
        const int rows[] = {9, -1, 40, 9};
        for (int r = 0; r < 4; ++r) {
          const int expected = rows[r] < 0 ? 0 : rows[r] * 64 + t.lane();
          if (t.load_shared<uint16_t>(element(t, r, t.lane())) != expected) t.fail("another");
        }
      },
      m.memory());
  EXPECT_EQ(counts.tma_read_bytes, 3 * 128);
}

TEST(CtaBoxes, bulk_copies_bring_bytes) {
  Matrix m;
  expect_none(
      one_warp,
      [&](EmulatedThread& t) {
        make_barrier(t);
        if (t.thread() == 0) {
          t.arrive_expecting(at(t, 0), 64);
          t.copy_bulk(at(t, 16), m.in.data() + 8, 64, at(t, 0));
        }
        t.wait(at(t, 0), 0);
        if (t.load_shared<uint16_t>(at(t, 16 + 2 * t.lane())) != 8 + t.lane()) t.fail("another");
      },
      m.memory());
}

TEST(CtaBoxes, a_copy_in_flight_at_the_end_is_found) {
  Matrix m;
  for (uint64_t seed = 1; seed <= 100; ++seed) {  // unless it has landed by then
    Grid grid({.threads = 32, .shared_bytes = 8192, .seed = seed});
    m.memory()(grid);
    const std::string fault = grid.run(load_tile(m, 0, {.waits = false}));
    if (fault.find("is the last to end, while a copy is in flight") != std::string::npos) return;
    EXPECT_EQ(fault, "");
  }
  ADD_FAILURE() << "every copy landed before the end of a kernel that waits for none";
}

TEST(CtaBoxes, an_overwrite_by_a_box_needs_a_fence_of_who_wrote) {
  Matrix m;
  const auto kernel = [&](bool fences) {
    return [&, fences](EmulatedThread& t) {
      for (int r = 0; r < 16; ++r) t.store_shared(at(t, tile_at + 128 * r + 4 * t.lane()), 0);
      if (fences) t.fence_async();
      load_tile(m, 0)(t);
    };
  };
  expect_none(one_warp, kernel(true), m.memory());
  expect_fault(one_warp, "has written without a fence_async", kernel(false), m.memory());
}

TEST(CtaBoxes, a_fence_of_another_thread_is_not_enough) {
  Matrix m;
  expect_fault(
      one_warp, "has written without a fence_async",
      [&](EmulatedThread& t) {
        t.store_shared(at(t, tile_at + 4 * t.lane()), 0);
        t.sync_block();
        if (t.thread() == 0) t.fence_async();
        load_tile(m, 0)(t);
      },
      m.memory());
}

TEST(CtaBoxes, a_fence_that_the_copying_thread_has_not_seen_is_not_enough) {
  Matrix m;
  expect_fault(
      one_warp, "has written without a fence_async before they met",
      [&](EmulatedThread& t) {
        make_barrier(t);
        t.store_shared(at(t, tile_at + 4 * t.lane()), 0);
        t.sync_block();
        t.fence_async();
        t.ballot(true);  // all have fenced, which nothing orders
        if (t.thread() == 0) {
          t.arrive_expecting(at(t, 0), tile_bytes);
          t.copy_tile<2>(m.in_map, {{0, 0}}, at(t, tile_at), at(t, 0));
        }
        t.wait(at(t, 0), 0);
      },
      m.memory());
}

TEST(CtaBoxes, a_box_onto_what_is_being_read_is_found) {
  Matrix m;
  const auto kernel = [&](bool meets) {
    return [&, meets](EmulatedThread& t) {
      make_barrier(t);
      for (uint32_t round = 0; round < 2; ++round) {
        if (t.thread() == 0) {
          t.arrive_expecting(at(t, 0), tile_bytes);
          t.copy_tile<2>(m.in_map, {{0, 16}}, at(t, tile_at), at(t, 0));
        }
        t.wait(at(t, 0), round & 1);
        t.load_shared<uint16_t>(element(t, 3, t.lane()));
        if (meets) t.sync_warp();
      }
    };
  };
  expect_none(one_warp, kernel(true), m.memory());
  expect_fault(one_warp, "shared byte", kernel(false), m.memory());
}

TEST(CtaBoxes, misaligned_copies_are_found) {
  Matrix m;
  const auto by_one = [](auto f) {
    return [=](EmulatedThread& t) {
      make_barrier(t);
      if (t.thread() == 0) f(t);
    };
  };
  expect_fault(one_warp, "no multiple of 128", by_one([&](EmulatedThread& t) {
                 t.copy_tile<2>(m.in_map, {{0, 0}}, at(t, 64), at(t, 0));
               }),
               m.memory());
  expect_fault(one_warp, "no multiple of 16", by_one([&](EmulatedThread& t) {
                 t.copy_bulk(at(t, 16), m.in.data() + 1, 16, at(t, 0));
               }),
               m.memory());
  expect_fault(one_warp, "which is no multiple of 16", by_one([&](EmulatedThread& t) {
                 t.copy_bulk(at(t, 16), m.in.data(), 24, at(t, 0));
               }),
               m.memory());
  expect_fault(one_warp, "which is outside", by_one([&](EmulatedThread& t) {
                 t.copy_tile<2>(m.in_map, {{0, 0}}, at(t, 8192 - 1024), at(t, 0));
               }),
               m.memory());
  expect_fault(one_warp, "no multiple of 16",
               by_one([&](EmulatedThread& t) { t.copy_async(at(t, 16), m.in.data() + 4, true); }),
               m.memory());
}

TEST(CtaBoxes, maps_of_other_ranks_or_encoders_are_found) {
  Matrix m;
  expect_fault(
      one_warp, "gives 3 coordinates for a map of rank 2",
      [&](EmulatedThread& t) {
        t.prefetch_tile<3>(m.in_map, {{0, 0, 0}});
      },
      m.memory());
  expect_fault(
      one_warp, "a tensor map that the emulator has not encoded",
      [&](EmulatedThread& t) { t.prefetch_map(tma::EncodedTensorMap{}); }, m.memory());
}

TEST(CtaBoxes, boxes_of_memory_that_was_not_given_are_found) {
  Matrix m;
  expect_fault(one_warp, "copies 128 bytes of global memory that it was not given", load_tile(m, 0),
               [&](Grid& grid) { grid.add_input("in", m.in.data(), 15 * 128); });
}

TEST(CtaBoxes, prefetches_are_counted) {
  Matrix m;
  const GridCounts counts = expect_none(
      one_warp,
      [&](EmulatedThread& t) {
        t.prefetch_map(m.in_map);
        t.prefetch_tile<2>(m.in_map, {{0, 0}});
      },
      m.memory());
  EXPECT_EQ(counts.prefetches, 32);
}

}  // namespace
}  // namespace folio::test
