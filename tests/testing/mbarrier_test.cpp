// SPDX-License-Identifier: Apache-2.0
/// tests/testing/mbarrier_test.cpp: one barrier, operation by operation.
#include "folio/testing/mbarrier.h"

#include <gtest/gtest.h>

namespace folio::test {
namespace {

using emulator::Fault;
using emulator::Mbarrier;

TEST(Mbarrier, a_phase_needs_its_arrivals_and_its_bytes) {
  Mbarrier barrier(2);
  bool completes = false;
  EXPECT_TRUE(barrier.passes(1));  // the phase "before" the first
  EXPECT_FALSE(barrier.passes(0));
  barrier.begin_copy();
  EXPECT_EQ(barrier.expect_tx(128, completes), Fault::none);
  EXPECT_EQ(barrier.arrive(completes), Fault::none);
  EXPECT_EQ(barrier.arrive(completes), Fault::none);
  EXPECT_FALSE(completes);
  EXPECT_EQ(barrier.pending(), 0);
  EXPECT_EQ(barrier.missing_bytes(), 128);
  EXPECT_EQ(barrier.complete_tx(128, completes), Fault::none);
  EXPECT_TRUE(completes);
  EXPECT_EQ(barrier.phase(), 1);
  EXPECT_EQ(barrier.pending(), 2);
  EXPECT_TRUE(barrier.passes(0));
  EXPECT_FALSE(barrier.passes(1));
}

TEST(Mbarrier, bytes_may_land_before_they_are_expected) {
  Mbarrier barrier(1);
  bool completes = false;
  barrier.begin_copy();
  EXPECT_EQ(barrier.complete_tx(64, completes), Fault::none);
  EXPECT_EQ(barrier.missing_bytes(), -64);
  EXPECT_EQ(barrier.expect_tx(64, completes), Fault::none);
  EXPECT_FALSE(completes);
  EXPECT_EQ(barrier.arrive(completes), Fault::none);
  EXPECT_TRUE(completes);
}

TEST(Mbarrier, a_phase_that_completes_with_a_copy_in_flight_was_promised_too_few_bytes) {
  Mbarrier barrier(1);
  bool completes = false;
  barrier.begin_copy();
  barrier.begin_copy();
  EXPECT_EQ(barrier.expect_tx(64, completes), Fault::none);
  EXPECT_EQ(barrier.arrive(completes), Fault::none);
  EXPECT_EQ(barrier.complete_tx(64, completes), Fault::wrong_byte_count);
  EXPECT_FALSE(completes);
  EXPECT_EQ(barrier.copies_in_flight(), 1);
}

TEST(Mbarrier, arrivals_while_only_bytes_are_missing_are_too_many) {
  Mbarrier barrier(1);
  bool completes = false;
  EXPECT_EQ(barrier.expect_tx(64, completes), Fault::none);
  EXPECT_EQ(barrier.arrive(completes), Fault::none);
  EXPECT_EQ(barrier.arrive(completes), Fault::too_many_arrivals);
}

TEST(Mbarrier, the_byte_count_has_20_bits) {
  bool completes = false;
  Mbarrier above(1);
  EXPECT_EQ(above.expect_tx(Mbarrier::max_bytes, completes), Fault::none);
  EXPECT_EQ(above.expect_tx(1, completes), Fault::wrong_byte_count);
  Mbarrier below(1);
  below.begin_copy();
  EXPECT_EQ(below.complete_tx(Mbarrier::max_bytes, completes), Fault::none);
  below.begin_copy();
  EXPECT_EQ(below.complete_tx(1, completes), Fault::wrong_byte_count);
}

TEST(Mbarrier, every_fault_has_a_name_of_its_own) {
  for (int a = 0; a <= static_cast<int>(Fault::invalid); ++a) {
    for (int b = 0; b < a; ++b)
      EXPECT_STRNE(name(static_cast<Fault>(a)), name(static_cast<Fault>(b)));
  }
}

}  // namespace
}  // namespace folio::test
