// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_copies_test.cpp: asynchronous copies in the emulator: what they bring, and what
/// is found when a kernel waits too early, for the wrong thing, or not at all.
#include <array>
#include <numeric>
#include <vector>

#include "cuda/cta_run.h"
#include "folio/tma/swizzle.h"

namespace folio::test {
namespace {

constexpr GridShape one_warp{.threads = 32, .shared_bytes = 8192};
constexpr int tile_at = 1024, tile_bytes = 16 * 128;

uint32_t at(EmulatedThread& t, int byte) { return t.shared_base() + static_cast<uint32_t>(byte); }

/// 64 rows of 64 halves in global memory, and a buffer of the same size.
struct Matrix {
  alignas(128) std::array<uint16_t, 64 * 64> in;
  alignas(128) std::array<uint16_t, 64 * 64> out;
  tma::EncodedTensorMap in_map, out_map, row_map;

  Matrix() {
    std::iota(in.begin(), in.end(), uint16_t{0});
    in_map = emulator::encode(map_of(in.data(), 16));
    out_map = emulator::encode(map_of(out.data(), 16));
    row_map = emulator::encode(map_of(in.data(), 1));
  }
  static tma::TensorMap map_of(const void* base, int rows) {
    tma::TensorMap map;
    map.base = reinterpret_cast<uint64_t>(base);
    map.rank = 2;
    map.dtype = tma::DataType::bf16;
    map.swizzle = tma::Swizzle::b128;
    map.dim[0] = map.dim[1] = 64;
    map.stride_bytes[1] = 128;
    map.box[0] = 64;
    map.box[1] = rows;
    return map;
  }
  auto memory() {
    return [this](Grid& grid) {
      out.fill(0xffff);
      grid.add_input("in", in.data(), sizeof in);
      grid.add_buffer("out", out.data(), sizeof out);
    };
  }
};

/// Where column `column` of row `row` of a tile lies.
uint32_t element(EmulatedThread& t, int row, int column) {
  const auto plain = int64_t{t.shared_base()} + tile_at + row * 128 + column * 2;
  return static_cast<uint32_t>(tma::swizzle(tma::Swizzle::b128, plain));
}

void make_barrier(EmulatedThread& t, int byte = 0, bool fenced = true) {
  if (t.thread() == 0) {
    t.init_barrier(at(t, byte), 1);
    if (fenced) t.fence_barriers();
  }
  t.sync_block();
}

// ---- cp.async

/// Two groups of one row each; waits until `Pending` are left, and reads the row.
template <int Pending>
auto copy_rows(Matrix& m, int row, bool waits_at_end = true) {
  return [&m, row, waits_at_end](EmulatedThread& t) {
    for (int r = 0; r < 2; ++r) {
      if (t.lane() < 8)
        t.copy_async(at(t, 128 * r + 16 * t.lane()), m.in.data() + 64 * r + 8 * t.lane(), true);
      t.commit_copies();
    }
    t.wait_copies<Pending>();
    t.sync_warp();
    if (t.load_shared<uint16_t>(at(t, 128 * row + 2 * t.lane())) != 64 * row + t.lane())
      t.fail("another element");
    if (waits_at_end) t.wait_copies<0>();
  };
}

TEST(CtaCopies, copies_are_there_after_their_wait) {
  Matrix m;
  expect_none(one_warp, copy_rows<0>(m, 1), m.memory());
  expect_none(one_warp, copy_rows<1>(m, 0), m.memory());
}

TEST(CtaCopies, a_wait_for_one_group_too_few_is_found) {
  Matrix m;
  expect_fault(one_warp, "before the write of copy_async of block 0 warp 0 lane",
               copy_rows<1>(m, 1), m.memory());
}

TEST(CtaCopies, a_wait_orders_nobody_elses_copies) {
  Matrix m;
  expect_fault(
      one_warp, "shared byte",
      [&](EmulatedThread& t) {
        t.copy_async(at(t, 16 * t.lane()), m.in.data(), true);
        t.commit_copies();
        t.wait_copies<0>();
        t.load_shared<uint32_t>(at(t, 16 * (t.lane() ^ 1)));
      },
      m.memory());
}

/// Global memory changes in between, behind the emulator's back: to it that were a race.
TEST(CtaCopies, copies_read_at_any_time_between_their_call_and_their_wait) {
  Matrix m;
  bool is_read[3] = {};
  expect_none(
      one_warp,
      [&](EmulatedThread& t) {
        uint16_t& from = m.in[static_cast<size_t>(64 * t.lane())];
        from = 1;
        t.copy_async(at(t, 16 * t.lane()), &from, true);
        t.commit_copies();
        from = 2;
        t.wait_copies<0>();
        is_read[t.load_shared<uint16_t>(at(t, 16 * t.lane())) % 3] = true;
      },
      m.memory());
  EXPECT_TRUE(!is_read[0] && is_read[1] && is_read[2]);
}

TEST(CtaCopies, copies_that_are_not_waited_for_are_found) {
  Matrix m;
  expect_fault(one_warp, "ends while a copy_async of its own is in flight",
               copy_rows<1>(m, 0, false), m.memory());
}

TEST(CtaCopies, invalid_copies_bring_zeros_and_read_nothing) {
  const GridCounts counts = expect_none(one_warp, [](EmulatedThread& t) {
    t.copy_async(at(t, 16 * t.lane()), nullptr, false);
    t.copy_async<4>(at(t, 1024 + 4 * t.lane()), nullptr, false);
    t.commit_copies();
    t.wait_copies<0>();
    if (t.load_shared<uint64_t>(at(t, 16 * t.lane())) != 0) t.fail("not zero");
    if (t.load_shared<uint32_t>(at(t, 1024 + 4 * t.lane())) != 0) t.fail("not zero");
  });
  EXPECT_EQ(counts.copied_bytes, 0);
}

TEST(CtaCopies, a_copy_onto_what_is_being_read_is_found) {
  Matrix m;
  expect_fault(
      one_warp, "copy_async",
      [&](EmulatedThread& t) {
        t.store_shared(at(t, 4 * t.lane()), 1);
        if (t.lane() == 0) t.copy_async(at(t, 64), m.in.data(), true);
        t.commit_copies();
        t.wait_copies<0>();
      },
      m.memory());
}

// ---- boxes and bulk copies to shared memory

struct LoadFaults {
  uint32_t expected = tile_bytes;
  uint32_t parity = 0;
  bool fenced_barrier = true;
  bool waits = true;
};

auto load_tile(Matrix& m, int row, LoadFaults f = {}) {
  return [&m, row, f](EmulatedThread& t) {
    make_barrier(t, 0, f.fenced_barrier);
    if (t.thread() == 0) {
      t.arrive_expecting(at(t, 0), f.expected);
      t.copy_tile<2>(m.in_map, {{0, row}}, at(t, tile_at), at(t, 0));
    }
    if (!f.waits) return;
    t.wait(at(t, 0), f.parity);
    for (int r = 0; r < 16; ++r) {
      const int expected = row + r < 64 ? (row + r) * 64 + t.lane() : 0;
      if (t.load_shared<uint16_t>(element(t, r, t.lane())) != expected) t.fail("another element");
    }
  };
}

TEST(CtaCopies, a_box_is_there_after_its_barrier) {
  Matrix m;
  const GridCounts counts = expect_none(one_warp, load_tile(m, 32), m.memory());
  EXPECT_EQ(counts.tma_copies, 1);
  EXPECT_EQ(counts.tma_bytes, tile_bytes);
  EXPECT_EQ(counts.tma_read_bytes, tile_bytes);
}

TEST(CtaCopies, rows_beyond_the_tensor_are_zeros_and_no_traffic) {
  Matrix m;
  const GridCounts counts = expect_none(one_warp, load_tile(m, 60), m.memory());
  EXPECT_EQ(counts.tma_bytes, tile_bytes);
  EXPECT_EQ(counts.tma_read_bytes, 4 * 128);
}

TEST(CtaCopies, too_large_a_byte_count_is_a_deadlock) {
  Matrix m;
  expect_fault(one_warp, "(0 arrivals and 16 bytes are missing)",
               load_tile(m, 0, {.expected = tile_bytes + 16}), m.memory());
}

TEST(CtaCopies, too_small_a_byte_count_is_found) {
  // The barrier's bytes never come to zero again.
  Matrix m;
  expect_fault(one_warp, "deadlock", load_tile(m, 0, {.expected = tile_bytes - 16}), m.memory());
}

TEST(CtaCopies, a_copy_that_no_arrival_expects_is_found) {
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

TEST(CtaCopies, a_wait_for_the_phase_before_is_found) {
  // A fresh barrier lets parity 1 pass at once.
  Matrix m;
  expect_fault(one_warp, "reads shared byte", load_tile(m, 0, {.parity = 1}), m.memory());
}

TEST(CtaCopies, a_parity_that_is_not_flipped_is_found) {
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

TEST(CtaCopies, an_arrival_too_many_is_found) {
  expect_fault(one_warp, "too many arrivals", [](EmulatedThread& t) {
    if (t.thread() != 0) return;
    t.init_barrier(at(t, 0), 1);
    t.arrive_expecting(at(t, 0), 16);
    t.arrive(at(t, 0));
  });
}

TEST(CtaCopies, barriers_that_nobody_has_made_or_fenced_are_found) {
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

TEST(CtaCopies, a_copy_in_flight_at_the_end_is_found) {
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

TEST(CtaCopies, an_overwrite_by_a_box_needs_a_fence_of_who_wrote) {
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

TEST(CtaCopies, a_fence_of_another_thread_is_not_enough) {
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

TEST(CtaCopies, a_fence_that_the_copying_thread_has_not_seen_is_not_enough) {
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

TEST(CtaCopies, copies_reach_other_warps_by_sync_block) {
  Matrix m;
  expect_none(
      {.threads = 64, .shared_bytes = 8192},
      [&](EmulatedThread& t) {
        t.copy_async(at(t, 16 * t.thread()), m.in.data() + 8 * t.thread(), true);
        t.commit_copies();
        t.wait_copies<0>();
        t.sync_block();
        const int other = t.thread() ^ 32;
        if (t.load_shared<uint16_t>(at(t, 16 * other)) != 8 * other) t.fail("another element");
      },
      m.memory());
}

TEST(CtaCopies, a_box_onto_what_is_being_read_is_found) {
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

TEST(CtaCopies, rings_of_barriers_order_producer_and_consumers) {
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
  Matrix unreleased;
  for (uint64_t seed = 1; seed <= cta_seeds; ++seed) {
    Grid grid({.threads = 64, .shared_bytes = 8192, .seed = seed});
    m.memory()(grid);
    EXPECT_NE(grid.run(kernel(false)), "") << "seed " << seed;
  }
}

TEST(CtaCopies, gathers_bring_four_rows) {
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

TEST(CtaCopies, bulk_copies_bring_bytes) {
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

TEST(CtaCopies, misaligned_copies_are_found) {
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

TEST(CtaCopies, maps_of_other_ranks_or_encoders_are_found) {
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

TEST(CtaCopies, boxes_of_memory_that_was_not_given_are_found) {
  Matrix m;
  expect_fault(one_warp, "copies 128 bytes of global memory that it was not given", load_tile(m, 0),
               [&](Grid& grid) { grid.add_input("in", m.in.data(), 15 * 128); });
}

// ---- stores

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

TEST(CtaCopies, stores_write_boxes_and_bytes) {
  Matrix m;
  const GridCounts counts = expect_none(one_warp, store_tile(m), m.memory());
  EXPECT_EQ(counts.tma_stored_bytes, tile_bytes + 16);
  EXPECT_EQ(m.out[0], 0);
  EXPECT_EQ(m.out[7], 7);
  EXPECT_EQ(m.out[8], 0xffff);
  EXPECT_EQ(m.out[(8 + 15) * 64 + 63], 100 * 15 + 63);
  EXPECT_EQ(m.out[24 * 64], 0xffff);
}

TEST(CtaCopies, stores_of_what_was_not_fenced_are_found) {
  Matrix m;
  expect_fault(one_warp, "lets a store touch shared byte", store_tile(m, {.fences = false}),
               m.memory());
}

TEST(CtaCopies, stores_that_are_not_waited_for_are_found) {
  Matrix m;
  expect_fault(one_warp, "ends while a store of its own is in flight",
               store_tile(m, {.waits = false}), m.memory());
}

TEST(CtaCopies, an_overwrite_of_what_is_being_stored_is_found) {
  Matrix m;
  expect_fault(one_warp, "which a store of block 0 warp 0 lane 0 reads unordered",
               store_tile(m, {.overwrites = true}), m.memory());
}

TEST(CtaCopies, a_wait_for_reads_frees_shared_memory_and_orders_no_write) {
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

TEST(CtaCopies, prefetches_are_counted) {
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
