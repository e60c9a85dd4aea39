// SPDX-License-Identifier: Apache-2.0
/// tests/attention/append_test.cpp: append against the words of its contract, element by element in
/// double, byte for byte.
#include "folio/attention/append.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "attention/append_parts.h"
#include "reference/blocks.h"
#include "reference/elements.h"
#include "support/allocations.h"
#include "support/random.h"
#include "support/test_plane.h"

namespace folio::test {
namespace {

double qmax(DType dtype) {
  return dtype == DType::i8 ? 127.0 : dtype == DType::f8_e4m3 ? 448.0 : 57344.0;
}

double largest_scale(DType dtype) {
  return dtype == DType::f32       ? static_cast<double>(std::numeric_limits<float>::max())
         : dtype == DType::bf16    ? std::ldexp(255.0, 120)
         : dtype == DType::f16     ? 65504.0
         : dtype == DType::f8_e8m0 ? std::ldexp(1.0, 127)
                                   : 448.0;
}

void append_blocks(const TestPlane& plane, const Source& source, int64_t t, int64_t page,
                   int64_t slot) {
  std::vector<float> row(static_cast<size_t>(plane.view.head_size));
  for (int64_t h = 0; h < plane.view.num_heads; ++h) {
    for (size_t d = 0; d < row.size(); ++d) row[d] = source.get(t, h, static_cast<int64_t>(d));
    reference::store_blocks(plane.element(page, slot, h, 0), plane.view.dtype, row);
  }
}

/// One token by the contract's words: elements whose scales have one address share a scale.
void append_by_definition(const TestPlane& plane, const Source& source, int64_t t, int64_t page,
                          int64_t slot) {
  const PagedKVView& v = plane.view;
  if (detail::is_block(v.dtype)) return append_blocks(plane, source, t, page, slot);
  const ScaleView& s = v.scales;
  std::map<std::byte*, double> amax;
  if (s.data != nullptr && s.slot_stride_bytes != 0) {
    for (int64_t h = 0; h < v.num_heads; ++h) {
      for (int64_t d = 0; d < v.head_size; ++d) {
        const double x = std::fabs(static_cast<double>(source.get(t, h, d)));
        double& largest = amax[plane.scale(page, slot, h, d)];
        if (std::isfinite(x)) largest = std::max(largest, x);
      }
    }
  }
  const float tensor_scale = s.tensor_scale != nullptr ? *s.tensor_scale : 1.0f;
  for (const auto& [at, largest] : amax) {
    const double scale =
        largest == 0.0 ? 1.0 : largest / (qmax(v.dtype) * static_cast<double>(tensor_scale));
    reference::store(
        at, s.dtype,
        reference::decode(s.dtype,
                          reference::encode_up(s.dtype, std::min(scale, largest_scale(s.dtype)))));
  }
  for (int64_t h = 0; h < v.num_heads; ++h) {
    for (int64_t d = 0; d < v.head_size; ++d) {
      float x = source.get(t, h, d);
      if (s.data != nullptr)
        x /= static_cast<float>(reference::load(plane.scale(page, slot, h, d), s.dtype)) *
             tensor_scale;
      reference::store(plane.element(page, slot, h, d), v.dtype, static_cast<double>(x));
    }
  }
}

TEST(Append, writes_exactly_what_the_contract_says_for_any_geometry_dtype_and_scale) {
  Rng rng(test_seed());
  const DType inputs[] = {DType::f32, DType::bf16, DType::f16};
  for (int round = 0; round < 400; ++round) {
    SCOPED_TRACE(round);
    const int32_t page_size = rng.int_between(1, 9);
    const int64_t num_pages = rng.between(1, 30);
    const auto spec = [&] {
      return rng.chance(0.3) ? random_block_spec(rng, page_size, num_pages)
                             : random_spec(rng, page_size, num_pages);
    };
    TestPlane planes[] = {TestPlane(spec()), TestPlane(spec())};
    const Step step(rng, page_size, num_pages);
    std::vector<Source> sources;
    for (TestPlane& plane : planes) {
      calibrate(plane, rng);
      sources.emplace_back(rng.pick(inputs), step.tokens, plane.view.num_heads,
                           plane.view.head_size, rng.between(0, 3));
      sources.back().randomise(rng, rng.chance(0.5));
    }
    const std::vector<int64_t> slots = step.slots(page_size, num_pages);
    AppendArgs args;
    args.k = sources[0].tensor;
    args.v = sources[1].tensor;
    args.key = planes[0].view;
    args.value = planes[1].view;
    if (rng.chance(0.5)) args.slots = slots.data();
    const std::vector<std::byte> before[] = {planes[0].bytes(), planes[1].bytes()};
    const Status status =
        append(args.slots != nullptr ? Batch{} : step.batch, args, default_executor(2));
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<std::byte> actual = planes[i].bytes();
      planes[i].set_bytes(before[i]);
      for (size_t t = 0; t < slots.size(); ++t) {
        if (slots[t] < 0) continue;
        append_by_definition(planes[i], sources[i], static_cast<int64_t>(t), slots[t] / page_size,
                             slots[t] % page_size);
      }
      EXPECT_EQ(difference(actual, planes[i].bytes()), "")
          << (i == 0 ? "key" : "value") << " of " << name(planes[i].view.dtype) << " from "
          << name(sources[i].tensor.dtype) << ", gaps and other slots included";
      EXPECT_TRUE(planes[i].slack_untouched());
    }
  }
}

/// One token of one head, quantised with one f32 scale per 8 elements unless the spec says
/// otherwise.
struct OneRow {
  TestPlane plane;
  Source source;

  explicit OneRow(DType dtype, DType scale_dtype = DType::f32, int32_t head_size = 8)
      : plane({dtype,
               1,
               head_size,
               1,
               1,
               StorageOrder::token_major,
               0,
               {scale_dtype, 8, true, true, true, true}}),
        source(DType::f32, 1, 1, head_size, 0) {
    // With one page of one slot every stride is free: a slot stride other than 0 asks for computed
    // scales.
    plane.view.scales.slot_stride_bytes = bit_width(scale_dtype) / 8 * 8;
  }
  void append_row() {
    const int64_t slot = 0;
    AppendArgs args;
    args.k = source.tensor;
    args.key = plane.view;
    args.slots = &slot;
    const Status status = append({}, args, serial_executor());
    ASSERT_TRUE(status.is_ok()) << status.message();
  }
  [[nodiscard]] double stored(int64_t d) const {
    return reference::load(plane.element(0, 0, 0, d), plane.view.dtype);
  }
  [[nodiscard]] double scale(int64_t d) const {
    return reference::load(plane.scale(0, 0, 0, d), plane.view.scales.dtype);
  }
};

TEST(Append, the_scale_is_taken_from_finite_inputs_and_reaches_the_largest) {
  for (const DType dtype : {DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
    OneRow row(dtype);
    const float values[] = {1.0f, -3.0f, infinity, -infinity, not_a_number, 0.5f, 0.0f, 2.0f};
    for (int64_t d = 0; d < 8; ++d) row.source.set(0, 0, d, values[d]);
    row.append_row();
    EXPECT_NEAR(row.scale(0), 3.0 / qmax(dtype), 1e-6);
    EXPECT_GE(row.scale(0) * qmax(dtype), 3.0);
    EXPECT_EQ(row.stored(1), -qmax(dtype));
    EXPECT_EQ(row.stored(2), qmax(dtype)) << "infinity saturates";
    EXPECT_EQ(row.stored(3), -qmax(dtype));
    if (dtype == DType::i8) {
      EXPECT_EQ(row.stored(4), 0.0) << "i8 has no NaN";
    } else {
      EXPECT_TRUE(std::isnan(row.stored(4)));
    }
  }
}

TEST(Append, a_granule_of_zeros_or_without_finite_values_has_scale_one) {
  OneRow row(DType::f8_e4m3, DType::f32, 16);
  for (int64_t d = 0; d < 8; ++d) row.source.set(0, 0, d, d % 2 == 0 ? 0.0f : -0.0f);
  for (int64_t d = 8; d < 16; ++d) row.source.set(0, 0, d, d % 2 == 0 ? not_a_number : infinity);
  row.append_row();
  EXPECT_EQ(row.scale(0), 1.0);
  EXPECT_EQ(row.scale(8), 1.0);
  EXPECT_EQ(row.stored(0), 0.0);
  EXPECT_EQ(row.stored(9), 448.0);
}

TEST(Append, scales_round_up_in_their_type) {
  for (const DType scale : {DType::f16, DType::bf16, DType::f8_e8m0, DType::f8_e4m3}) {
    OneRow row(DType::i8, scale);
    for (int64_t d = 0; d < 8; ++d) row.source.set(0, 0, d, 100.0f);
    row.append_row();
    EXPECT_GE(row.scale(0) * 127.0, 100.0) << name(scale);
    EXPECT_LE(row.scale(0) * 127.0, 200.0) << name(scale);
    EXPECT_LE(row.stored(0) * row.scale(0), 100.0 + row.scale(0) / 2) << name(scale);
  }
}

TEST(Append, a_scale_beyond_its_type_stays_finite_and_the_values_saturate) {
  OneRow row(DType::i8, DType::f16);
  for (int64_t d = 0; d < 8; ++d) row.source.set(0, 0, d, d == 0 ? 1e30f : 127.0f * 65504.0f);
  row.append_row();
  EXPECT_EQ(row.scale(0), 65504.0);
  EXPECT_EQ(row.stored(0), 127.0);
  EXPECT_EQ(row.stored(1), 127.0);
}

TEST(Append, the_cut_into_tasks_does_not_show) {
  Rng rng(test_seed());
  const PlaneSpec spec{DType::f8_e4m3,
                       4,
                       64,
                       16,
                       64,
                       StorageOrder::head_major,
                       0,
                       {DType::f32, 32, true, true, true, true}};
  const Source source(DType::bf16, 1000, 4, 64, 0);
  source.randomise(rng, false);
  const int32_t offsets[] = {0, 1, 1, 700, 1000};
  const int32_t contexts[] = {17, 0, 699, 303};
  const int64_t row_starts[] = {0, 2, 2, 46};
  std::vector<uint32_t> entries(66);
  std::iota(entries.begin(), entries.end(), 0u);  // 64 and 65 are unassigned
  rng.shuffle(entries);
  const Batch batch{4, offsets, contexts, {entries.data(), 0, row_starts}};
  std::vector<std::byte> bytes[2];
  for (int i = 0; i < 2; ++i) {
    const TestPlane plane(spec);
    AppendArgs args;
    args.k = source.tensor;
    args.key = plane.view;
    ASSERT_TRUE(append(batch, args, i == 0 ? serial_executor() : reversed_executor()).is_ok());
    bytes[i] = plane.bytes();
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST(Append, a_slot_out_of_range_is_refused_before_anything_is_written) {
  const TestPlane plane({});
  const Source source(DType::f32, 3, 2, 16, 0);
  const std::vector<std::byte> before = plane.bytes();
  const int64_t slots[] = {0, 5 * 4, 1};
  AppendArgs args;
  args.k = source.tensor;
  args.key = plane.view;
  args.slots = slots;
  EXPECT_EQ(append({}, args, serial_executor()).code(), Errc::invalid_argument);
  EXPECT_EQ(plane.bytes(), before);
}

TEST(Append, rows_of_ragged_planes_are_reached_by_table_and_by_slot) {
  TestPlane plane({DType::f32, 2, 8, 1, 20, StorageOrder::token_major, 1});
  plane.view.page_size = unbounded_page_size;
  plane.view.slot_stride_bytes = plane.view.page_stride_bytes;
  const Source source(DType::f32, 3, 2, 8, 0);
  Rng rng(test_seed());
  source.randomise(rng, false);
  const int32_t offsets[] = {0, 3};
  const int32_t contexts[] = {5};
  const uint32_t first_row[] = {15};  // tokens 2, 3, 4 go to rows 17, 18, 19
  AppendArgs args;
  args.k = source.tensor;
  args.key = plane.view;
  ASSERT_TRUE(
      append({1, offsets, contexts, {first_row, 1, nullptr}}, args, serial_executor()).is_ok());
  const int64_t slots[] = {0, -1, 2};
  args.slots = slots;
  ASSERT_TRUE(append({}, args, serial_executor()).is_ok());
  const std::pair<int64_t, int64_t> expected[] = {{17, 0}, {18, 1}, {19, 2}, {0, 0}, {2, 2}};
  for (const auto& [row, token] : expected) {
    for (int64_t d = 0; d < 8; ++d) {
      EXPECT_EQ(reference::load(plane.element(row, 0, 1, d), DType::f32),
                static_cast<double>(source.get(token, 1, d)));
    }
  }
  EXPECT_TRUE(std::isnan(reference::load(plane.element(1, 0, 0, 0), DType::f32)));
}

TEST(Append, every_negative_slot_skips_its_token) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  const int64_t skipping[] = {-1, -2, -7, -0x100000000, least + 1, least};
  const int32_t offsets[] = {0, 3}, contexts[] = {3}, positions[] = {1, 99, 0}, starts[] = {-1};
  const std::vector<float> table(4 * 6, 0.5f);
  const Rope none, given{table.data(), 4, 6, false, 0, positions},
      counted{table.data(), 4, 6, false, 0, nullptr};
  const Source source(DType::f32, 3, 2, 8, 0);
  Rng rng(test_seed());
  source.randomise(rng, false);
  for (const Rope* rope : {&none, &given, &counted}) {
    for (const int64_t skip : skipping) {
      SCOPED_TRACE(skip);
      const TestPlane plane({DType::f32, 2, 8, 4, 3}), expected({DType::f32, 2, 8, 4, 3});
      // a skipped token's position is not looked at: 99, or -1 where it is counted
      const bool first = rope == &counted;
      const int64_t slots[] = {first ? skip : 7, first ? 7 : skip, 2};
      Batch batch{1, offsets, contexts};
      batch.query_positions = starts;
      AppendArgs args;
      args.k = source.tensor;
      args.key = plane.view;
      args.slots = slots;
      if (rope != &none) args.rope = rope;
      const Status status = append(batch, args, serial_executor());
      ASSERT_TRUE(status.is_ok()) << status.message();
      // the same by the tokens that stay, one by one
      for (const int64_t t : {first ? int64_t{1} : int64_t{0}, int64_t{2}}) {
        const int32_t one[] = {0, 1},
                      position[] = {first ? static_cast<int32_t>(t - 1) : positions[t]};
        Rope same = *rope;
        same.positions = position;
        AppendArgs single = args;
        single.k.data =
            static_cast<std::byte*>(source.tensor.data) + t * source.tensor.stride_bytes[0];
        single.k.extent[0] = 1;
        single.key = expected.view;
        single.slots = slots + t;
        if (rope != &none) single.rope = &same;
        ASSERT_TRUE(append({1, one, contexts}, single, serial_executor()).is_ok());
      }
      EXPECT_EQ(difference(plane.bytes(), expected.bytes()), "");
      EXPECT_TRUE(plane.slack_untouched());
    }
  }
}

TEST(Append, no_tokens_is_success) {
  const TestPlane plane({});
  AppendArgs args;
  args.key = plane.view;
  EXPECT_TRUE(append({}, args, serial_executor()).is_ok());
  const int32_t offsets[] = {0, 0, 0};
  const int32_t contexts[] = {0, 7};
  const uint32_t entries[] = {0, 1};
  EXPECT_TRUE(
      append({2, offsets, contexts, {entries, 1, nullptr}}, args, serial_executor()).is_ok());
}

TEST(Append, appending_allocates_nothing) {
  const TestPlane plane({});
  const Source source(DType::bf16, 2, 2, 16, 0);
  const int64_t slots[] = {3, 9};
  AppendArgs args;
  args.k = args.v = source.tensor;
  args.key = plane.view;
  const TestPlane value({});
  args.value = value.view;
  args.slots = slots;
  const int64_t before = allocations();
  const Status status = append({}, args, serial_executor());
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(status.is_ok());
}

}  // namespace
}  // namespace folio::test
