// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_together_test.cpp: what warps and blocks do together in the emulator: values that
/// are exchanged, and threads that do not come.
#include <array>
#include <set>
#include <vector>

#include "cuda/cta_run.h"
#include "folio/testing/mma_sync.h"

namespace folio::test {
namespace {

constexpr GridShape one_warp{.threads = 32, .shared_bytes = 4096};
constexpr GridShape two_warps{.threads = 64, .shared_bytes = 4096};

TEST(CtaTogether, shuffles_and_votes_give_the_lanes_values) {
  const GridCounts counts = expect_none(two_warps, [](EmulatedThread& t) {
    const auto lane = static_cast<uint32_t>(t.lane());
    if (t.shuffle(lane, 5) != 5) t.fail("shuffle");
    if (t.shuffle(lane, t.lane() + 1) != (lane + 1) % 32) t.fail("shuffle by lane");
    if (t.shuffle_xor(lane, 3) != (lane ^ 3)) t.fail("shuffle_xor");
    if (t.shuffle_xor(static_cast<float>(lane), 16) != static_cast<float>(lane ^ 16))
      t.fail("shuffle_xor of floats");
    if (t.ballot(lane % 3 == 0) != 0x49249249u) t.fail("ballot");
  });
  EXPECT_EQ(counts.shuffles, 2 * 4);
  EXPECT_EQ(counts.votes, 2);
}

TEST(CtaTogether, lanes_at_different_collectives_are_found) {
  expect_fault(one_warp, "while others of its warp are at", [](EmulatedThread& t) {
    if (t.lane() < 16)
      t.sync_warp();
    else
      t.ballot(true);
  });
}

TEST(CtaTogether, lanes_at_different_places_of_a_multiply_are_found) {
  expect_fault(one_warp, "of other kind or place", [](EmulatedThread& t) {
    float c[4] = {};
    const uint32_t a[4] = {};
    if (t.lane() < 16)
      t.multiply<DType::bf16>(c, a, 0, 0);
    else
      t.multiply<DType::bf16>(c, a, 1, 1);
  });
}

TEST(CtaTogether, sync_warp_may_stand_at_two_places) {
  expect_none(one_warp, [](EmulatedThread& t) {
    if (t.lane() < 16)
      t.sync_warp();
    else
      t.sync_warp();
  });
}

TEST(CtaTogether, a_lane_that_does_not_come_is_a_deadlock) {
  expect_fault(one_warp, "deadlock: block 0 warp 0 lane", [](EmulatedThread& t) {
    if (t.lane() != 3) t.sync_warp();
  });
}

TEST(CtaTogether, a_warp_that_does_not_come_is_a_deadlock) {
  expect_fault(two_warps, "waits at sync_block", [](EmulatedThread& t) {
    if (t.warp() == 0) t.sync_block();
  });
}

TEST(CtaTogether, crossed_barriers_are_a_deadlock) {
  const auto kernel = [](bool crossed) {
    return [=](EmulatedThread& t) {
      const int first = crossed && t.warp() == 1 ? 2 : 1;
      t.sync_threads(first, 64);
      t.sync_threads(3 - first, 64);
    };
  };
  expect_fault(two_warps, "waits at sync_threads", kernel(true));
  EXPECT_EQ(expect_none(two_warps, kernel(false)).syncs, 2);
}

TEST(CtaTogether, named_barriers_of_other_counts_are_found) {
  expect_fault({.threads = 96}, "others wait for",
               [](EmulatedThread& t) { t.sync_threads(1, t.warp() == 2 ? 96 : 64); });
}

TEST(CtaTogether, named_barriers_are_for_whole_warps_and_have_numbers_up_to_fifteen) {
  expect_fault(two_warps, "no whole warps", [](EmulatedThread& t) { t.sync_threads(1, 40); });
  expect_fault(two_warps, "no whole warps", [](EmulatedThread& t) { t.sync_threads(1, 128); });
  expect_fault(two_warps, "there are 0 to 15", [](EmulatedThread& t) { t.sync_threads(16, 64); });
  expect_fault(two_warps, "names barrier 0", [](EmulatedThread& t) { t.sync_threads(0, 64); });
}

/// The order in which the warps of a block come to their arrivals.
std::vector<int> schedule_of(uint64_t seed) {
  uint32_t counter = 0;
  std::vector<int> order;
  Grid grid({.blocks = 3, .resident = 3, .threads = 128, .seed = seed});
  grid.add_buffer("counter", &counter, 4, true);
  EXPECT_EQ(grid.run([&](EmulatedThread& t) {
    for (int i = 0; i < 3; ++i) {
      t.sync_warp();
      if (t.lane() == 0) t.add_acq_rel(&counter, 1);
      if (t.lane() == 0) order.push_back(t.block() * 4 + t.warp());
    }
  }),
            "");
  return order;
}

TEST(CtaTogether, seeds_make_schedules) {
  std::set<std::vector<int>> schedules;
  for (uint64_t seed = 1; seed <= cta_seeds; ++seed) {
    schedules.insert(schedule_of(seed));
    EXPECT_EQ(schedule_of(seed), schedule_of(seed));
  }
  EXPECT_EQ(schedules.size(), cta_seeds);
}

TEST(CtaTogether, a_kernel_without_an_end_is_found) {
  uint32_t counter = 0;
  GridShape shape = one_warp;
  shape.most_switches = 10000;
  expect_fault(
      shape, "goes on without an end",
      [&](EmulatedThread& t) {
        while (t.add_acq_rel(&counter, 0) == 0) {}
      },
      [&](Grid& grid) { grid.add_buffer("counter", &counter, 4, true); });
}

/// A tile of 16 rows of 16-bit numbers row * 32 + column, rows `pitch` bytes apart.
void fill_tile(EmulatedThread& t, int pitch) {
  for (int i = t.lane(); i < 16 * 32; i += 32)
    t.store_shared(t.shared_base() + static_cast<uint32_t>(i / 32 * pitch + i % 32 * 2),
                   static_cast<uint16_t>(i));
  t.sync_warp();
}

template <bool Transposed>
auto load_tile(int pitch) {
  return [=](EmulatedThread& t) {
    fill_tile(t, pitch);
    // Matrix m: rows 8 * (m % 2) on, columns 8 * (m / 2) on.
    const int row = t.lane() % 16, column = t.lane() / 16 * 8;
    uint32_t out[4];
    t.load_matrices<Transposed>(out,
                                t.shared_base() + static_cast<uint32_t>(row * pitch + column * 2));
    for (int reg = 0; reg < 4; ++reg) {
      for (int part = 0; part < 2; ++part) {
        const auto unit = emulator::ldmatrix_element(Transposed, {t.lane(), reg, part});
        const int expected = (unit.row + 8 * (reg % 2)) * 32 + unit.column + 8 * (reg / 2);
        if (static_cast<int>(out[reg] >> (16 * part) & 0xffffu) != expected) t.fail("another unit");
      }
    }
  };
}

TEST(CtaTogether, load_matrices_gives_every_lane_its_units) {
  expect_none(one_warp, load_tile<false>(80));
  expect_none(one_warp, load_tile<true>(80));
}

TEST(CtaTogether, bank_conflicts_of_load_matrices_are_counted) {
  // Rows of 80 bytes begin in eight different columns of 16 bytes, rows of 64 in two.
  EXPECT_EQ(expect_none(one_warp, load_tile<false>(80)).ldmatrix_extra_passes, 0);
  EXPECT_EQ(expect_none(one_warp, load_tile<false>(64)).ldmatrix_extra_passes, 4 * 3);
  EXPECT_EQ(expect_none(one_warp, load_tile<false>(128)).ldmatrix_extra_passes, 4 * 7);
}

TEST(CtaTogether, load_matrices_before_the_tile_is_ordered_is_found) {
  expect_fault(two_warps, "by load_matrices", [](EmulatedThread& t) {
    if (t.warp() == 0) {
      for (int i = 0; i < 32; ++i)
        t.store_shared(t.shared_base() + static_cast<uint32_t>(128 * i + 4 * t.lane()), 1);
    } else {
      uint32_t out[4];
      t.load_matrices<false>(out, t.shared_base() + static_cast<uint32_t>(16 * t.lane()));
    }
  });
}

TEST(CtaTogether, load_matrices_at_no_multiple_of_sixteen_is_found) {
  expect_fault(one_warp, "gives load_matrices shared byte 8, which is no multiple of 16",
               [](EmulatedThread& t) {
                 uint32_t out[4];
                 t.load_matrices<false>(out, t.shared_base() + 8);
               });
}

TEST(CtaTogether, multiply_adds_the_product) {
  expect_none(one_warp, [](EmulatedThread& t) {
    // A[r, k] = r + k, B[k, n] = k == n: the product is A's first eight columns.
    const auto a_part = [&](int reg, int part) {
      const auto e = emulator::mma_a_element(16, {t.lane(), reg, part});
      return static_cast<float>(e.row + e.column);
    };
    const auto b_part = [&](int reg, int part) {
      const auto e = emulator::mma_b_element(16, {t.lane(), reg, part});
      return e.row == e.column ? 1.0f : 0.0f;
    };
    uint32_t a[4], b[2];
    for (int r = 0; r < 4; ++r) a[r] = t.pack<DType::f16>(a_part(r, 0), a_part(r, 1));
    for (int r = 0; r < 2; ++r) b[r] = t.pack<DType::f16>(b_part(r, 0), b_part(r, 1));
    float c[4] = {100, 200, 300, 400};
    t.multiply<DType::f16>(c, a, b[0], b[1]);
    for (int r = 0; r < 4; ++r) {
      const auto e = emulator::mma_c_element(t.lane(), r);
      if (c[r] != static_cast<float>(100 * (r + 1) + e.row + e.column)) t.fail("another sum");
    }
  });
}

}  // namespace
}  // namespace folio::test
