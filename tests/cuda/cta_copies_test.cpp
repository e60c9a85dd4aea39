// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_copies_test.cpp: cp.async in the emulator: what it brings, and what is
/// found when a kernel waits too early, for the wrong thing, or not at all.
#include "cuda/cta_tiles.h"

namespace folio::test {
namespace {

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

}  // namespace
}  // namespace folio::test
