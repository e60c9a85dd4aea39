// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_run.h: small kernels in the emulator, over several schedules.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "folio/testing/cta/grid.h"

namespace folio::test {

using emulator::EmulatedThread;
using emulator::Grid;
using emulator::GridCounts;
using emulator::GridShape;

inline constexpr uint64_t cta_seeds = 8;

struct NoMemory {
  void operator()(Grid&) const {}
};

/// The kernel has this fault on every schedule. `setup` gives the grid its memory, anew each time.
template <class Body, class Setup = NoMemory>
void expect_fault(GridShape shape, std::string_view text, Body body, Setup setup = {}) {
  for (uint64_t seed = 1; seed <= cta_seeds; ++seed) {
    shape.seed = seed;
    Grid grid(shape);
    setup(grid);
    const std::string fault = grid.run(body);
    EXPECT_NE(fault.find(text), std::string::npos)
        << "seed " << seed << ": expected '" << text << "', got '" << fault << "'";
    // Every fault of a thread says where in the source it is.
    EXPECT_NE(fault.find(" (cta_"), std::string::npos) << fault;
  }
}

/// The kernel has no fault on any schedule; what it did, on the last one.
template <class Body, class Setup = NoMemory>
GridCounts expect_none(GridShape shape, Body body, Setup setup = {}) {
  GridCounts counts;
  for (uint64_t seed = 1; seed <= cta_seeds; ++seed) {
    shape.seed = seed;
    Grid grid(shape);
    setup(grid);
    EXPECT_EQ(grid.run(body), "") << "seed " << seed;
    counts = grid.counts();
  }
  return counts;
}

}  // namespace folio::test
