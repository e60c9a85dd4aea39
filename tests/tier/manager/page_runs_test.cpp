// SPDX-License-Identifier: Apache-2.0
/// tests/tier/manager/page_runs_test.cpp: planes whose pages share bytes are found, and no others.
#include "tier/manager/page_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "support/random.h"

namespace folio::test {
namespace {

/// Rows of one head of 4 bytes.
PagedKVView view_at(std::byte* data, int32_t page_size, int64_t num_pages, int64_t page_stride) {
  return {.data = data,
          .dtype = DType::i8,
          .num_heads = 1,
          .head_size = 4,
          .page_size = page_size,
          .num_pages = num_pages,
          .page_stride_bytes = page_stride,
          .slot_stride_bytes = 4,
          .head_stride_bytes = 4};
}

/// Whether a byte belongs to two pages, or to two layers' parts of one.
bool share(std::span<const KVPlanes> planes, uint32_t num_pages, std::span<std::byte> memory) {
  std::vector<int> owners(memory.size());
  for (const KVPlanes& layer : planes)
    for (uint32_t page = 0; page < num_pages; ++page) {
      const std::vector<Extent> extents = page_extents({&layer, 1}, page).value();
      for (const Extent& e : extents)
        for (std::byte* at = e.data; at < e.data + e.bytes; ++at)
          ++owners[static_cast<size_t>(at - memory.data())];
    }
  return std::ranges::max(owners) > 1;
}

TEST(PageRuns, share_no_byte_wherever_they_lie) {
  Rng rng(test_seed());
  std::vector<std::byte> memory(1 << 14);
  std::byte* const middle = memory.data() + memory.size() / 2;
  std::map<bool, int> seen;
  for (int round = 0; round < 3000; ++round) {
    const auto pages = static_cast<uint32_t>(rng.int_between(1, 6));
    const int64_t page_bytes = 4 * rng.int_between(1, 3), steps = rng.int_between(1, 8);
    const bool strides_differ = rng.int_between(0, 3) == 0, is_ragged = rng.int_between(0, 3) == 0;
    const int64_t sign = rng.int_between(0, 1) == 0 ? 1 : -1;
    std::vector<KVPlanes> planes;
    for (int layer = rng.int_between(1, 4); layer > 0; --layer) {
      const auto place = [&] {
        const int64_t stride = sign * page_bytes * (strides_differ ? rng.int_between(1, 8) : steps);
        const int64_t offset = is_ragged ? rng.int_between(-40, 40) : 0;
        return view_at(middle + rng.int_between(-9, 9) * page_bytes + offset,
                       static_cast<int32_t>(page_bytes / 4), pages, stride);
      };
      planes.push_back({.key = place(), .value = {}});
      if (rng.int_between(0, 1) == 0) continue;
      planes.back().value = place();  // elsewhere, or within the keys
    }
    const Result<tier::PageRuns> runs = tier::PageRuns::create("test", planes, pages);
    if (!runs && runs.error().message().find("differ in their runs") != std::string_view::npos)
      continue;
    const bool shares = share(planes, pages, memory);
    ++seen[shares];
    EXPECT_EQ(!runs, shares) << "round " << round;
    if (runs) continue;
    EXPECT_NE(runs.error().message().find("share bytes"), std::string_view::npos);
  }
  EXPECT_GT(std::min(seen[true], seen[false]), 200);
}

TEST(PageRuns, of_many_pages_are_not_looked_at_page_by_page) {
  constexpr int64_t pages = 1LL << 31, layers = 50, page_bytes = 64;
  std::vector<KVPlanes> planes;  // their memory is never touched
  for (int64_t layer = 0; layer < layers; ++layer)
    planes.push_back({.key = view_at(reinterpret_cast<std::byte*>((1LL << 40) + layer * page_bytes),
                                     16, pages, layers * page_bytes),
                      .value = {}});
  EXPECT_TRUE(tier::PageRuns::create("test", planes, pages - 1));
}

}  // namespace
}  // namespace folio::test
