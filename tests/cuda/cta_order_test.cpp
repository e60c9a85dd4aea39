// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_order_test.cpp: the emulator finds races on any schedule, and no race where
/// threads have met.
#include <array>
#include <vector>

#include "cuda/cta_run.h"

namespace folio::test {
namespace {

constexpr GridShape one_warp{.threads = 32, .shared_bytes = 4096};
constexpr GridShape two_warps{.threads = 64, .shared_bytes = 4096};

uint32_t word(EmulatedThread& t, int index) {
  return t.shared_base() + 4 * static_cast<uint32_t>(index);
}

/// Each thread writes its word, does `meet`, and reads its neighbour's.
template <class Meet>
auto exchange(int distance, Meet meet) {
  return [=](EmulatedThread& t) {
    t.store_shared(word(t, t.thread()), t.thread());
    meet(t);
    const int other = t.thread() ^ distance;
    if (t.load_shared<int>(word(t, other)) != other) t.fail("another value");
  };
}

TEST(CtaOrder, a_read_before_its_write_is_ordered_is_found) {
  // Either the read comes too early, or the write comes after an unordered read.
  expect_fault(one_warp, "shared byte", exchange(1, [](EmulatedThread&) {}));
}

TEST(CtaOrder, sync_warp_orders_a_warp) {
  expect_none(one_warp, exchange(1, [](EmulatedThread& t) { t.sync_warp(); }));
}

TEST(CtaOrder, sync_warp_does_not_order_two_warps) {
  expect_fault(two_warps, "shared byte", exchange(32, [](EmulatedThread& t) { t.sync_warp(); }));
}

TEST(CtaOrder, shuffles_votes_and_multiplies_order_nothing) {
  expect_fault(one_warp, "shared byte", exchange(1, [](EmulatedThread& t) {
                 t.ballot(true);
                 t.shuffle(1u, 0);
                 float c[4] = {};
                 const uint32_t a[4] = {};
                 t.multiply<DType::bf16>(c, a, 0, 0);
               }));
}

TEST(CtaOrder, sync_block_orders_a_block) {
  expect_none(two_warps, exchange(32, [](EmulatedThread& t) { t.sync_block(); }));
}

TEST(CtaOrder, named_barriers_order_those_who_meet) {
  expect_none(two_warps, exchange(32, [](EmulatedThread& t) { t.sync_threads(1, 64); }));
}

TEST(CtaOrder, named_barriers_of_a_warp_order_no_other) {
  expect_fault(two_warps, "shared byte",
               exchange(32, [](EmulatedThread& t) { t.sync_threads(1 + t.warp(), 32); }));
}

TEST(CtaOrder, two_writes_of_a_word_are_found) {
  expect_fault(one_warp, "before the write of block 0 warp 0 lane",
               [](EmulatedThread& t) { t.store_shared(word(t, 0), t.thread()); });
}

/// Of a single reader, which is kept apart from several.
TEST(CtaOrder, an_overwrite_of_what_one_thread_reads_is_found) {
  expect_fault(one_warp, "which block 0 warp 0 lane 1 reads unordered", [](EmulatedThread& t) {
    if (t.thread() == 0) t.store_shared(word(t, 0), 7);
    t.sync_warp();
    if (t.thread() == 1) t.load_shared<int>(word(t, 0));
    t.shuffle(1u, 0);  // whichever comes first, by time; it orders nothing
    if (t.thread() == 0) t.store_shared(word(t, 0), 8);
  });
}

TEST(CtaOrder, an_overwrite_of_what_is_being_read_is_found) {
  const auto kernel = [](bool meets_again) {
    return [=](EmulatedThread& t) {
      if (t.thread() == 0) t.store_shared(word(t, 0), 7);
      t.sync_block();
      if (t.load_shared<int>(word(t, 0)) != 7) t.fail("another value");
      if (meets_again) t.sync_block();
      if (t.thread() == 33) t.store_shared(word(t, 0), 8);
    };
  };
  expect_fault(two_warps, "shared byte 0", kernel(false));
  expect_none(two_warps, kernel(true));
}

TEST(CtaOrder, reads_of_what_nothing_has_written_are_found) {
  expect_fault(one_warp, "reads shared byte 64, which nothing has written",
               [](EmulatedThread& t) { t.load_shared<float>(word(t, 16)); });
}

TEST(CtaOrder, neighbours_may_write_halves_and_bytes_of_a_word) {
  expect_none(one_warp, [](EmulatedThread& t) {
    const auto at = t.shared_base() + static_cast<uint32_t>(t.thread());
    t.store_shared(at, static_cast<uint8_t>(t.thread()));
    t.store_shared(t.shared_base() + 64 + 2 * static_cast<uint32_t>(t.thread()),
                   static_cast<uint16_t>(t.thread()));
    t.sync_warp();
    if (t.load_shared<uint32_t>(t.shared_base() + 4) != 0x07060504u) t.fail("another value");
  });
}

TEST(CtaOrder, two_writes_of_a_byte_are_found) {
  expect_fault(one_warp, "writes shared byte", [](EmulatedThread& t) {
    t.store_shared(t.shared_base() + static_cast<uint32_t>(t.thread()) / 2, uint8_t{1});
  });
}

TEST(CtaOrder, half_of_a_word_that_nothing_has_written_is_found) {
  expect_fault(one_warp, "reads shared byte 2, which nothing has written", [](EmulatedThread& t) {
    if (t.thread() != 0) return;
    t.store_shared(t.shared_base(), uint16_t{1});
    t.load_shared<uint32_t>(t.shared_base());
  });
}

/// Block 0 to 3 write their part of a buffer, the last to arrive adds them up.
struct Sum {
  std::array<int, 5> values;
  uint32_t arrivals;

  auto kernel(bool arrives, bool meets) {
    return [this, arrives, meets](EmulatedThread& t) {
      if (t.thread() == 31) t.store(&values[static_cast<size_t>(t.block())], t.block() + 1);
      if (meets) t.sync_block();
      uint32_t before = 3;
      if (t.thread() == 0) {
        if (arrives) before = t.add_acq_rel(&arrivals, 1);
        if (before != 3) return;
        int sum = 0;
        for (size_t i = 0; i < 4; ++i) sum += t.load(&values[i]);
        t.store(&values[4], sum);
        if (arrives && sum != 10) t.fail("another sum");
      }
    };
  }
  auto memory() {
    return [this](Grid& grid) {
      arrivals = 0;
      grid.add_buffer("values", values.data(), sizeof values);
      grid.add_buffer("arrivals", &arrivals, sizeof arrivals, true);
    };
  }
};

TEST(CtaOrder, arrivals_order_blocks) {
  Sum sum;
  expect_none({.blocks = 4, .resident = 3}, sum.kernel(true, true), sum.memory());
}

TEST(CtaOrder, an_arrival_before_the_block_has_met_is_found) {
  Sum sum;
  expect_fault({.blocks = 4, .resident = 3}, "values byte", sum.kernel(true, false), sum.memory());
}

TEST(CtaOrder, blocks_that_do_not_arrive_are_found) {
  Sum sum;
  expect_fault({.blocks = 4, .resident = 3}, "values byte", sum.kernel(false, true), sum.memory());
}

TEST(CtaOrder, a_plain_write_of_a_counter_beside_arrivals_is_found) {
  uint32_t arrivals = 0;
  const auto memory = [&](Grid& grid) { grid.add_buffer("arrivals", &arrivals, 4, true); };
  expect_fault(
      {.blocks = 4, .resident = 4}, "arrivals byte 0",
      [&](EmulatedThread& t) {
        if (t.thread() == 0) t.add_acq_rel(&arrivals, 1);
        if (t.thread() == 1) t.store(&arrivals, 0u);
      },
      memory);
}

TEST(CtaOrder, the_last_to_arrive_may_set_the_counter_back) {
  uint32_t arrivals = 0;
  const auto memory = [&](Grid& grid) { grid.add_buffer("arrivals", &arrivals, 4, true); };
  expect_none(
      {.blocks = 5, .resident = 2},
      [&](EmulatedThread& t) {
        if (t.thread() == 0 && t.add_acq_rel(&arrivals, 1) == 4) t.store(&arrivals, 0u);
      },
      memory);
  EXPECT_EQ(arrivals, 0u);
}

TEST(CtaOrder, a_second_kernel_reads_what_the_first_has_written) {
  std::array<int, 32> values;
  Grid grid({.blocks = 1});
  grid.add_buffer("values", values.data(), sizeof values);
  EXPECT_EQ(grid.run([&](EmulatedThread& t) {
    t.store(&values[static_cast<size_t>(t.thread())], t.thread());
  }),
            "");
  EXPECT_EQ(grid.run([&](EmulatedThread& t) {
    if (t.read(&values[static_cast<size_t>(31 - t.thread())]) != 31 - t.thread()) t.fail("other");
  }),
            "");
}

TEST(CtaOrder, a_read_as_an_input_of_what_the_kernel_writes_is_found) {
  std::array<int, 32> values;
  expect_fault(
      one_warp, "as an input, though this kernel writes it",
      [&](EmulatedThread& t) {
        t.store(&values[static_cast<size_t>(t.thread())], 1);
        t.sync_warp();
        t.read(&values[static_cast<size_t>(t.thread())]);
      },
      [&](Grid& grid) { grid.add_buffer("values", values.data(), sizeof values); });
}

TEST(CtaOrder, without_checks_of_order_races_pass_and_values_are_right) {
  GridShape shape = two_warps;
  shape.check_order = false;
  expect_none(shape, exchange(32, [](EmulatedThread& t) { t.sync_block(); }));
  expect_none(shape, [](EmulatedThread& t) { t.store_shared(word(t, 0), t.thread()); });
}

}  // namespace
}  // namespace folio::test
