// SPDX-License-Identifier: Apache-2.0
/// tests/attention/sizes_test.cpp: sizes of plans and workspaces at the ends of their ranges: never
/// a wrapped product, and what cannot be had is refused with the limits.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "attention/check.h"
#include "attention/kernel_list.h"
#include "attention/plan_memory.h"
#include "folio/cache/planes.h"

namespace folio::test {
namespace {

constexpr int64_t most = std::numeric_limits<int64_t>::max();
constexpr int32_t most_32 = std::numeric_limits<int32_t>::max();

AttentionProblem make_problem(int32_t q_heads, int32_t kv_heads, int32_t head_size) {
  const KVShape shape{.num_heads = kv_heads, .head_size = head_size, .dtype = DType::bf16};
  const KVPlanes planes = make_planes(shape, 0, {}).value()[0];
  AttentionProblem problem;
  problem.key = planes.key;
  problem.value = planes.value;
  problem.q_heads = q_heads;
  return resolve(problem).value();
}

TEST(Sizes, a_large_model_with_the_longest_context_has_sizes_that_can_be_had) {
  const AttentionLimits limits{
      .batch = 65536, .tokens = 65536, .context = most_32, .parallelism = 64};
  for (const int32_t heads : {128, 1024, 16384}) {
    const Result<Attention> made = Attention::create(make_problem(heads, heads, 256), limits);
    ASSERT_TRUE(made.has_value()) << made.error().message();
    EXPECT_GT(made->workspace_bytes(), 0);
    EXPECT_LT(made->workspace_bytes(), int64_t{1} << 40);
    EXPECT_GT(made->plan_bytes(), 0);
  }
}

/// Sizes of all kernels, those included that this machine lacks the instructions for.
std::vector<int64_t> sizes_of(const AttentionProblem& problem, const AttentionLimits& limits) {
  std::vector<int64_t> sizes;
  for (const Kernel& kernel : kernels()) {
    if (refusal(kernel, problem, needs_amx_bf16) != nullptr) continue;
    const KernelGeometry geometry = geometry_of(kernel, problem);
    const ScheduleSize bounds = schedule_bounds(problem, limits, geometry);
    sizes.push_back(plan_parts(nullptr, limits, bounds).bytes);
    sizes.push_back(workspace_parts(nullptr, limits.parallelism, bounds, geometry).bytes);
  }
  return sizes;
}

TEST(Sizes, larger_limits_never_need_less) {
  for (const int32_t heads : {1, 128, 4096, 32768}) {
    const AttentionProblem problem = make_problem(heads, heads, 256);
    std::vector<int64_t> before;
    for (int32_t step = 0; step <= 30; ++step) {
      AttentionLimits limits;
      limits.context = step == 30 ? most_32 : 1 << step;
      limits.tokens = limits.batch = std::min(1 << step, most_32 / heads);
      limits.parallelism = std::min(1 << step, parallelism_max);
      ASSERT_TRUE(check_limits("Attention::create", problem, limits).is_ok());
      const std::vector<int64_t> now = sizes_of(problem, limits);
      for (size_t i = 0; i < before.size(); ++i)
        EXPECT_GE(now[i], before[i]) << "heads " << heads << ", step " << step << ", size " << i;
      for (const int64_t bytes : now) EXPECT_TRUE(bytes > 0 && bytes <= int64_t{1} << 56) << bytes;
      before = now;
    }
  }
}

TEST(Sizes, parallelism_has_a_largest_value) {
  const AttentionProblem problem = make_problem(1, 1, 64);
  EXPECT_TRUE(Attention::create(problem, {1, 1, 1, parallelism_max}).has_value());
  const Status s = Attention::create(problem, {1, 1, 1, parallelism_max + 1}).error();
  EXPECT_EQ(s.code(), Errc::invalid_argument);
  EXPECT_NE(s.message().find("limits.parallelism is 16385, expected at most 16384"),
            std::string_view::npos)
      << s.message();
}

/// A geometry whose states are as large as can be written down.
KernelGeometry large_states(int64_t partial_bytes) {
  return {.rows = 128, .span_keys = 2048, .scratch_bytes = 64, .partial_bytes = partial_bytes};
}

TEST(Sizes, stored_states_that_cannot_be_counted_are_the_largest_number) {
  const AttentionProblem problem = make_problem(1, 1, 64);
  // 128 spans are the most that is stored for two lanes, and all that a token has
  const AttentionLimits limits{.batch = 1, .tokens = 1, .context = 128 * 2048, .parallelism = 2};
  const auto bytes = [&](int64_t state) {
    return schedule_bounds(problem, limits, large_states(state * 128)).partial_bytes;
  };
  // the state of one row, padded to 16, for each span of its unit
  const int64_t largest = most / (128 * 16) / 64 * 64;
  EXPECT_EQ(bytes(largest), 128 * 16 * largest);
  EXPECT_EQ(bytes(largest + 64), most);
  EXPECT_EQ(bytes(int64_t{1} << 55), most);
}

TEST(Sizes, parts_of_memory_add_up_or_are_the_largest_number) {
  const auto take = [](int64_t count) {
    Carver carver(nullptr);
    carver.take<int64_t>(1);
    carver.take<int64_t>(count);
    return carver.bytes();
  };
  const int64_t largest = (most / 64 - 1) * 8;
  EXPECT_EQ(take(largest), most / 64 * 64);
  EXPECT_EQ(take(largest + 1), most);
  EXPECT_EQ(take(most), most);
}

TEST(Sizes, scratch_memory_of_all_lanes_is_counted) {
  const auto bytes = [](int64_t scratch) {
    KernelGeometry geometry = large_states(64);
    geometry.scratch_bytes = scratch;
    return workspace_parts(nullptr, 1 << 10, {}, geometry).bytes;
  };
  const int64_t places = 64 + (1 << 12);  // the header and a word for each lane
  const int64_t largest = (most - places) / 64 * 64 >> 10;
  EXPECT_EQ(bytes(largest), places + (largest << 10));
  EXPECT_EQ(bytes(largest + 64), most);
}

}  // namespace
}  // namespace folio::test
