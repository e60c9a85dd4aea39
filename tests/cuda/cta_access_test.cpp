// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_access_test.cpp: the emulator finds accesses that leave their memory or are
/// misaligned, and counts bytes and bank conflicts.
#include <array>
#include <stdexcept>
#include <vector>

#include "cuda/cta_run.h"

namespace folio::test {
namespace {

constexpr GridShape one_warp{.threads = 32, .shared_bytes = 4096};

struct alignas(16) Sixteen {
  uint32_t words[4];
};

uint32_t at(EmulatedThread& t, int byte) { return t.shared_base() + static_cast<uint32_t>(byte); }

/// A body for lane 0 alone.
template <class F>
auto by_one(F f) {
  return [=](EmulatedThread& t) {
    if (t.thread() == 0) f(t);
  };
}

TEST(CtaAccess, shared_memory_ends_where_the_launch_says) {
  expect_fault(one_warp, "writes shared byte 4096, which is outside of its 4096",
               by_one([](EmulatedThread& t) { t.store_shared(at(t, 4096), 1); }));
  expect_fault(one_warp, "reads shared byte 4088, which is outside",
               by_one([](EmulatedThread& t) { t.load_shared<Sixteen>(at(t, 4088)); }));
  expect_none(one_warp, by_one([](EmulatedThread& t) { t.store_shared(at(t, 4080), Sixteen{}); }));
}

TEST(CtaAccess, an_address_without_shared_base_is_found) {
  expect_fault(one_warp, "which is outside",
               by_one([](EmulatedThread& t) { t.store_shared(16, 1); }));
}

TEST(CtaAccess, misaligned_shared_accesses_are_found) {
  expect_fault(one_warp, "writes shared byte 2, which is no multiple of 4",
               by_one([](EmulatedThread& t) { t.store_shared(at(t, 2), 1.0f); }));
  expect_fault(one_warp, "reads shared byte 8, which is no multiple of 16",
               by_one([](EmulatedThread& t) { t.load_shared<Sixteen>(at(t, 8)); }));
}

TEST(CtaAccess, values_of_odd_sizes_are_aligned_as_their_parts) {
  struct Three {
    float x[3];
  };
  expect_none(one_warp, by_one([](EmulatedThread& t) {
                t.store_shared(at(t, 4), Three{{1, 2, 3}});
                if (t.load_shared<Three>(at(t, 4)).x[2] != 3) t.fail("other");
              }));
}

TEST(CtaAccess, global_memory_that_was_not_given_is_found) {
  std::array<int, 4> given{}, other{};
  const auto memory = [&](Grid& grid) { grid.add_input("given", given.data(), sizeof given); };
  expect_fault(one_warp, "reads 4 bytes of global memory that it was not given, from of nobody",
               by_one([&](EmulatedThread& t) { t.read(&other[0]); }), memory);
  expect_fault(one_warp, "loads 4 bytes of global memory that it was not given",
               by_one([&](EmulatedThread& t) { t.load(&given[0] + 4); }), memory);
  expect_fault(one_warp, "stores 4 bytes of global memory that it was not given",
               by_one([&](EmulatedThread& t) { t.store(&other[0], 1); }), memory);
  expect_none(one_warp, by_one([&](EmulatedThread& t) { t.read(&given[3]); }), memory);
}

TEST(CtaAccess, a_wide_read_may_cross_inputs_side_by_side_and_no_gap) {
  alignas(16) std::array<int, 8> table{};
  const auto read =
      by_one([&](EmulatedThread& t) { t.read(reinterpret_cast<const Sixteen*>(table.data())); });
  expect_none(one_warp, read, [&](Grid& grid) {
    grid.add_input("front", table.data(), 8);
    grid.add_input("back", table.data() + 2, 8);
  });
  expect_fault(one_warp, "from front byte 0 on", read, [&](Grid& grid) {
    grid.add_input("front", table.data(), 8);
    grid.add_input("back", table.data() + 3, 20);
  });
}

TEST(CtaAccess, the_innermost_range_counts) {
  std::array<int, 8> values{};
  const auto memory = [&](Grid& grid) {
    grid.add_input("all", values.data(), sizeof values);
    grid.add_buffer("middle", values.data() + 2, 8);
  };
  expect_none(one_warp, by_one([&](EmulatedThread& t) {
                t.store(&values[3], 1);
                t.read(&values[4]);
              }),
              memory);
  expect_fault(one_warp, "stores all 16, an input",
               by_one([&](EmulatedThread& t) { t.store(&values[4], 1); }), memory);
}

TEST(CtaAccess, a_write_of_an_input_is_found) {
  std::array<int, 4> given{};
  expect_fault(one_warp, "stores given 8, an input",
               by_one([&](EmulatedThread& t) { t.store(&given[2], 1); }),
               [&](Grid& grid) { grid.add_input("given", given.data(), sizeof given); });
}

TEST(CtaAccess, misaligned_global_accesses_are_found) {
  alignas(16) std::array<int, 8> given{};
  expect_fault(one_warp, "reads global memory given byte 4, which is at no multiple of 16",
               by_one([&](EmulatedThread& t) {
                 t.read(reinterpret_cast<const Sixteen*>(given.data() + 1));
               }),
               [&](Grid& grid) { grid.add_input("given", given.data(), sizeof given); });
}

TEST(CtaAccess, a_buffer_that_nothing_has_written_is_found) {
  std::array<int, 4> values{};
  const auto load = by_one([&](EmulatedThread& t) { t.load(&values[1]); });
  expect_fault(one_warp, "reads values byte 4, which nothing has written", load,
               [&](Grid& grid) { grid.add_buffer("values", values.data(), sizeof values); });
  expect_none(one_warp, load,
              [&](Grid& grid) { grid.add_buffer("values", values.data(), sizeof values, true); });
}

TEST(CtaAccess, open_grids_may_touch_all_memory) {
  std::array<int, 4> values{};
  GridShape shape = one_warp;
  shape.is_open = true;
  expect_none(shape,
              by_one([&](EmulatedThread& t) { t.store(&values[0], t.read(&values[1]) + 1); }));
  EXPECT_EQ(values[0], 1);
}

TEST(CtaAccess, bytes_are_counted) {
  alignas(16) std::array<int, 64> values{};
  const GridCounts counts = expect_none(
      one_warp,
      [&](EmulatedThread& t) {
        t.read(reinterpret_cast<const Sixteen*>(values.data()));
        t.store(&values[static_cast<size_t>(32 + t.thread())], 1);
        t.load(&values[static_cast<size_t>(32 + t.thread())]);
        t.copy_async<8>(at(t, 8 * t.thread()), values.data(), t.thread() < 4);
        t.commit_copies();
        t.wait_copies<0>();
      },
      [&](Grid& grid) {
        grid.add_input("in", values.data(), 128);
        grid.add_buffer("out", values.data() + 32, 128);
      });
  EXPECT_EQ(counts.read_bytes, 32 * 16);
  EXPECT_EQ(counts.store_bytes, 32 * 4);
  EXPECT_EQ(counts.load_bytes, 32 * 4);
  EXPECT_EQ(counts.copies, 32);
  EXPECT_EQ(counts.copied_bytes, 4 * 8);
}

/// What a warp's stores of `T` at these offsets cost beyond one pass.
template <class T, class Offset>
int64_t extra_passes(Offset offset) {
  return expect_none(one_warp,
                     [=](EmulatedThread& t) {
                       t.store_shared(at(t, offset(t.thread())), T{});
                       t.sync_warp();
                     })
      .shared_extra_passes;
}

TEST(CtaAccess, bank_conflicts_of_ordinary_accesses_are_counted) {
  EXPECT_EQ(extra_passes<float>([](int lane) { return 4 * lane; }), 0);
  EXPECT_EQ(extra_passes<float>([](int lane) { return 8 * lane; }), 1);
  EXPECT_EQ(extra_passes<float>([](int lane) { return 128 * lane; }), 31);
  EXPECT_EQ(extra_passes<uint16_t>([](int lane) { return 2 * lane; }), 0);
  EXPECT_EQ(extra_passes<uint64_t>([](int lane) { return 8 * lane; }), 0);
  EXPECT_EQ(extra_passes<Sixteen>([](int lane) { return 16 * lane; }), 0);
  EXPECT_EQ(extra_passes<Sixteen>([](int lane) { return 128 * lane; }), 4 * 7);
}

TEST(CtaAccess, lanes_that_read_one_word_share_a_pass) {
  const GridCounts counts = expect_none(one_warp, [](EmulatedThread& t) {
    t.store_shared(at(t, 4 * t.thread()), t.thread());
    t.sync_warp();
    t.load_shared<int>(at(t, 0));
    t.sync_warp();
  });
  EXPECT_EQ(counts.shared_extra_passes, 0);
  EXPECT_EQ(counts.shared_accesses, 2);
}

TEST(CtaAccess, conflicts_before_sync_block_or_the_end_are_counted_too) {
  const GridCounts counts = expect_none(one_warp, [](EmulatedThread& t) {
    t.store_shared(at(t, 64 * t.thread()), 1);
    t.sync_block();
    t.store_shared(at(t, 128 * t.thread()), 1);
  });
  EXPECT_EQ(counts.shared_extra_passes, 15 + 31);
  EXPECT_EQ(counts.shared_accesses, 2);
}

TEST(CtaAccess, grids_that_no_gpu_has_are_refused) {
  EXPECT_EQ(Grid({.blocks = 1, .threads = 40}).run([](EmulatedThread&) {}),
            "no such grid: 1 blocks of 40 threads");
  EXPECT_EQ(Grid({.blocks = 1 << 16}).run([](EmulatedThread&) {}),
            "no such grid: 65536 blocks of 32 threads");
  EXPECT_EQ(Grid({.blocks = 0}).run([](EmulatedThread& t) { t.fail("no block is there"); }), "");
}

TEST(CtaAccess, failures_of_the_kernel_are_faults) {
  expect_fault(one_warp, "lane 0 fails: workspace not prepared",
               by_one([](EmulatedThread& t) { t.fail("workspace not prepared"); }));
}

TEST(CtaAccess, exceptions_of_the_kernel_are_faults) {
  Grid grid({});
  EXPECT_NE(grid.run([](EmulatedThread& t) {
                  if (t.thread() == 7) throw std::runtime_error("no such page");
                })
                .find("lane 7 throws: no such page"),
            std::string::npos);
}

TEST(CtaAccess, a_grid_with_a_fault_answers_it_again) {
  Grid grid({});
  const std::string fault = grid.run([](EmulatedThread& t) { t.fail("once"); });
  EXPECT_EQ(grid.run([](EmulatedThread&) {}), fault);
}

TEST(CtaAccess, every_block_runs_whatever_fits_at_once) {
  std::vector<int> seen(10);
  for (const int resident : {1, 3, 10}) {
    std::fill(seen.begin(), seen.end(), 0);
    expect_none({.blocks = 10, .resident = resident, .threads = 64}, [&](EmulatedThread& t) {
      if (t.blocks() != 10 || t.threads() != 64 || t.lane() + 32 * t.warp() != t.thread())
        t.fail("other ids");
      if (t.thread() == 63) ++seen[static_cast<size_t>(t.block())];
    });
    EXPECT_EQ(seen, std::vector<int>(10, static_cast<int>(cta_seeds)));
  }
}

}  // namespace
}  // namespace folio::test
