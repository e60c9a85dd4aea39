// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_cases_test.cpp: the grid that a GPU is compared on is legal, covers every
/// builder, and runs in the emulator.
#include "cuda/gpu_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cuda/gpu_emulation.h"

namespace folio::test {
namespace {

TEST(GpuCases, run_in_the_emulator_and_cover_every_builder) {
  std::vector<uint64_t> words(gpu_storage_bytes / 8 + 128);
  const auto base = (reinterpret_cast<uintptr_t>(words.data()) + 1023) / 1024 * 1024;
  const auto global = emulator::global_memory({reinterpret_cast<void*>(base), gpu_storage_bytes});
  GpuCases grid(base, 1);
  grid.add_all();

  std::map<std::string, int> builders;
  emulator::SharedMemory shared(200 * 1024);
  for (const GpuCase& c : grid.cases) {
    const Status status = emulate(c, global, shared);
    ASSERT_TRUE(status.is_ok()) << c.name << ": " << status.message();
    ++builders[c.name.substr(0, c.name.find(' '))];
  }
  for (const char* builder :
       {"rows", "depth", "rope", "folded", "row-major", "page", "gather4", "ragged", "scales"})
    EXPECT_GE(builders[builder], 3) << builder;
  RecordProperty("cases", static_cast<int>(grid.cases.size()));
  EXPECT_GT(grid.cases.size(), 1000u);
  std::set<std::string> names;
  for (const GpuCase& c : grid.cases) names.insert(c.name);
  EXPECT_EQ(names.size(), grid.cases.size()) << "records are found by their names";
  EXPECT_LT(grid.cases.size(), 10000u) << "five minutes on a GPU";
}

}  // namespace
}  // namespace folio::test
