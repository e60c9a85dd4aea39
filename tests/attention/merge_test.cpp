// SPDX-License-Identifier: Apache-2.0
/// tests/attention/merge_test.cpp: merge against sums in double, and its algebra.
#include "folio/attention/merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/elements.h"
#include "reference/merge.h"
#include "support/allocations.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

/// [tokens, heads, dims] with gaps, and its lse; both end where inaccessible memory begins.
struct Result3 {
  GuardedMemory memory, lse_memory;
  AnyTensor<3> out = {};

  Result3(DType dtype, int64_t tokens, int64_t heads, int64_t dims, int64_t gap) {
    const int64_t element = bit_width(dtype) / 8;
    const int64_t head = dims + gap, token = heads * head + gap;
    memory = GuardedMemory(((tokens - 1) * token + (heads - 1) * head + dims) * element, element);
    lse_memory = GuardedMemory(tokens * heads * 4, 4);
    out = {memory.data(), dtype, {tokens, heads, dims}, {token * element, head * element, element}};
  }
  [[nodiscard]] std::byte* at(int64_t t, int64_t h, int64_t d) const {
    return memory.data() + t * out.stride_bytes[0] + h * out.stride_bytes[1] +
           d * out.stride_bytes[2];
  }
  void set(int64_t t, int64_t h, int64_t d, double x) const {
    reference::store(at(t, h, d), out.dtype, x);
  }
  [[nodiscard]] double get(int64_t t, int64_t h, int64_t d) const {
    return reference::load(at(t, h, d), out.dtype);
  }
  [[nodiscard]] float* lse() const { return lse_memory.as<float>(); }
  [[nodiscard]] Partial partial() const { return {out, lse()}; }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    return {memory.data(), memory.data() + memory.bytes()};
  }

  void randomise(Rng& rng, double empty_share) const {
    for (int64_t row = 0; row < out.extent[0] * out.extent[1]; ++row) {
      const bool empty = rng.chance(empty_share);
      // merge.h: +inf is flash-attn 2's word for no key
      lse()[row] = !empty            ? rng.uniform(-30.0f, 30.0f)
                   : rng.chance(0.5) ? minus_infinity
                                     : -minus_infinity;
      // where nothing was visible `out` may be anything
      for (int64_t d = 0; d < out.extent[2]; ++d) {
        set(row / out.extent[1], row % out.extent[1], d,
            empty ? std::numeric_limits<double>::quiet_NaN()
                  : static_cast<double>(rng.uniform(-3.0f, 3.0f)));
      }
    }
  }
  [[nodiscard]] reference::Part row(int64_t t, int64_t h) const {
    reference::Part part{{}, static_cast<double>(lse()[t * out.extent[1] + h])};
    for (int64_t d = 0; d < out.extent[2]; ++d) part.out.push_back(get(t, h, d));
    return part;
  }
};

/// |merged - exact| in float32, u = 2^-24: each weight has a relative error of at most (|lse|
/// differences <= 60, exp) 64 u, products and the sums over the parts add 2 parts u; the values are
/// at most 3; `levels` merges in a row add up. The result is rounded once.
double bound(size_t parts, int levels, DType dtype) {
  const double wide =
      3.0 * levels * (2.0 * 64.0 + 2.0 * static_cast<double>(parts) + 4.0) * 0x1p-24;
  return wide + (3.0 + wide) * reference::unit_roundoff(dtype);
}

void expect_merged(const Result3& actual, const std::vector<const Result3*>& parts, int levels) {
  for (int64_t t = 0; t < actual.out.extent[0]; ++t) {
    for (int64_t h = 0; h < actual.out.extent[1]; ++h) {
      std::vector<reference::Part> rows;
      for (const Result3* part : parts) rows.push_back(part->row(t, h));
      const reference::Part exact =
          reference::merge(rows, static_cast<size_t>(actual.out.extent[2]));
      const float lse = actual.lse()[t * actual.out.extent[1] + h];
      if (std::isinf(exact.lse)) {
        EXPECT_EQ(lse, minus_infinity);
      } else {
        EXPECT_NEAR(
            static_cast<double>(lse), exact.lse,
            32.0 * 0x1p-24 * (2.0 + levels) + bound(parts.size(), levels, DType::f32) / 3.0);
      }
      for (int64_t d = 0; d < actual.out.extent[2]; ++d) {
        EXPECT_NEAR(actual.get(t, h, d), exact.out[static_cast<size_t>(d)],
                    bound(parts.size(), levels, actual.out.dtype));
      }
    }
  }
}

TEST(Merge, equals_the_exact_merge_for_any_dtypes_and_strides) {
  Rng rng(test_seed());
  const DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const int64_t tokens = rng.between(1, 5), heads = rng.between(1, 4),
                  dims = rng.chance(0.2) ? 576 : rng.between(1, 40);
    std::vector<Result3> parts;
    std::vector<const Result3*> pointers;
    std::vector<Partial> partials;
    const int64_t count = rng.between(1, 6);
    for (int64_t i = 0; i < count; ++i) {
      parts.emplace_back(rng.pick(dtypes), tokens, heads, dims, rng.between(0, 2));
      parts.back().randomise(rng, 0.3);
    }
    for (const Result3& part : parts) {
      pointers.push_back(&part);
      partials.push_back(part.partial());
    }
    const Result3 merged(rng.pick(dtypes), tokens, heads, dims, rng.between(0, 2));
    const Status status = merge(partials, merged.out, merged.lse(), default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();
    expect_merged(merged, pointers, 1);
  }
}

TEST(Merge, gaps_between_rows_stay_untouched) {
  Rng rng(test_seed());
  const Result3 part(DType::f32, 3, 2, 5, 0);
  part.randomise(rng, 0.0);
  const Result3 merged(DType::bf16, 3, 2, 5, 2);
  const Partial partials[] = {part.partial()};
  ASSERT_TRUE(merge(partials, merged.out, nullptr, serial_executor()).is_ok());
  std::vector<std::byte> bytes = merged.bytes();
  for (int64_t i = 0; i < 3 * 2 * 5; ++i) {
    const int64_t offset = merged.at(i / 10, i / 5 % 2, i % 5) - merged.memory.data();
    bytes[static_cast<size_t>(offset)] = bytes[static_cast<size_t>(offset) + 1] = std::byte{0xff};
  }
  EXPECT_EQ(bytes, std::vector<std::byte>(bytes.size(), std::byte{0xff}));
  EXPECT_TRUE(merged.memory.slack_untouched());
}

TEST(Merge, any_tree_of_merges_gives_the_flat_merge_up_to_rounding) {
  Rng rng(test_seed());
  for (int round = 0; round < 20; ++round) {
    std::vector<Result3> leaves;
    for (int i = 0; i < 7; ++i) {
      leaves.emplace_back(DType::f32, 2, 2, 8, 0);
      leaves.back().randomise(rng, 0.3);
    }
    std::vector<Result3> inner;
    inner.reserve(7);
    std::vector<const Result3*> open;
    for (const Result3& leaf : leaves) open.push_back(&leaf);
    while (open.size() > 1) {  // any two, in any order
      rng.shuffle(open);
      const Result3* right = open.back();
      open.pop_back();
      const Partial pair[] = {open.back()->partial(), right->partial()};
      inner.emplace_back(DType::f32, 2, 2, 8, 0);
      ASSERT_TRUE(merge(pair, inner.back().out, inner.back().lse(), serial_executor()).is_ok());
      open.back() = &inner.back();
    }
    std::vector<const Result3*> all;
    for (const Result3& leaf : leaves) all.push_back(&leaf);
    expect_merged(*open.front(), all, 6);
  }
}

TEST(Merge, a_part_without_keys_changes_no_bit_even_if_its_output_is_nan) {
  Rng rng(test_seed());
  const Result3 part(DType::f32, 4, 3, 16, 1), nothing(DType::f32, 4, 3, 16, 0);
  part.randomise(rng, 0.0);
  nothing.randomise(rng, 1.0);
  for (const bool front : {false, true}) {
    const Result3 merged(DType::f32, 4, 3, 16, 1);
    const Partial partials[] = {front ? nothing.partial() : part.partial(),
                                front ? part.partial() : nothing.partial()};
    ASSERT_TRUE(merge(partials, merged.out, merged.lse(), serial_executor()).is_ok());
    EXPECT_EQ(merged.bytes(), part.bytes());
    EXPECT_TRUE(std::equal(merged.lse(), merged.lse() + 12, part.lse()));
  }
}

TEST(Merge, nothing_merged_with_nothing_is_nothing) {
  Rng rng(test_seed());
  const Result3 nothing(DType::f32, 1, 2, 3, 0), merged(DType::f32, 1, 2, 3, 0);
  nothing.randomise(rng, 1.0);
  const Partial partials[] = {nothing.partial(), nothing.partial()};
  ASSERT_TRUE(merge(partials, merged.out, merged.lse(), serial_executor()).is_ok());
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(merged.get(0, i / 3, i % 3), 0.0);
  for (int64_t i = 0; i < 2; ++i) EXPECT_EQ(merged.lse()[i], minus_infinity);
}

/// Softmax-weighted mean of keys [begin, end) with values `v`, and an optional sink in the
/// denominator.
void attend_keys(const std::vector<double>& s, const std::vector<double>& v, size_t begin,
                 size_t end, const double* sink, const Result3& to) {
  double total = sink != nullptr ? std::exp(*sink) : 0.0, sum = 0.0;
  for (size_t j = begin; j < end; ++j) {
    total += std::exp(s[j]);
    sum += std::exp(s[j]) * v[j];
  }
  to.set(0, 0, 0, total > 0.0 ? sum / total : 0.0);
  to.lse()[0] = total > 0.0 ? static_cast<float>(std::log(total)) : minus_infinity;
}

TEST(Merge, a_sink_logit_given_to_any_one_part_counts_once) {
  Rng rng(test_seed());
  std::vector<double> s(12), v(12);
  for (double& x : s) x = static_cast<double>(rng.uniform(-4.0f, 4.0f));
  for (double& x : v) x = static_cast<double>(rng.uniform(-3.0f, 3.0f));
  const double sink = 2.5;
  const size_t cuts[] = {0, 4, 4, 9, 12};  // the second part has no keys: only the sink, or nothing
  const Result3 whole(DType::f32, 1, 1, 1, 0);
  attend_keys(s, v, 0, 12, &sink, whole);
  for (size_t holder = 0; holder < 4; ++holder) {
    std::vector<Result3> parts;
    std::vector<Partial> partials;
    for (size_t i = 0; i < 4; ++i) {
      parts.emplace_back(DType::f32, 1, 1, 1, 0);
      attend_keys(s, v, cuts[i], cuts[i + 1], i == holder ? &sink : nullptr, parts.back());
      partials.push_back(parts.back().partial());
    }
    const Result3 merged(DType::f32, 1, 1, 1, 0);
    ASSERT_TRUE(merge(partials, merged.out, merged.lse(), serial_executor()).is_ok());
    EXPECT_NEAR(merged.get(0, 0, 0), whole.get(0, 0, 0), bound(4, 1, DType::f32))
        << "sink in part " << holder;
    EXPECT_NEAR(merged.lse()[0], whole.lse()[0], 1e-5f) << "sink in part " << holder;
  }
}

TEST(Merge, the_output_may_be_one_of_the_parts) {
  Rng rng(test_seed());
  const Result3 a(DType::bf16, 3, 2, 300, 1), b(DType::f32, 3, 2, 300, 0),
      merged(DType::bf16, 3, 2, 300, 1);
  a.randomise(rng, 0.2);
  b.randomise(rng, 0.2);
  const Partial partials[] = {b.partial(), a.partial()};
  ASSERT_TRUE(merge(partials, merged.out, merged.lse(), serial_executor()).is_ok());
  ASSERT_TRUE(merge(partials, a.out, a.lse(), serial_executor()).is_ok());
  EXPECT_EQ(a.bytes(), merged.bytes());
  EXPECT_TRUE(std::equal(a.lse(), a.lse() + 6, merged.lse()));
}

TEST(Merge, threads_and_order_of_tasks_do_not_show) {
  Rng rng(test_seed());
  const Result3 a(DType::f32, 200, 8, 64, 0), b(DType::f32, 200, 8, 64, 0);
  a.randomise(rng, 0.1);
  b.randomise(rng, 0.1);
  const Partial partials[] = {a.partial(), b.partial()};
  std::vector<std::byte> bytes[2];
  for (int i = 0; i < 2; ++i) {
    const Result3 merged(DType::f32, 200, 8, 64, 0);
    ASSERT_TRUE(
        merge(partials, merged.out, merged.lse(), i == 0 ? serial_executor() : default_executor(3))
            .is_ok());
    bytes[i] = merged.bytes();
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST(Merge, a_nan_lse_spoils_its_own_row_only) {
  Rng rng(test_seed());
  const Result3 a(DType::f32, 2, 1, 4, 0), b(DType::f32, 2, 1, 4, 0),
      merged(DType::f32, 2, 1, 4, 0);
  a.randomise(rng, 0.0);
  b.randomise(rng, 0.0);
  b.lse()[0] = std::numeric_limits<float>::quiet_NaN();
  const Partial partials[] = {a.partial(), b.partial()};
  ASSERT_TRUE(merge(partials, merged.out, merged.lse(), serial_executor()).is_ok());
  EXPECT_TRUE(std::isnan(merged.lse()[0]));
  EXPECT_FALSE(std::isnan(merged.lse()[1]));
  EXPECT_FALSE(std::isnan(merged.get(1, 0, 0)));
}

TEST(Merge, merging_allocates_nothing) {
  Rng rng(test_seed());
  const Result3 a(DType::f32, 2, 2, 16, 0), merged(DType::f32, 2, 2, 16, 0);
  a.randomise(rng, 0.0);
  const Partial partials[] = {a.partial(), a.partial()};
  const int64_t before = allocations();
  const Status status = merge(partials, merged.out, merged.lse(), serial_executor());
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(status.is_ok());
}

}  // namespace
}  // namespace folio::test
