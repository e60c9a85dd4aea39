// SPDX-License-Identifier: Apache-2.0
/// tests/attention/layer_norm_test.cpp: K and q behind a LayerNorm, as the keys and queries of an
/// indexer are (DeepSeek V3.2, GLM-5): every type, turned and quantised rows, rows that are hard.
#include <gtest/gtest.h>

#include "attention/append_parts.h"
#include "attention/rope_parts.h"
#include "folio/attention/append.h"
#include "folio/attention/rotate.h"
#include "reference/append.h"
#include "reference/elements.h"

namespace folio::test {
namespace {

constexpr int32_t page_size = 4, num_pages = 6;

/// A plane of index keys: one head, its scales (if any) of each granule of each token.
PlaneSpec index_spec(DType dtype, int32_t head_size, int32_t granularity) {
  PlaneSpec spec{dtype, 1, head_size, page_size, num_pages};
  if (granularity != 0) spec.scales = {DType::f32, granularity, true, true, true, true};
  return spec;
}

/// Keys of one head, far from 0 so that the mean counts, and what happens to them.
struct Keys {
  static constexpr int64_t tokens = page_size * num_pages;
  static constexpr int32_t rows = 64, dims = 64;
  std::vector<int64_t> slots;
  std::vector<int32_t> positions;
  std::vector<float> weights, shifts, angles;
  Rope rope;
  Source k;
  AppendArgs args;

  Keys(Rng& rng, DType source, int32_t head_size) : k(source, tokens, 1, head_size, 0) {
    for (int64_t t = 0; t < tokens; ++t) {
      const float offset = rng.uniform(-3.0f, 3.0f);
      for (int64_t d = 0; d < head_size; ++d) k.set(t, 0, d, offset + rng.uniform(-1.0f, 1.0f));
      slots.push_back(t);
      positions.push_back(rng.int_between(0, rows - 1));
    }
    rng.shuffle(slots);
    for (int32_t d = 0; d < head_size; ++d) {
      weights.push_back(rng.uniform(-2.0f, 2.0f));
      shifts.push_back(rng.uniform(-2.0f, 2.0f));
    }
    for (int i = 0; i < rows * dims; ++i) angles.push_back(rng.uniform(-1.0f, 1.0f));
    rope = {angles.data(), rows, std::min(dims, head_size), false, 0, positions.data()};
    args.k = k.tensor;
    args.slots = slots.data();
    args.k_norm = weights.data();
    args.k_norm_shift = shifts.data();
  }
};

/// What a reader sees, but not turned back.
double value(const TestPlane& plane, int64_t slot, int64_t d) {
  const int64_t page = slot / page_size, offset = slot % page_size;
  const double stored = reference::load(plane.element(page, offset, 0, d), plane.view.dtype);
  if (plane.view.scales.data == nullptr) return stored;
  return stored * reference::load(plane.scale(page, offset, 0, d), plane.view.scales.dtype);
}

/// Neighbours of a stored number are at most so far from it: two roundings of nearly the same
/// number are no further apart.
double spacing(const TestPlane& plane, int64_t slot, int64_t d, double number) {
  const DType dtype = plane.view.dtype;
  if (plane.view.scales.data == nullptr)
    return 2.0 * reference::unit_roundoff(dtype) * std::fabs(number) + 0x1p-24;
  const double scale = reference::load(plane.scale(slot / page_size, slot % page_size, 0, d),
                                       plane.view.scales.dtype);
  if (dtype == DType::i8) return scale;
  return 2.0 * reference::unit_roundoff(dtype) * std::fabs(number) + 0x1p-9 * scale;
}

void expect_as_the_reference(Keys& keys, const PlaneSpec& spec, const Hadamard& hadamard) {
  TestPlane actual(spec), expected(spec);
  actual.view.hadamard = expected.view.hadamard = hadamard;
  // a mean of magnitude 4 beside a deviation of 1 / sqrt(3), sums of up to 32 + 4 numbers, a turn
  const double float_error =
      512.0 * 0x1p-24 * std::sqrt(std::max(1.0, static_cast<double>(hadamard.block)));
  keys.args.key = actual.view;
  const Status status = append({}, keys.args, default_executor(2));
  ASSERT_TRUE(status.is_ok()) << status.message();
  keys.args.key = expected.view;
  reference::append({}, keys.args);
  for (const int64_t slot : keys.slots) {
    double largest = 0.0;
    for (int64_t d = 0; d < spec.head_size; ++d)
      largest = std::max(largest, std::fabs(value(expected, slot, d)));
    for (int64_t d = 0; d < spec.head_size; ++d) {
      const double e = value(expected, slot, d);
      ASSERT_NEAR(value(actual, slot, d), e,
                  1.01 * spacing(expected, slot, d, e) + float_error * largest)
          << name(spec.dtype) << ", head size " << spec.head_size << ", dim " << d;
    }
  }
}

/// The rotations that indexers have: none, and the first 64 dimensions in halves or as neighbours.
void for_each_rope(Keys& keys, auto body) {
  keys.args.rope = nullptr;
  body();
  keys.args.rope = &keys.rope;
  for (const bool interleaved : {false, true}) {
    keys.rope.interleaved = interleaved;
    body();
  }
}

TEST(LayerNorm, keys_are_those_of_the_reference_in_every_type_turned_or_not) {
  Rng rng(test_seed());
  constexpr DType activations[] = {DType::f32, DType::bf16, DType::f16};
  for (const int32_t size : {32, 64, 128, 192, 256, 512}) {
    SCOPED_TRACE(size);
    const PlaneSpec specs[] = {
        index_spec(DType::f32, size, 0),       index_spec(DType::bf16, size, 0),
        index_spec(DType::f16, size, 0),       index_spec(DType::f8_e4m3, size, size),
        index_spec(DType::f8_e4m3, size, 128), index_spec(DType::f8_e5m2, size, 32),
        index_spec(DType::i8, size, size)};
    for (const PlaneSpec& spec : specs) {
      Keys keys(rng, rng.pick(activations), size);
      for_each_rope(keys, [&] {
        for (const Hadamard& hadamard : {Hadamard{}, Hadamard{size & -size, 0}, Hadamard{16, 7}})
          ASSERT_NO_FATAL_FAILURE(expect_as_the_reference(keys, spec, hadamard));
      });
    }
  }
}

/// One row of q through rotate, as float32.
std::vector<float> normalised(std::vector<float> x, const std::vector<float>& weights,
                              const std::vector<float>& shifts, float eps) {
  RotateArgs args;
  args.q = args.out = dense_tensor<3>(x.data(), DType::f32, {1, 1, static_cast<int64_t>(x.size())});
  args.q_norm = weights.data();
  args.q_norm_shift = shifts.data();
  args.norm_eps = eps;
  EXPECT_EQ(rotate({}, args, serial_executor()).message(), "");
  return x;
}

TEST(LayerNorm, a_row_by_hand) {
  EXPECT_EQ(normalised({1, 3, 3, 1}, {2, 2, 4, 1}, {0.5f, 0.5f, 0, -1}, 0.0f),
            (std::vector<float>{-1.5f, 2.5f, 4.0f, -2.0f}));
  EXPECT_EQ(normalised({5}, {3}, {0.25f}, 1e-6f), std::vector<float>{0.25f})
      << "a single element is its own mean";
}

TEST(LayerNorm, a_constant_row_is_the_shifts_whatever_lies_behind_it) {
  for (const size_t size : {2U, 15U, 16U, 17U, 40U, 100U, 128U, 576U}) {
    // powers of two: the sums, and so the mean, are exact
    std::vector<float> x(size, 4096.0f), weights(size, 3.0f), shifts(size);
    for (size_t i = 0; i < size; ++i) shifts[i] = static_cast<float>(i) - 7.0f;
    EXPECT_EQ(normalised(x, weights, shifts, 1e-6f), shifts) << size;
  }
}

TEST(LayerNorm, a_mean_far_from_zero_costs_no_variance) {
  // mean(x^2) - mean(x)^2 would be 0 or worse here: 2^26 has no room for 1 beside it
  std::vector<float> x(128), weights(128, 1.0f), shifts(128, 0.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 8192.0f + (i % 2 == 0 ? 0.5f : -0.5f);
  const std::vector<float> y = normalised(x, weights, shifts, 0.0f);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], i % 2 == 0 ? 1.0f : -1.0f) << i;
}

TEST(LayerNorm, numbers_that_are_none_spoil_their_row_and_no_other) {
  for (const float special : {infinity, -infinity, not_a_number}) {
    std::vector<float> x(2 * 32, 1.0f), weights(32, 1.0f), shifts(32, 0.0f);
    x[5] = special;
    x[40] = 2.0f;
    RotateArgs args;
    args.q = args.out = dense_tensor<3>(x.data(), DType::f32, {1, 2, 32});
    args.q_norm = weights.data();
    args.q_norm_shift = shifts.data();
    ASSERT_TRUE(rotate({}, args, serial_executor()).is_ok());
    for (size_t i = 0; i < 32; ++i) ASSERT_TRUE(std::isnan(x[i])) << i;
    for (size_t i = 32; i < 64; ++i) ASSERT_TRUE(std::isfinite(x[i])) << i;
  }
}

}  // namespace
}  // namespace folio::test
