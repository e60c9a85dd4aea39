// SPDX-License-Identifier: Apache-2.0
/// tests/cli/load/synthetic_test.cpp: invented tokens and rows depend on everything that they must
/// tell apart.
#include "load/synthetic.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "folio/core/element.h"

namespace folio::cli {
namespace {

std::vector<float> row_of(const RowName& name, size_t size = 64) {
  std::vector<float> row(size);
  fill_row(name, row);
  return row;
}

TEST(Synthetic, every_part_of_the_name_changes_the_row) {
  const RowName name{.token = 5, .position = 9, .role = Role::key, .layer = 2, .head = 3};
  std::set<std::vector<float>> rows = {row_of(name)};
  RowName other = name;
  other.token = 6;
  rows.insert(row_of(other));
  other = name;
  other.position = 10;
  rows.insert(row_of(other));
  other = name;
  other.role = Role::value;
  rows.insert(row_of(other));
  other = name;
  other.role = Role::query;
  rows.insert(row_of(other));
  other = name;
  other.layer = 3;
  rows.insert(row_of(other));
  other = name;
  other.head = 2;
  rows.insert(row_of(other));
  EXPECT_EQ(rows.size(), 7u);
}

TEST(Synthetic, elements_are_exact_in_sixteen_bits_and_fill_their_range) {
  std::set<float> seen;
  double sum = 0.0;
  constexpr int rows = 400, size = 77;  // no multiple of the eight elements of one hash
  for (int i = 0; i < rows; ++i) {
    for (const float x : row_of({.token = i, .position = i}, size)) {
      EXPECT_EQ(to_float(from_float<bf16>(x)), x);
      EXPECT_EQ(to_float(from_float<f16>(x)), x);
      EXPECT_LE(std::fabs(x), 1.0f);
      seen.insert(x);
      sum += static_cast<double>(x);
    }
  }
  EXPECT_EQ(seen.size(), 256u);
  EXPECT_LT(std::fabs(sum / (rows * size)), 0.02);
}

TEST(Synthetic, equal_ids_mean_equal_tokens_and_others_differ) {
  const TraceRequest a{
      .line = 1, .timestamp_ms = 0, .input_length = 1000, .output_length = 3, .hash_ids = {7, 8}};
  const TraceRequest b{
      .line = 2, .timestamp_ms = 0, .input_length = 600, .output_length = 3, .hash_ids = {7, 9}};
  const auto p = prompt_of(a), q = prompt_of(b);
  ASSERT_EQ(p.size(), 1000u);
  ASSERT_EQ(q.size(), 600u);
  EXPECT_TRUE(std::equal(p.begin(), p.begin() + mooncake_tokens_per_block, q.begin()));
  EXPECT_NE(p[mooncake_tokens_per_block], q[mooncake_tokens_per_block]);
  const std::set<TokenId> distinct(p.begin(), p.end());
  EXPECT_EQ(distinct.size(), p.size());
  EXPECT_GE(*distinct.begin(), 0);
}

TEST(Synthetic, history_is_the_prompt_and_the_outputs_that_are_fed_back) {
  TraceRequest request{
      .line = 1, .timestamp_ms = 0, .input_length = 3, .output_length = 4, .hash_ids = {7}};
  EXPECT_EQ(history_of(request, 0).size(), 6u);
  EXPECT_NE(history_of(request, 0), history_of(request, 1)) << "outputs belong to their request";
  request.output_length = 1;
  EXPECT_EQ(history_of(request, 0), prompt_of(request));
  request.output_length = 0;
  EXPECT_EQ(history_of(request, 0), prompt_of(request));
}

}  // namespace
}  // namespace folio::cli
