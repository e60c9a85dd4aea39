// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_wgmma_test.cpp: wgmma in the emulator: the product, and what is found when
/// registers or shared memory are not left alone while it is on its way.
#include <array>

#include "cuda/cta_run.h"
#include "folio/testing/wgmma.h"

namespace folio::test {
namespace {

constexpr GridShape one_group{.threads = 128, .shared_bytes = 8192};
constexpr int n = 16, a_at = 0, b_at = 4096;

uint32_t at(EmulatedThread& t, int byte) { return t.shared_base() + static_cast<uint32_t>(byte); }

/// K-major without a swizzle: core matrices of 8 rows of 16 bytes, the two of K side by side.
uint64_t descriptor(uint32_t begin) {
  return *emulator::encode(emulator::WgmmaDescriptor{
      .start_address = begin, .leading_byte_offset = 128, .stride_byte_offset = 256});
}
int offset(int mn, int k) { return mn % 8 * 16 + mn / 8 * 256 + k / 8 * 128 + k % 8 * 2; }

struct Faults {
  bool fences = true;  ///< what was written to shared memory
  bool arrives = true;
  bool waits = true;
  bool touches = false;     ///< accumulators in flight
  bool overwrites = false;  ///< B, before the wait
  bool changes_a = false;   ///< registers of A, before the wait
};

/// A[m, k] = m + k, B[k, n] = k == n, twice: once overwriting, once adding A from registers.
auto multiply(Faults f = {}) {
  return [f](EmulatedThread& t) {
    const auto half = [&](float x) { return static_cast<uint16_t>(t.pack<DType::f16>(x, 0)); };
    for (int i = t.thread(); i < 64 * 16; i += 128)
      t.store_shared(at(t, a_at + offset(i / 16, i % 16)),
                     half(static_cast<float>(i / 16 + i % 16)));
    for (int i = t.thread(); i < n * 16; i += 128)
      t.store_shared(at(t, b_at + offset(i / 16, i % 16)), half(i / 16 == i % 16 ? 1 : 0));
    if (f.fences) t.fence_async();
    t.sync_block();
    uint32_t a[4];
    for (int r = 0; r < 4; ++r) {
      const auto low = emulator::wgmma_a_element(16, {t.thread(), r, 0});
      const auto x = static_cast<float>(low.row + low.column);
      a[r] = t.pack<DType::f16>(x, x + 1);
    }
    float d[n / 2] = {1000, 1000, 1000};
    if (f.arrives) t.warpgroup_arrive();
    t.multiply_group<n, DType::f16>(d, descriptor(at(t, a_at)), descriptor(at(t, b_at)), false);
    t.multiply_group<n, DType::f16>(d, a, descriptor(at(t, b_at)), true);
    t.commit_multiplies();
    if (f.touches && t.thread() == 77) d[3] = 0;
    if (f.changes_a && t.thread() == 77) a[1] = 0;
    if (f.overwrites && t.thread() == 5) t.store_shared(at(t, b_at), 0);
    if (!f.waits) return;
    t.wait_multiplies<0>();
    for (int r = 0; r < n / 2; ++r) {
      const auto e = emulator::wgmma_d_element(t.thread(), r);
      if (d[r] != static_cast<float>(2 * (e.row + e.column))) t.fail("another sum");
    }
  };
}

TEST(CtaWgmma, multiplies_of_shared_memory_and_of_registers_add_up) {
  EXPECT_EQ(expect_none(one_group, multiply()).wgmma, 2);
}

TEST(CtaWgmma, operands_that_were_not_fenced_are_found) {
  expect_fault(one_group, "lets multiply_group touch shared byte", multiply({.fences = false}));
}

TEST(CtaWgmma, registers_without_warpgroup_arrive_are_found) {
  expect_fault(one_group, "without a warpgroup_arrive", multiply({.arrives = false}));
}

TEST(CtaWgmma, accumulators_touched_in_flight_are_found) {
  expect_fault(one_group, "thread 77 of its warpgroup has touched in flight",
               multiply({.touches = true}));
}

TEST(CtaWgmma, registers_of_a_changed_in_flight_are_found) {
  // Also when the product has been made by then: another time it has not.
  expect_fault(one_group, "thread 77 of its warpgroup has changed before the wait",
               multiply({.changes_a = true}));
}

TEST(CtaWgmma, an_operand_overwritten_in_flight_is_found) {
  expect_fault(one_group, "which multiply_group of warpgroup 0 reads unordered",
               multiply({.overwrites = true}));
}

TEST(CtaWgmma, a_multiply_that_is_not_waited_for_is_found) {
  expect_fault(one_group, "ends while a multiply_group of its own is in flight",
               multiply({.waits = false}));
}

TEST(CtaWgmma, accumulators_are_unknown_until_the_wait) {
  expect_none(one_group, [](EmulatedThread& t) {
    float d[8] = {};
    t.warpgroup_arrive();
    for (int i = t.thread(); i < 1024; i += 128) t.store_shared(at(t, 4 * i), 0);
    t.fence_async();
    t.sync_block();
    t.multiply_group<16, DType::bf16>(d, descriptor(at(t, 0)), descriptor(at(t, 2048)), true);
    t.commit_multiplies();
    if (d[2] == d[2]) t.fail("known before the wait");
    t.wait_multiplies<0>();
    if (d[2] != 0) t.fail("another sum");
  });
}

TEST(CtaWgmma, waits_leave_the_last_groups_in_flight) {
  expect_none(one_group, [](EmulatedThread& t) {
    for (int i = t.thread(); i < 1024; i += 128) t.store_shared(at(t, 4 * i), 0);
    t.fence_async();
    t.sync_block();
    float first[8] = {1}, second[8] = {2};
    t.warpgroup_arrive();
    t.multiply_group<16, DType::bf16>(first, descriptor(at(t, 0)), descriptor(at(t, 2048)), true);
    t.commit_multiplies();
    t.multiply_group<16, DType::bf16>(second, descriptor(at(t, 0)), descriptor(at(t, 2048)), true);
    t.commit_multiplies();
    t.wait_multiplies<1>();
    if (first[0] != 1) t.fail("another first sum");
    if (second[0] == second[0]) t.fail("known before the wait");
    t.wait_multiplies<0>();
    if (second[0] != 2) t.fail("another second sum");
  });
}

TEST(CtaWgmma, a_warp_elsewhere_is_found) {
  expect_fault(one_group, "deadlock", [](EmulatedThread& t) {
    if (t.warp() != 2) t.warpgroup_arrive();
  });
  expect_fault(one_group, "while others of its warpgroup are at", [](EmulatedThread& t) {
    if (t.warp() == 2)
      t.commit_multiplies();
    else
      t.warpgroup_arrive();
  });
}

TEST(CtaWgmma, warps_that_give_other_descriptors_are_found) {
  expect_fault(one_group, "other descriptors than its warpgroup", [](EmulatedThread& t) {
    float d[8] = {};
    t.warpgroup_arrive();
    t.multiply_group<16, DType::bf16>(d, descriptor(at(t, 512 * t.warp())), descriptor(at(t, b_at)),
                                      true);
  });
}

TEST(CtaWgmma, half_a_warpgroup_has_none) {
  expect_fault({.threads = 64}, "in no whole warpgroup",
               [](EmulatedThread& t) { t.warpgroup_arrive(); });
}

}  // namespace
}  // namespace folio::test
