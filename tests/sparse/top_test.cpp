// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/top_test.cpp: select_top against a stable sort of all scores: equal in every entry.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cpu/features.h"
#include "cpu/index/top.h"
#include "folio/sparse/select.h"
#include "kernel/index_kernel.h"
#include "reference/index.h"
#include "sparse/kernel_list.h"
#include "support/executors.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> expected_list(const float* scores, int64_t count, int32_t k) {
  return reference::top_of(std::vector<double>(scores, scores + count), k);
}

/// One row in memory that ends with its last score; the list's memory ends with its last entry.
std::vector<int32_t> list_of(const std::vector<float>& scores, int32_t k, int32_t workers = 1) {
  const auto count = static_cast<int64_t>(scores.size());
  const GuardedMemory row(std::max<int64_t>(count, 1) * 4, 4), list(int64_t{k} * 4, 4),
      workspace(select_top_bytes(k, workers), 64);
  std::copy(scores.begin(), scores.end(), row.as<float>());
  TopArgs args;
  args.scores = {row.data(), DType::f32, {1, count}, {count * 4, 4}};
  args.k = k;
  args.indices = list.as<int32_t>();
  args.stride = k;
  const Status status = select_top(args, workspace.span(), thread_pool_executor(workers));
  EXPECT_TRUE(status.is_ok()) << status.message();
  return {list.as<int32_t>(), list.as<int32_t>() + k};
}

void expect_exact(const std::vector<float>& scores, int32_t k, const std::string& what) {
  EXPECT_EQ(list_of(scores, k),
            expected_list(scores.data(), static_cast<int64_t>(scores.size()), k))
      << what << ", " << scores.size() << " scores, k " << k;
}

using Make = std::vector<float> (*)(Rng&, size_t);

/// Orders that fill the buffer often or never, ties, and what is no number.
struct Shape {
  const char* name;
  Make make;
};

std::vector<float> filled(size_t n, auto&& value) {
  std::vector<float> scores(n);
  for (size_t i = 0; i < n; ++i) scores[i] = value(i);
  return scores;
}

const Shape shapes[] = {
    {"random",
     [](Rng& rng, size_t n) { return filled(n, [&](size_t) { return rng.uniform(-3, 3); }); }},
    {"ascending",
     [](Rng&, size_t n) { return filled(n, [](size_t i) { return static_cast<float>(i); }); }},
    {"descending",
     [](Rng&, size_t n) { return filled(n, [](size_t i) { return -static_cast<float>(i); }); }},
    {"up and down",
     [](Rng&, size_t n) {
       return filled(n, [n](size_t i) { return static_cast<float>(std::min(i, n - i)); });
     }},
    {"saw",
     [](Rng&, size_t n) { return filled(n, [](size_t i) { return static_cast<float>(i % 3); }); }},
    {"all equal", [](Rng&, size_t n) { return filled(n, [](size_t) { return 1.5f; }); }},
    {"ties in runs",
     [](Rng& rng, size_t n) {
       float x = 0;
       return filled(n, [&](size_t) { return rng.chance(0.05) ? x = rng.uniform(-1, 1) : x; });
     }},
    {"few values",
     [](Rng& rng, size_t n) {
       return filled(n, [&](size_t) { return static_cast<float>(rng.between(-2, 2)); });
     }},
    {"zeros of both signs",
     [](Rng& rng, size_t n) {
       return filled(n, [&](size_t) {
         return rng.chance(0.1) ? rng.uniform(-1, 1) : rng.chance(0.5) ? 0.0f : -0.0f;
       });
     }},
    {"masked",
     [](Rng& rng, size_t n) {
       return filled(n, [&](size_t) { return rng.chance(0.9) ? -infinity : rng.uniform(-1, 1); });
     }},
    {"all masked", [](Rng&, size_t n) { return filled(n, [](size_t) { return -infinity; }); }},
    {"mostly NaN",
     [](Rng& rng, size_t n) {
       return filled(n, [&](size_t i) {
         if (rng.chance(0.2)) return rng.uniform(-1, 1);
         return i % 2 == 0 ? nan : -nan;
       });
     }},
    {"all NaN", [](Rng&, size_t n) { return filled(n, [](size_t) { return nan; }); }},
    {"everything",
     [](Rng& rng, size_t n) {
       const float values[] = {nan,    -nan,    infinity, -infinity,
                               0.0f,   -0.0f,   3.4e38f,  -3.40282347e38f,
                               1e-45f, -1e-45f, 1.0f,     -1.0f};
       return filled(n, [&](size_t) { return rng.pick(values); });
     }},
    {"greatest last",
     [](Rng& rng, size_t n) {
       return filled(n, [&](size_t i) { return rng.uniform(0, 1) + (i + 100 > n ? 1.0f : 0.0f); });
     }},
};

TEST(SelectTop, equals_a_stable_sort_of_all_scores) {
  Rng rng(test_seed());
  for (const Shape& shape : shapes) {
    for (const size_t n : {1u, 63u, 64u, 65u, 127u, 128u, 129u, 1000u})
      for (const int32_t k : {1, 2, 63, 64, 65, 200})
        expect_exact(shape.make(rng, n), k, shape.name);
    for (const size_t n : {2047u, 2048u, 2049u, 4096u, 4160u, 4161u, 6209u, 20000u})
      for (const int32_t k : {1, 2047, 2048, 2049, 4096})
        expect_exact(shape.make(rng, n), k, shape.name);
  }
}

TEST(SelectTop, has_nothing_to_list_of_no_scores) {
  EXPECT_EQ(list_of({}, 3), (std::vector<int32_t>{-1, -1, -1}));
}

TEST(SelectTop, ranks_nan_below_numbers_and_above_nothing) {
  EXPECT_EQ(list_of({nan, -infinity, -3.4e38f, nan}, 2), (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(list_of({nan, -infinity, nan}, 3), (std::vector<int32_t>{0, 2, -1}));
}

TEST(SelectTop, takes_zeros_of_both_signs_for_equal) {
  EXPECT_EQ(list_of({-1.0f, -0.0f, 0.0f, -0.0f}, 2), (std::vector<int32_t>{1, 2}));
}

/// Rows with gaps, of unlike lengths; what lies behind a row's length is never read as a score.
TEST(SelectTop, keeps_rows_apart_and_gaps_untouched) {
  Rng rng(test_seed());
  for (int round = 0; round < 30; ++round) {
    const int64_t tokens = rng.between(1, 9), keys = rng.between(1, 300);
    const int64_t stride = keys + rng.between(0, 3);
    const int32_t k = rng.int_between(1, 80);
    const int64_t list_stride = k + rng.between(0, 3);
    const GuardedMemory scores(((tokens - 1) * stride + keys) * 4, 4),
        lists(((tokens - 1) * list_stride + k) * 4, 4), workspace(select_top_bytes(k, 3), 64);
    std::vector<int32_t> lengths;
    for (int64_t t = 0; t < tokens; ++t) {
      lengths.push_back(rng.int_between(0, keys));
      for (int64_t i = 0; i < keys; ++i)
        scores.as<float>()[t * stride + i] =
            i < lengths.back() ? static_cast<float>(rng.between(-9, 9)) : infinity;
    }
    TopArgs args;
    args.scores = {scores.data(), DType::f32, {tokens, keys}, {stride * 4, 4}};
    args.lengths = lengths.data();
    args.k = k;
    args.indices = lists.as<int32_t>();
    args.stride = list_stride;
    ShufflingExecutor threads(3, rng.next());
    ASSERT_TRUE(select_top(args, workspace.span(), threads.executor()).is_ok());
    for (int64_t t = 0; t < tokens; ++t) {
      const int32_t* const list = lists.as<int32_t>() + t * list_stride;
      EXPECT_EQ(std::vector<int32_t>(list, list + k),
                expected_list(scores.as<float>() + t * stride, lengths[static_cast<size_t>(t)], k));
      for (int64_t i = k; i < list_stride && t + 1 < tokens; ++i) EXPECT_EQ(list[i], -1);
    }
  }
}

TEST(SelectTop, lists_the_same_whatever_the_threads_and_the_workspace) {
  Rng rng(test_seed());
  for (const Shape& shape : shapes) {
    const std::vector<float> scores = shape.make(rng, 70001);
    const std::vector<int32_t> alone = list_of(scores, 2048);
    EXPECT_EQ(alone, expected_list(scores.data(), 70001, 2048)) << shape.name;
    for (const int32_t workers : {2, 3, 4, 9}) EXPECT_EQ(list_of(scores, 2048, workers), alone);
  }
}

TEST(SelectTop, every_instruction_set_collects_the_same) {
  Rng rng(test_seed());
  for (const IndexKernel& kernel : index_kernels()) {
    if (!machine_has(kernel.needs)) continue;
    SCOPED_TRACE(kernel.name);
    for (const Shape& shape : shapes) {
      for (const int32_t k : {1, 100, 2048}) {
        const std::vector<float> scores = shape.make(rng, 9001);
        const auto room = static_cast<size_t>(indexer::Top::room_for(k));
        std::vector<uint64_t> kept(room), spare(room);
        indexer::Top top = indexer::Top::empty(kept.data(), k);
        kernel.collect(scores.data(), 0, 9001, top, spare.data());
        std::vector<int32_t> list(static_cast<size_t>(k));
        indexer::write_list(top, spare.data(), list.data());
        EXPECT_EQ(list, expected_list(scores.data(), 9001, k)) << shape.name << ", k " << k;
      }
    }
  }
}

/// Says it has four threads, and how many tasks it was given at once.
struct CountingExecutor {
  int64_t most = 0;
  [[nodiscard]] Executor executor() {
    return {this, [](void*) { return 4; },
            [](void* self, int64_t n, void (*task)(void*, int64_t) noexcept, void* arg) {
              auto& counts = *static_cast<CountingExecutor*>(self);
              counts.most = std::max(counts.most, n);
              for (int64_t i = 0; i < n; ++i) task(arg, i);
            }};
  }
};

TEST(SelectTop, runs_as_many_tasks_as_the_workspace_holds) {
  Rng rng(test_seed());
  const std::vector<float> scores = shapes[0].make(rng, 100000);
  for (const int32_t workers : {1, 2, 3, 4, 5}) {
    const GuardedMemory workspace(select_top_bytes(5, workers), 64);
    std::vector<int32_t> list(5);
    TopArgs args;
    args.scores = dense_tensor<2>(scores.data(), DType::f32, {1, 100000});
    args.k = 5;
    args.indices = list.data();
    args.stride = 5;
    CountingExecutor threads;
    ASSERT_TRUE(select_top(args, workspace.span(), threads.executor()).is_ok());
    EXPECT_EQ(list, expected_list(scores.data(), 100000, 5));
    EXPECT_EQ(threads.most, workers == 1 ? 0 : std::min(workers, 4)) << "one task runs alone";
  }
}

TEST(SelectTop, says_how_much_memory_it_takes) {
  EXPECT_EQ(select_top_bytes(0, 1), 0);
  EXPECT_EQ(select_top_bytes(4097, 1), 0);
  EXPECT_EQ(select_top_bytes(1, 0), 0);
  EXPECT_EQ(select_top_bytes(1, 16385), 0);
  EXPECT_GT(select_top_bytes(4096, 16384), int64_t{16384} * 4096 * 8 * 5);
}

}  // namespace
}  // namespace folio::test
