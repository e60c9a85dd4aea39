// SPDX-License-Identifier: Apache-2.0
/// tests/sparse/summary_builds_test.cpp: every build of the summaries of pages writes the same.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/features.h"
#include "cpu/pages/pages.h"
#include "support/random.h"

namespace folio::test {
namespace {

TEST(SummaryBuilds, are_joined_alike_by_every_build) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    const int32_t n = rng.int_between(1, 70), count = rng.int_between(1, 5);
    std::vector<float> rows(static_cast<size_t>(n * count));
    for (float& x : rows)
      x = rng.chance(0.02) ? std::numeric_limits<float>::quiet_NaN()
                           : std::ldexp(rng.uniform(-1.0f, 1.0f), rng.int_between(-26, 18));
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      std::vector<std::vector<std::byte>> results;
      for (const pages::Kernel* kernel : pages::kernels()) {
        if (!machine_capabilities().has_all(kernel->needs)) continue;
        const auto bytes_of = static_cast<size_t>(n) * 4;
        std::vector<std::byte> bytes(3 * bytes_of);
        const pages::BoundRows bounds{dtype, bytes.data(), bytes.data() + bytes_of, n};
        kernel->begin(bounds);
        kernel->widen(bounds, {DType::f32, reinterpret_cast<const std::byte*>(rows.data()),
                               int64_t{n} * 4, count});
        std::vector<float> sums(static_cast<size_t>(n), 1.0f);
        kernel->add(rows.data(), count, n, sums.data());
        kernel->store(dtype, sums.data(), bytes.data() + 2 * bytes_of, n);
        results.push_back(bytes);
      }
      for (const auto& bytes : results) ASSERT_EQ(bytes, results.front()) << name(dtype);
    }
  }
}

}  // namespace
}  // namespace folio::test
