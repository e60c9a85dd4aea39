// SPDX-License-Identifier: Apache-2.0
/// tests/attention/packed_test.cpp: planes of four bits, rotated and scaled by channels: append by
/// the reference, attention over what append has written.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "folio/attention/append.h"
#include "folio/attention/attend.h"
#include "folio/attention/plan.h"
#include "folio/core/buffer.h"
#include "reference/append.h"
#include "reference/attention.h"
#include "reference/quantise.h"
#include "support/kernel_cases.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr DType packed_dtypes[] = {DType::i4, DType::u4, DType::f4_e2m1, DType::i4_halves,
                                   DType::u4_halves};

/// A plane of packed rows in memory of its own.
struct PackedPlane {
  PackedPlane(DType dtype, int32_t heads, int32_t head_size, int64_t pages, int32_t page_size,
              DType scale_dtype, int32_t granularity, Zeros zeros, Hadamard hadamard, bool channels,
              Rng& rng) {
    const int64_t row = row_bytes(dtype, head_size);
    view.dtype = dtype;
    view.num_heads = heads;
    view.head_size = head_size;
    view.page_size = page_size;
    view.num_pages = pages;
    view.head_stride_bytes = row + 3;
    view.slot_stride_bytes = heads * view.head_stride_bytes;
    view.page_stride_bytes = page_size * view.slot_stride_bytes;
    values.assign(static_cast<size_t>(pages * view.page_stride_bytes), std::byte{0xff});
    view.data = values.data();
    ScaleView& s = view.scales;
    s.dtype = scale_dtype;
    s.granularity = granularity;
    s.zeros = zeros;
    const int64_t element = bit_width(scale_dtype) / 8;
    if (zeros == Zeros::patterns) s.zero_offset_bytes = element;
    if (zeros == Zeros::minimum) s.zero_offset_bytes = element;
    const bool is_wide = zeros == Zeros::patterns || zeros == Zeros::minimum;
    s.granule_stride_bytes = element * (is_wide ? 2 : 1);
    s.head_stride_bytes = (head_size + granularity - 1) / granularity * s.granule_stride_bytes;
    s.slot_stride_bytes = heads * s.head_stride_bytes;
    s.page_stride_bytes = page_size * s.slot_stride_bytes;
    scales.assign(static_cast<size_t>(pages * s.page_stride_bytes / 4 + 4), 0.0f);
    s.data = scales.data();
    view.hadamard = hadamard;
    if (channels) {
      for (int i = 0; i < heads * head_size; ++i) factors.push_back(rng.uniform(0.1f, 4.0f));
      view.has_channel_scales = true;
      view.channel_scales = factors.data();
    }
  }
  [[nodiscard]] std::vector<std::byte> bytes() const {
    std::vector<std::byte> all = values;
    const auto* from = reinterpret_cast<const std::byte*>(scales.data());
    all.insert(all.end(), from, from + scales.size() * 4);
    return all;
  }
  PagedKVView view;
  std::vector<std::byte> values;
  std::vector<float> scales, factors;
};

struct Form {
  DType dtype = DType::i4;
  DType scale_dtype = DType::f16;
  int32_t granularity = 32;
  Zeros zeros = Zeros::none;
  Hadamard hadamard = {};
  bool channels = false;
};

Form random_form(Rng& rng, int32_t head_size) {
  constexpr DType scale_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                    DType::f8_e4m3};
  constexpr int32_t granularities[] = {16, 32, 64, 128, 7, 24};
  Form form;
  form.dtype = rng.pick(packed_dtypes);
  form.scale_dtype = rng.pick(scale_dtypes);
  form.granularity = rng.pick(granularities);
  if (form.dtype == DType::u4 || form.dtype == DType::u4_halves) {
    constexpr Zeros all[] = {Zeros::none, Zeros::patterns, Zeros::minimum, Zeros::in_scale};
    form.zeros = rng.pick(all);
    if (form.zeros == Zeros::in_scale) form.scale_dtype = DType::f32;
    if (form.zeros == Zeros::minimum) form.scale_dtype = rng.chance(0.5) ? DType::f16 : DType::bf16;
  }
  if (rng.chance(0.6)) {
    int32_t block = 16;
    while (head_size % (2 * block) == 0 && rng.chance(0.7)) block *= 2;
    form.hadamard = {block, rng.chance(0.5) ? static_cast<uint32_t>(rng.next()) : 0};
  }
  form.channels = rng.chance(0.4);
  return form;
}

std::string describe(const Form& f) {
  return std::string(name(f.dtype)) + " scales " + name(f.scale_dtype) + " of " +
         std::to_string(f.granularity) + " zeros " + std::to_string(static_cast<int>(f.zeros)) +
         " hadamard " + std::to_string(f.hadamard.block) + "/" +
         std::to_string(f.hadamard.sign_seed) + (f.channels ? " channels" : "");
}

PackedPlane plane_of(const Form& f, int32_t head_size, Rng& rng) {
  return PackedPlane(f.dtype, 2, head_size, 5, 4, f.scale_dtype, f.granularity, f.zeros, f.hadamard,
                     f.channels, rng);
}

std::vector<float> rows_of(int64_t count, int32_t head_size, Rng& rng) {
  std::vector<float> rows(static_cast<size_t>(count * head_size));
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = rng.uniform(-1.0f, 1.0f) * (i % static_cast<size_t>(head_size) == 5 ? 30.0f : 1.0f);
  if (rng.chance(0.3)) rows[rng.next() % rows.size()] = std::nanf("");
  if (rng.chance(0.3)) rows[rng.next() % rows.size()] = INFINITY;
  if (rng.chance(0.2)) std::fill_n(rows.begin(), head_size, 0.0f);
  return rows;
}

TEST(Packed, append_writes_the_bytes_of_the_reference) {
  Rng rng(test_seed());
  for (int round = 0; round < 400; ++round) {
    constexpr int32_t head_sizes[] = {32, 64, 96, 128, 256};
    const int32_t head_size = rng.pick(head_sizes);
    const Form form = random_form(rng, head_size);
    PackedPlane plane = plane_of(form, head_size, rng);
    constexpr int64_t tokens = 20;
    const std::vector<float> rows = rows_of(tokens * 2, head_size, rng);
    std::vector<int64_t> slots(tokens);
    std::iota(slots.begin(), slots.end(), int64_t{0});
    rng.shuffle(slots);
    AppendArgs args;
    args.k = dense_tensor(rows.data(), DType::f32, {tokens, 2, int64_t{head_size}});
    args.key = plane.view;
    args.slots = slots.data();
    const PackedPlane untouched = plane;
    reference::append({}, args);
    const std::vector<std::byte> expected = plane.bytes();
    std::copy(untouched.values.begin(), untouched.values.end(), plane.values.begin());
    std::copy(untouched.scales.begin(), untouched.scales.end(), plane.scales.begin());
    ASSERT_EQ(append({}, args, serial_executor()).message(), "") << describe(form);
    const std::vector<std::byte> got = plane.bytes();
    size_t different = 0, first = 0;
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i] != expected[i] && different++ == 0) first = i;
    ASSERT_EQ(different, 0U) << describe(form) << " head_size " << head_size << " first " << first
                             << " of " << plane.values.size();
  }
}

/// A scale or a minimum that is infinite would make NaN of whole granules.
TEST(Packed, append_writes_finite_numbers_whatever_the_rows_reach) {
  Rng rng(test_seed());
  for (const Zeros zeros : {Zeros::patterns, Zeros::minimum, Zeros::in_scale})
    for (const DType scale_dtype : {DType::f32, DType::f16, DType::bf16})
      for (const float tensor_scale : {1.0f, 1e-4f, 1.5f})
        for (const float base : {3.3e38f, -3.3e38f, 0.0f, 1e6f, -1e6f}) {
          if (zeros == Zeros::in_scale && scale_dtype != DType::f32) continue;
          const Form form{DType::u4, scale_dtype, 32, zeros, {}, false};
          PackedPlane plane = plane_of(form, 64, rng);
          plane.view.scales.tensor_scale = &tensor_scale;
          std::vector<float> rows(2 * 64);
          for (float& x : rows) x = base + rng.uniform(-1.0f, 1.0f) * (base == 0.0f ? 3e38f : 1.0f);
          constexpr int64_t slot = 0;
          AppendArgs args;
          args.k = dense_tensor(rows.data(), DType::f32, {1, 2, 64});
          args.key = plane.view;
          args.slots = &slot;
          reference::append({}, args);
          const std::vector<std::byte> expected = plane.bytes();
          ASSERT_EQ(append({}, args, serial_executor()).message(), "");
          const std::string where = describe(form) + " around " + std::to_string(base);
          EXPECT_EQ(plane.bytes(), expected) << where;
          for (int32_t dim = 0; dim < 64; dim += 32) {
            const reference::Reading reading =
                reference::reading_of(plane.view, {.page = 0, .slot = 0}, 1, dim);
            EXPECT_TRUE(std::isfinite(reading.scale)) << where;
            EXPECT_TRUE(std::isfinite(reading.minimum)) << where;
          }
        }
}

/// Both planes of a form that every kernel for packed rows takes.
CaseOptions case_of(DType key, DType value, int32_t head_size = 128) {
  const ScaleOptions scales = {ScaleKind::granule, DType::f16, 32, false, Zeros::none};
  CaseOptions options;
  options.key_dtype = key;
  options.value_dtype = value;
  options.key_scales = options.value_scales = scales;
  options.head_size = options.v_head_size = head_size;
  options.int8_operands = true;
  options.outliers = 30.0f;
  options.seed = test_seed();
  return options;
}

TEST(Packed, every_pair_of_types_is_right_with_and_without_rounding_of_operands) {
  constexpr DType types[] = {DType::i4,        DType::u4,        DType::f4_e2m1,
                             DType::i4_halves, DType::u4_halves, DType::i8};
  for (const DType key : types)
    for (const DType value : types) {
      CaseOptions options = case_of(key, value);
      options.seed += static_cast<uint64_t>(key) * 100 + static_cast<uint64_t>(value);
      expect_every_kernel_right(options, {Adapt::nothing, nullptr});
      options.int8_operands = false;
      expect_every_kernel_right(options, {Adapt::nothing, nullptr});
    }
}

TEST(Packed, every_form_of_scales_is_right) {
  const ScaleKind kinds[] = {ScaleKind::tensor,         ScaleKind::head,
                             ScaleKind::page_and_head,  ScaleKind::calibrated_granule,
                             ScaleKind::token_and_head, ScaleKind::granule};
  Rng rng(test_seed());
  for (const ScaleKind kind : kinds)
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3})
      for (const int32_t granularity : {16, 32, 64, 128, 24}) {
        CaseOptions options = case_of(rng.pick(packed_dtypes), rng.pick(packed_dtypes));
        options.key_scales = {kind, dtype, granularity, rng.chance(0.5), Zeros::none};
        options.value_scales = options.key_scales;
        options.seed = rng.next();
        expect_every_kernel_right(options, {Adapt::nothing, nullptr});
      }
}

TEST(Packed, zero_points_of_every_kind_are_right) {
  Rng rng(test_seed());
  for (const DType dtype : {DType::u4, DType::u4_halves})
    for (const Zeros key : {Zeros::none, Zeros::patterns, Zeros::minimum, Zeros::in_scale})
      for (const Zeros value : {Zeros::none, Zeros::patterns, Zeros::minimum, Zeros::in_scale})
        for (const ScaleKind kind : {ScaleKind::granule, ScaleKind::head}) {
          CaseOptions options = case_of(dtype, dtype, 64);
          const auto scales = [kind](Zeros zeros) {
            const DType type = zeros == Zeros::in_scale ? DType::f32 : DType::f16;
            return ScaleOptions{kind, type, 32, false, zeros};
          };
          options.key_scales = scales(key);
          options.value_scales = scales(value);
          options.seed = rng.next();
          expect_every_kernel_right(options, {Adapt::nothing, nullptr});
        }
}

TEST(Packed, every_group_head_size_order_and_rotation_is_right) {
  Rng rng(test_seed());
  for (const int32_t group : {1, 2, 3, 4, 5, 8, 12})
    for (const int32_t head_size : {32, 64, 96, 128, 192, 256}) {
      CaseOptions options = case_of(rng.pick(packed_dtypes), rng.pick(packed_dtypes), head_size);
      options.kv_heads = 2;
      options.q_heads = 2 * group;
      options.q_dtype = rng.chance(0.5) ? DType::bf16 : DType::f32;
      options.key_order = static_cast<StorageOrder>(rng.between(0, 1));
      options.value_order = static_cast<StorageOrder>(rng.between(0, 1));
      const int32_t block = head_size % 64 == 0 ? 64 : 32;
      if (rng.chance(0.7)) options.key_turn = {{block, 1}, rng.chance(0.3)};
      if (rng.chance(0.7)) options.value_turn = {{block, 0}, rng.chance(0.3)};
      options.seed = rng.next();
      expect_every_kernel_right(options, {Adapt::nothing, nullptr});
    }
}

TEST(Packed, every_length_at_an_edge_is_right) {
  for (const int32_t page_size : {1, 16, 64}) {
    CaseOptions options = case_of(DType::i8, DType::i4);
    options.page_size = page_size;
    options.q_heads = 8;
    options.kv_heads = 1;
    options.value_turn = {{128, 0}, false};
    options.sequences.clear();
    for (const int32_t context : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 79, 127, 128, 129, 2049})
      options.sequences.push_back({1, context});
    expect_every_kernel_right(options, {Adapt::nothing, nullptr});
    options.sequences = {{9, 70}, {65, 65}, {33, 200}};
    expect_every_kernel_right(options, {Adapt::nothing, nullptr});
  }
}

void negate_some_scales(AttentionCase& c) {
  const PagedKVView& view = c.args().value;
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int64_t slot = page % 2; slot < view.page_size; slot += 3)
      for (int64_t head = 0; head < view.num_heads; ++head) {
        auto* const at =
            static_cast<std::byte*>(view.scales.data) + page * view.scales.page_stride_bytes +
            slot * view.scales.slot_stride_bytes + head * view.scales.head_stride_bytes;
        at[1] ^= std::byte{0x80};  // the sign of an f16
      }
}

TEST(Packed, scales_of_either_sign_are_right) {
  for (const DType value : {DType::i4, DType::u4_halves, DType::f4_e2m1, DType::i8})
    expect_every_kernel_right(case_of(DType::i4, value), {Adapt::nothing, negate_some_scales});
}

/// The least element of i8, which has no opposite, in rows with either sign.
void negate_some_scales_of_the_least(AttentionCase& c) {
  negate_some_scales(c);
  const PagedKVView& view = c.args().value;
  for (int64_t page = 0; page < view.num_pages; ++page)
    for (int64_t slot = 0; slot < view.page_size; ++slot)
      for (int64_t head = 0; head < view.num_heads; ++head)
        for (int d = 5; d < view.head_size; d += 7)
          static_cast<int8_t*>(
              view.data)[page * view.page_stride_bytes + slot * view.slot_stride_bytes +
                         head * view.head_stride_bytes + d] = INT8_MIN;
}

TEST(Packed, the_least_i8_is_right_beside_a_scale_of_either_sign) {
  for (const DType key : {DType::i4, DType::i8})
    expect_every_kernel_right(case_of(key, DType::i8),
                              {Adapt::nothing, negate_some_scales_of_the_least});
}

TEST(Packed, no_number_in_a_scale_reaches_the_output_of_those_who_see_it) {
  for (const bool of_key : {true, false})
    for_each_kernel_case(
        case_of(DType::i4, DType::u4), {Adapt::nothing, nullptr},
        [of_key](AttentionCase& c, const std::string& kernel) {
          const ScaleView& scales = of_key ? c.args().key.scales : c.args().value.scales;
          const int64_t page = c.table_entries()[0];
          auto* const at = static_cast<std::byte*>(scales.data) + page * scales.page_stride_bytes;
          at[0] = at[1] = std::byte{0x7f};  // a NaN of f16, of the first granule
          ASSERT_TRUE(run_case(c, kernel).is_ok());
          EXPECT_TRUE(std::isnan(c.output(0, 0, 0)));
          EXPECT_EQ(std::isnan(c.output(0, 0, 32)), of_key);
        });
}

}  // namespace
}  // namespace folio::test
