// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_barriers_test.cpp: barriers that copies complete in the emulator: byte counts,
/// phases, arrivals, rings.
#include "cuda/cta_tiles.h"

namespace folio::test {
namespace {

TEST(CtaBarriers, too_large_a_byte_count_is_a_deadlock) {
  Matrix m;
  expect_fault(one_warp, "(0 arrivals and 16 bytes are missing)",
               load_tile(m, 0, {.expected = tile_bytes + 16}), m.memory());
}

TEST(CtaBarriers, too_small_a_byte_count_is_found) {
  // The barrier's bytes never come to zero again.
  Matrix m;
  expect_fault(one_warp, "deadlock", load_tile(m, 0, {.expected = tile_bytes - 16}), m.memory());
}

TEST(CtaBarriers, a_copy_that_no_arrival_expects_is_found) {
  Matrix m;
  expect_fault(
      one_warp, "wrong byte count",
      [&](EmulatedThread& t) {
        make_barrier(t);
        if (t.thread() == 0) {
          t.copy_tile<2>(m.in_map, {{0, 0}}, at(t, tile_at), at(t, 0));
          t.arrive(at(t, 0));
        }
        t.wait(at(t, 0), 0);
        t.load_shared<uint16_t>(element(t, 0, 0));
      },
      m.memory());
}

TEST(CtaBarriers, a_wait_for_the_phase_before_is_found) {
  // A fresh barrier lets parity 1 pass at once.
  Matrix m;
  expect_fault(one_warp, "reads shared byte", load_tile(m, 0, {.parity = 1}), m.memory());
}

TEST(CtaBarriers, a_parity_that_is_not_flipped_is_found) {
  Matrix m;
  const auto kernel = [&](bool flips) {
    return [&, flips](EmulatedThread& t) {
      make_barrier(t);
      for (uint32_t round = 0; round < 3; ++round) {
        if (t.thread() == 0) {
          t.arrive_expecting(at(t, 0), tile_bytes);
          t.copy_tile<2>(m.in_map, {{0, 16}}, at(t, tile_at), at(t, 0));
        }
        t.wait(at(t, 0), flips ? round & 1 : 0);
        t.load_shared<uint16_t>(element(t, 0, t.lane()));
        t.sync_block();
      }
    };
  };
  expect_none(one_warp, kernel(true), m.memory());
  expect_fault(one_warp, "waits for the wrong phase of barrier 0", kernel(false), m.memory());
}

TEST(CtaBarriers, an_arrival_too_many_is_found) {
  expect_fault(one_warp, "too many arrivals", [](EmulatedThread& t) {
    if (t.thread() != 0) return;
    t.init_barrier(at(t, 0), 1);
    t.arrive_expecting(at(t, 0), 16);
    t.arrive(at(t, 0));
  });
}

TEST(CtaBarriers, barriers_that_nobody_has_made_or_fenced_are_found) {
  Matrix m;
  expect_fault(one_warp, "which nobody has made", [](EmulatedThread& t) { t.wait(at(t, 0), 0); });
  expect_fault(one_warp, "no fence_barriers of its maker",
               load_tile(m, 0, {.fenced_barrier = false}), m.memory());
  expect_fault(one_warp, "before its making is ordered", [](EmulatedThread& t) {
    if (t.thread() == 0) t.init_barrier(at(t, 0), 32);
    t.ballot(true);
    t.arrive(at(t, 0));
  });
  expect_fault(one_warp, "a second time", [](EmulatedThread& t) {
    if (t.thread() != 0) return;
    t.init_barrier(at(t, 0), 1);
    t.init_barrier(at(t, 0), 1);
  });
}

TEST(CtaBarriers, rings_of_barriers_order_producer_and_consumers) {
  Matrix m;
  const auto kernel = [&](bool releases) {
    return [&, releases](EmulatedThread& t) {  // warp 0 loads, warp 1 reads; two stages
      if (t.thread() == 0) {
        for (int s = 0; s < 2; ++s) {
          t.init_barrier(at(t, 16 * s), 1);
          t.init_barrier(at(t, 16 * s + 8), 32);
        }
        t.fence_barriers();
      }
      t.sync_block();
      for (int i = 0; i < 6; ++i) {
        const int stage = i % 2, to = 2048 + 2048 * stage;
        const auto parity = static_cast<uint32_t>(i / 2 & 1);
        const uint32_t full = at(t, 16 * stage), empty = full + 8;
        if (t.thread() == 0) {
          if (releases) t.wait(empty, parity ^ 1);
          t.arrive_expecting(full, tile_bytes);
          t.copy_tile<2>(m.in_map, {{0, 8 * i}}, at(t, to), full);
        } else if (t.warp() == 1) {
          t.wait(full, parity);
          const auto address = tma::swizzle(tma::Swizzle::b128, at(t, to + 128 + 2 * t.lane()));
          if (t.load_shared<uint16_t>(static_cast<uint32_t>(address)) !=
              (8 * i + 1) * 64 + t.lane())
            t.fail("another element");
          t.arrive(empty);
        }
      }
    };
  };
  const GridShape shape{.threads = 64, .shared_bytes = 8192};
  expect_none(shape, kernel(true), m.memory());
  for (uint64_t seed = 1; seed <= cta_seeds; ++seed) {
    Grid grid({.threads = 64, .shared_bytes = 8192, .seed = seed});
    m.memory()(grid);
    EXPECT_NE(grid.run(kernel(false)), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace folio::test
