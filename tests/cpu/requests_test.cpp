// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/requests_test.cpp: which lines of memory the AVX-512 kernels request: every row of a
/// tile, whatever order its rows lie in.
#include "cpu/avx512/requests.h"

#include <gtest/gtest.h>

#include <iterator>
#include <vector>

#include "support/random.h"

namespace folio::test {
namespace {

using avx512::LineList;
using avx512::Lines;

std::vector<const std::byte*> rows_of(const LineList& list) {
  std::vector<const std::byte*> rows;
  for (const Lines& run : list)
    for (int i = 0; i < run.rows; ++i) rows.push_back(run.data + i * run.stride_bytes);
  return rows;
}

TEST(LineList, every_row_of_a_tile_is_requested_in_its_order) {
  Rng rng(test_seed());
  const std::vector<std::byte> memory(4096);
  for (int round = 0; round < 200; ++round) {
    LineList list;
    std::vector<const std::byte*> expected;
    while (expected.size() < tile_keys) {
      const int left = tile_keys - static_cast<int>(expected.size());
      const int rows = rng.int_between(0, 2) == 0 ? rng.int_between(1, left) : 1;
      const int stride = rows > 1 ? rng.int_between(-8, 8) : 0;
      const std::byte* const first = memory.data() + rng.int_between(1024, 3071);
      list.add({first, stride, 3, rows});
      for (int i = 0; i < rows; ++i) expected.push_back(first + i * stride);
    }
    EXPECT_EQ(rows_of(list), expected);
    EXPECT_EQ(list.total(), 3 * tile_keys);
  }
}

TEST(LineList, rows_at_one_stride_are_one_run) {
  const std::vector<std::byte> memory(4096);
  LineList list;
  for (int i = 0; i < 32; ++i) list.add({memory.data() + i * 64, 0, 2, 1});
  for (int i = 32; i < 64; i += 16) list.add({memory.data() + i * 64, 64, 2, 16});
  EXPECT_EQ(std::distance(list.begin(), list.end()), 1);
  EXPECT_EQ(list.total(), 128);
}

TEST(LineList, a_full_list_takes_what_goes_on_where_it_ends) {
  const std::vector<std::byte> memory(8192);
  LineList list;
  for (int i = 0; i < tile_keys; ++i) list.add({memory.data() + i * i, 8, 1, 2});
  const auto full = std::distance(list.begin(), list.end());
  const Lines last = *(list.end() - 1);
  list.add({last.data + last.rows * last.stride_bytes, 8, 1, 5});
  EXPECT_EQ(std::distance(list.begin(), list.end()), full);
  EXPECT_EQ((list.end() - 1)->rows, last.rows + 5);
}

}  // namespace
}  // namespace folio::test
