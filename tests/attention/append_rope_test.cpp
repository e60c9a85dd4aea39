// SPDX-License-Identifier: Apache-2.0
/// tests/attention/append_rope_test.cpp: append with a norm and a rotation: K as stored is what
/// rotate gives, then quantised.
#include <gtest/gtest.h>

#include <bit>

#include "attention/append_parts.h"
#include "attention/rope_parts.h"
#include "folio/attention/append.h"
#include "reference/append.h"
#include "support/allocations.h"

namespace folio::test {
namespace {

constexpr DType activations[] = {DType::f32, DType::bf16, DType::f16};
constexpr int64_t table_rows = 64;

/// A step with a K plane at random, and what rotates it. The head size is at least 2.
struct Case {
  int32_t page_size;
  int64_t num_pages;
  Step step;
  PlaneSpec spec;
  RandomRope table;
  Source k;
  std::vector<int64_t> slots;
  std::vector<int32_t> positions;
  AppendArgs args;

  explicit Case(Rng& rng)
      : page_size(rng.int_between(1, 9)),
        num_pages(rng.between(1, 30)),
        step(rng, page_size, num_pages),
        spec(spec_of(rng)),
        table(rng, spec.head_size, table_rows),
        k(rng.pick(activations), step.tokens, spec.num_heads, spec.head_size, rng.between(0, 3)),
        slots(step.slots(page_size, num_pages)) {
    k.randomise(rng, false);
    for (const int64_t slot : slots)
      positions.push_back(slot < 0 ? -7 : rng.int_between(0, table_rows - 1));
    args.k = k.tensor;
    args.rope = &table.rope;
    args.k_norm = rng.chance(0.6) ? table.weights.as<float>() : nullptr;
    if (args.k_norm != nullptr && rng.chance(0.5)) args.k_norm_shift = table.shifts.as<float>();
    if (args.k_norm != nullptr && rng.chance(0.3)) args.rope = nullptr;
    if (rng.chance(0.5)) args.slots = slots.data();
    if (args.slots != nullptr && rng.chance(0.5)) table.rope.positions = positions.data();
  }

 private:
  PlaneSpec spec_of(Rng& rng) const {
    PlaneSpec s = random_spec(rng, page_size, num_pages);
    s.head_size = std::max(2, s.head_size);
    return s;
  }
};

/// K after rotate, as float32, rows packed. Positions that only skipped tokens have are made good
/// first.
std::vector<float> rotated_rows(const Case& c) {
  std::vector<float> rows(static_cast<size_t>(c.step.tokens * c.spec.num_heads * c.spec.head_size));
  Rope rope = c.table.rope;
  std::vector<int32_t> positions = c.positions;
  for (int32_t& p : positions) p = std::max(p, 0);
  if (rope.positions != nullptr) rope.positions = positions.data();
  RotateArgs args;
  args.q = c.k.tensor;
  args.out =
      dense_tensor<3>(rows.data(), DType::f32, {c.step.tokens, c.spec.num_heads, c.spec.head_size});
  args.rope = c.args.rope != nullptr ? &rope : nullptr;
  args.q_norm = c.args.k_norm;
  args.q_norm_shift = c.args.k_norm_shift;
  const Status status = rotate(c.step.batch, args, serial_executor());
  EXPECT_EQ(status.message(), "");
  return rows;
}

TEST(AppendRope, what_is_stored_is_what_rotate_gives_appended_without_rotation) {
  Rng rng(test_seed());
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    Case c(rng);
    TestPlane fused(c.spec), apart(c.spec);
    calibrate(fused, rng);
    apart.set_bytes(fused.bytes());
    c.args.key = fused.view;
    const Status status = append(c.step.batch, c.args, default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();

    std::vector<float> rows = rotated_rows(c);
    AppendArgs plain = c.args;
    plain.k = dense_tensor<3>(rows.data(), DType::f32,
                              {c.step.tokens, c.spec.num_heads, c.spec.head_size});
    plain.key = apart.view;
    plain.rope = nullptr;
    plain.k_norm = plain.k_norm_shift = nullptr;
    ASSERT_TRUE(append(c.step.batch, plain, serial_executor()).is_ok());
    EXPECT_EQ(difference(fused.bytes(), apart.bytes()), "")
        << name(c.spec.dtype) << ", gaps and other slots included";
    EXPECT_TRUE(fused.slack_untouched());
  }
}

TEST(AppendRope, what_is_read_has_the_bits_of_rotate_in_the_same_type) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    Case c(rng);
    c.spec.dtype = rng.pick(activations);
    c.spec.scales = {};
    const TestPlane plane(c.spec);
    c.args.key = plane.view;
    ASSERT_TRUE(append(c.step.batch, c.args, serial_executor()).is_ok());
    const Source out(c.spec.dtype, c.step.tokens, c.spec.num_heads, c.spec.head_size, 0);
    Rope rope = c.table.rope;
    for (int32_t& p : c.positions) p = std::max(p, 0);
    RotateArgs args{c.k.tensor, out.tensor, c.args.rope != nullptr ? &rope : nullptr,
                    c.args.k_norm};
    args.q_norm_shift = c.args.k_norm_shift;
    ASSERT_TRUE(rotate(c.step.batch, args, serial_executor()).is_ok());
    for (size_t t = 0; t < c.slots.size(); ++t) {
      if (c.slots[t] < 0) continue;
      for (int64_t h = 0; h < c.spec.num_heads; ++h) {
        const std::byte* stored =
            plane.element(c.slots[t] / c.page_size, c.slots[t] % c.page_size, h, 0);
        const auto* expected = static_cast<const std::byte*>(out.tensor.data) +
                               static_cast<int64_t>(t) * out.tensor.stride_bytes[0] +
                               h * out.tensor.stride_bytes[1];
        ASSERT_EQ(std::memcmp(stored, expected,
                              static_cast<size_t>(c.spec.head_size * bit_width(c.spec.dtype) / 8)),
                  0);
      }
    }
  }
}

/// What rounding of x - mean becomes at the most behind a LayerNorm and a rotation: sums of two
/// products of weights below 2 and angles below 8.
double enlarged(const Case& c, size_t token, int64_t head) {
  std::vector<float> x(static_cast<size_t>(c.spec.head_size));
  for (size_t d = 0; d < x.size(); ++d)
    x[d] = c.k.get(static_cast<int64_t>(token), head, static_cast<int64_t>(d));
  return 2.0 * 2.0 * 8.0 * enlargement_of_norm(x, c.args.norm_eps);
}

TEST(AppendRope, agrees_with_the_reference_up_to_a_step_of_the_type) {
  Rng rng(test_seed());
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    Case c(rng);
    c.spec.scales = {};
    c.spec.dtype = rng.pick(activations);
    const TestPlane actual(c.spec), expected(c.spec);
    c.args.key = actual.view;
    ASSERT_TRUE(append(c.step.batch, c.args, serial_executor()).is_ok());
    c.args.key = expected.view;
    reference::append(c.step.batch, c.args);
    for (size_t t = 0; t < c.slots.size(); ++t) {
      const int64_t slot = c.slots[t];
      if (slot < 0) continue;
      for (int64_t h = 0; h < c.spec.num_heads; ++h) {
        double largest = c.args.k_norm_shift != nullptr ? enlarged(c, t, h) : 0.0;
        for (int64_t d = 0; d < c.spec.head_size; ++d) {
          const double x = reference::load(
              expected.element(slot / c.page_size, slot % c.page_size, h, d), c.spec.dtype);
          if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
        }
        for (int64_t d = 0; d < c.spec.head_size; ++d) {
          const double a = reference::load(
              actual.element(slot / c.page_size, slot % c.page_size, h, d), c.spec.dtype);
          const double e = reference::load(
              expected.element(slot / c.page_size, slot % c.page_size, h, d), c.spec.dtype);
          if (!std::isfinite(e)) continue;
          const double step = 2.0 * reference::unit_roundoff(c.spec.dtype) * std::fabs(e) + 0x1p-24;
          ASSERT_NEAR(a, e, step + 64.0 * 0x1p-24 * largest);
        }
      }
    }
  }
}

TEST(AppendRope, a_fused_row_is_split_and_rotated_where_it_lies) {
  Rng rng(test_seed());
  constexpr int64_t tokens = 7, q_heads = 6, kv_heads = 2, dims = 32,
                    row = (q_heads + 2 * kv_heads) * dims;
  std::vector<float> fused(static_cast<size_t>(tokens * row));
  for (float& x : fused) x = rng.uniform(-2.0f, 2.0f);
  const std::vector<float> before = fused;
  const RandomRope table(rng, dims, table_rows);
  const auto slice = [&](int64_t first_head, int64_t heads) {
    AnyTensor<3> t =
        dense_tensor<3>(fused.data() + first_head * dims, DType::f32, {tokens, heads, dims});
    t.stride_bytes[0] = row * 4;
    return t;
  };
  const int32_t offsets[] = {0, tokens}, contexts[] = {tokens + 3};
  const uint32_t entries[] = {2, 0, 1};
  const Batch batch{1, offsets, contexts, {entries, 3, nullptr}};
  const TestPlane key({DType::f32, 2, 32, 4, 3}), value({DType::f32, 2, 32, 4, 3});
  ASSERT_TRUE(rotate(batch, {slice(0, q_heads), slice(0, q_heads), &table.rope}, serial_executor())
                  .is_ok());
  AppendArgs args;
  args.k = slice(q_heads, kv_heads);
  args.v = slice(q_heads + kv_heads, kv_heads);
  args.key = key.view;
  args.value = value.view;
  args.rope = &table.rope;
  ASSERT_TRUE(append(batch, args, serial_executor()).is_ok());
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t index = 3 + t;
    for (int64_t h = 0; h < q_heads + 2 * kv_heads; ++h) {
      const auto at = static_cast<size_t>(t * row + h * dims);
      std::vector<float> x(before.begin() + static_cast<int64_t>(at),
                           before.begin() + static_cast<int64_t>(at) + dims);
      if (h < q_heads + kv_heads) rotate_by_definition(x, table.rope, index);
      const auto page = static_cast<int64_t>(entries[index / 4]);
      const void* actual = h < q_heads ? static_cast<const void*>(&fused[at])
                           : h < q_heads + kv_heads
                               ? key.element(page, index % 4, h - q_heads, 0)
                               : value.element(page, index % 4, h - q_heads - kv_heads, 0);
      ASSERT_EQ(std::memcmp(actual, x.data(), dims * 4), 0) << t << ' ' << h;
    }
  }
  EXPECT_TRUE(std::equal(before.begin() + q_heads * dims, before.begin() + row,
                         fused.begin() + q_heads * dims))
      << "K and V of the row are read only";
}

TEST(AppendRope, a_position_out_of_range_is_refused_before_anything_is_written) {
  Rng rng(test_seed());
  const TestPlane plane({DType::bf16, 2, 16, 4, 5});
  const Source k(DType::f32, 3, 2, 16, 0);
  const RandomRope table(rng, 16, 8);
  const int64_t slots[] = {0, -1, 5};
  const std::vector<std::byte> before = plane.bytes();
  for (const int32_t bad : {8, -1, 1 << 30}) {
    const int32_t positions[] = {0, 1, bad};
    Rope rope = table.rope;
    rope.positions = positions;
    AppendArgs args;
    args.k = k.tensor;
    args.key = plane.view;
    args.slots = slots;
    args.rope = &rope;
    EXPECT_EQ(append({}, args, serial_executor()).code(), Errc::invalid_argument);
    EXPECT_EQ(plane.bytes(), before);
    const int32_t harmless[] = {0, bad, 1};  // that token is skipped
    rope.positions = harmless;
    EXPECT_EQ(append({}, args, serial_executor()).message(), "");
    std::memset(plane.view.data, 0xff, 5 * 4 * 2 * 16 * 2);
  }
}

TEST(AppendRope, appending_allocates_nothing) {
  Rng rng(test_seed());
  PlaneSpec spec;
  spec.dtype = DType::i8;
  spec.scales = {DType::f32, 8, true, true, true, true};
  const TestPlane plane(spec);
  const Source k(DType::bf16, 2, 2, 16, 0);
  k.randomise(rng, false);
  const RandomRope table(rng, 16, 8);
  const int32_t offsets[] = {0, 2}, contexts[] = {6};
  const uint32_t entries[] = {4, 1};
  AppendArgs args;
  args.k = k.tensor;
  args.key = plane.view;
  args.rope = &table.rope;
  args.k_norm = table.weights.as<float>();
  const int64_t before = allocations();
  const Status status =
      append({1, offsets, contexts, {entries, 2, nullptr}}, args, serial_executor());
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(status.is_ok());
}

}  // namespace
}  // namespace folio::test
