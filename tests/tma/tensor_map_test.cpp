// SPDX-License-Identifier: Apache-2.0
/// tests/tma/tensor_map_test.cpp: every rule of tensor maps broken once on each side, and the
/// bounds that are legal.
#include "folio/tma/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

namespace folio::test {
namespace {

using ::testing::HasSubstr;

/// A map that breaks nothing: rows of 128 bf16 elements, 3 heads.
tma::TensorMap good() {
  tma::TensorMap map;
  map.base = 0x7f0000001000;
  map.rank = 3;
  map.dtype = tma::DataType::bf16;
  map.swizzle = tma::Swizzle::b128;
  map.dim[0] = 128, map.dim[1] = 3, map.dim[2] = 1000;
  map.stride_bytes[1] = 256, map.stride_bytes[2] = 768;
  map.box[0] = 64, map.box[2] = 64;
  return map;
}
tma::TensorMap good_gather4() {
  tma::TensorMap map = good();
  map.rank = 2;
  map.use = tma::Use::gather4;
  return map;
}
tma::TensorMap good_interleaved(tma::Interleave interleave = tma::Interleave::b32) {
  tma::TensorMap map = good();
  map.interleave = interleave;
  map.swizzle = tma::Swizzle::b32;
  return map;
}

struct Broken {
  tma::Rule rule;
  const char* message;
  std::function<tma::TensorMap()> make;
};
tma::TensorMap with(tma::TensorMap map, const std::function<void(tma::TensorMap&)>& change) {
  change(map);
  return map;
}

/// Every rule broken once, at each side of its range.
const Broken broken[] = {
    {tma::Rule::rank, "rank is 0, expected 1 to 5",
     [] { return with(good(), [](auto& m) { m.rank = 0; }); }},
    {tma::Rule::rank, "rank is 6, expected 1 to 5",
     [] { return with(good(), [](auto& m) { m.rank = 6; }); }},
    {tma::Rule::enumerator, "interleave is 3, expected 0 to 2",
     [] { return with(good(), [](auto& m) { m.interleave = static_cast<tma::Interleave>(3); }); }},
    {tma::Rule::enumerator, "swizzle is 4, expected 0 to 3",
     [] { return with(good(), [](auto& m) { m.swizzle = static_cast<tma::Swizzle>(4); }); }},
    {tma::Rule::enumerator, "l2_promotion is 9, expected 0 to 3",
     [] {
       return with(good(), [](auto& m) { m.l2_promotion = static_cast<tma::L2Promotion>(9); });
     }},
    {tma::Rule::enumerator, "oob_fill is 2, expected 0 to 1",
     [] { return with(good(), [](auto& m) { m.oob_fill = static_cast<tma::OobFill>(2); }); }},
    {tma::Rule::enumerator, "use is 2, expected 0 to 1",
     [] { return with(good(), [](auto& m) { m.use = static_cast<tma::Use>(2); }); }},
    {tma::Rule::dtype, "dtype is 255, which is no TMA type",
     [] { return with(good(), [](auto& m) { m.dtype = tma::DataType::invalid; }); }},
    {tma::Rule::dtype, "dtype is 13, which is no TMA type",
     [] { return with(good(), [](auto& m) { m.dtype = static_cast<tma::DataType>(13); }); }},
    {tma::Rule::rank_of_interleaved, "rank is 2, expected at least 3",
     [] { return with(good_interleaved(), [](auto& m) { m.rank = 2; }); }},
    {tma::Rule::base_null, "base is null",
     [] { return with(good(), [](auto& m) { m.base = 0; }); }},
    {tma::Rule::base_alignment, "base is 8 bytes past a multiple of 16",
     [] { return with(good(), [](auto& m) { m.base += 8; }); }},
    {tma::Rule::base_alignment, "base is 16 bytes past a multiple of 32",
     [] { return with(good_interleaved(), [](auto& m) { m.base += 16; }); }},
    {tma::Rule::dim, "dim[1] is 0, expected 1 to 4294967296",
     [] { return with(good(), [](auto& m) { m.dim[1] = 0; }); }},
    {tma::Rule::dim, "dim[2] is 4294967297, expected 1 to 4294967296",
     [] { return with(good(), [](auto& m) { m.dim[2] = (int64_t{1} << 32) + 1; }); }},
    {tma::Rule::stride_alignment, "stride_bytes[1] is 264, expected a multiple of 16",
     [] { return with(good(), [](auto& m) { m.stride_bytes[1] = 264; }); }},
    {tma::Rule::stride_alignment, "stride_bytes[2] is 784, expected a multiple of 32",
     [] { return with(good_interleaved(), [](auto& m) { m.stride_bytes[2] = 784; }); }},
    {tma::Rule::stride_limit, "stride_bytes[2] is 1099511627776, expected 0 to 1099511627775",
     [] { return with(good(), [](auto& m) { m.stride_bytes[2] = int64_t{1} << 40; }); }},
    {tma::Rule::stride_limit, "stride_bytes[1] is -16, expected 0 to",
     [] { return with(good(), [](auto& m) { m.stride_bytes[1] = -16; }); }},
    {tma::Rule::box, "box[2] is 257, expected 1 to 256",
     [] { return with(good(), [](auto& m) { m.box[2] = 257; }); }},
    {tma::Rule::box, "box[1] is 0, expected 1 to 256",
     [] { return with(good(), [](auto& m) { m.box[1] = 0; }); }},
    {tma::Rule::box_inner_bytes, "box[0] is 24 bytes, expected a multiple of 16",
     [] { return with(good(), [](auto& m) { m.box[0] = 12; }); }},
    {tma::Rule::element_stride, "element_stride[2] is 9, expected 1 to 8",
     [] { return with(good(), [](auto& m) { m.element_stride[2] = 9; }); }},
    {tma::Rule::element_stride, "element_stride[1] is 0, expected 1 to 8",
     [] { return with(good(), [](auto& m) { m.element_stride[1] = 0; }); }},
    {tma::Rule::element_stride, "element_stride[0] is 0, expected 1 to 8",
     [] { return with(good_interleaved(), [](auto& m) { m.element_stride[0] = 0; }); }},
    {tma::Rule::swizzle_span, "box[0] is 144 bytes, expected at most the swizzle's 128",
     [] { return with(good(), [](auto& m) { m.box[0] = 72; }); }},
    {tma::Rule::swizzle_span, "box[0] is 64 bytes, expected at most the swizzle's 32",
     [] { return with(good(), [](auto& m) { m.swizzle = tma::Swizzle::b32, m.box[0] = 32; }); }},
    {tma::Rule::swizzle_of_interleaved, "swizzle is 3, expected 1 (b32)",
     [] { return with(good_interleaved(), [](auto& m) { m.swizzle = tma::Swizzle::b128; }); }},
    {tma::Rule::nan_fill_type, "oob_fill is nan with dtype 0, expected a floating type",
     [] {
       return with(good(),
                   [](auto& m) { m.dtype = tma::DataType::u8, m.oob_fill = tma::OobFill::nan; });
     }},
    {tma::Rule::gather4_rank, "rank is 3, expected 2 for gather4",
     [] { return with(good(), [](auto& m) { m.use = tma::Use::gather4; }); }},
    {tma::Rule::gather4_box, "box[1] is 4, expected 1 for gather4",
     [] { return with(good_gather4(), [](auto& m) { m.box[1] = 4; }); }},
    {tma::Rule::gather4_element_stride, "element_stride[1] is 2, expected 1 for gather4",
     [] { return with(good_gather4(), [](auto& m) { m.element_stride[1] = 2; }); }},
};

TEST(TensorMap, is_accepted_where_nothing_is_broken) {
  for (const tma::TensorMap& map :
       {good(), good_gather4(), good_interleaved(), good_interleaved(tma::Interleave::b16)}) {
    EXPECT_TRUE(map.fault().is_none());
    EXPECT_TRUE(map.check().is_ok()) << map.check().message();
  }
}
TEST(TensorMap, names_the_field_of_each_broken_rule) {
  std::set<tma::Rule> seen;
  for (const Broken& b : broken) {
    const tma::TensorMap map = b.make();
    EXPECT_EQ(map.fault().rule, b.rule) << b.message;
    const Status status = map.check();
    EXPECT_EQ(status.code(), Errc::invalid_argument) << b.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(b.message));
    EXPECT_THAT(std::string(status.message()), HasSubstr("TensorMap: "));
    seen.insert(b.rule);
  }
  for (int rule = 1; rule <= static_cast<int>(tma::Rule::gather4_element_stride); ++rule) {
    EXPECT_TRUE(seen.contains(static_cast<tma::Rule>(rule)))
        << "rule " << rule << " is broken nowhere";
  }
}
TEST(TensorMap, refuses_interleaved_gather4) {
  tma::TensorMap map = good_gather4();
  map.interleave = tma::Interleave::b16;
  EXPECT_FALSE(map.check().is_ok());
}
TEST(TensorMap, admits_the_bounds_themselves) {
  tma::TensorMap map = good();
  map.rank = 5;
  for (int i = 0; i < 5; ++i) map.dim[i] = int64_t{1} << 32, map.element_stride[i] = 8;
  for (int i = 1; i < 5; ++i) map.stride_bytes[i] = (int64_t{1} << 40) - 16, map.box[i] = 256;
  EXPECT_TRUE(map.check().is_ok()) << map.check().message();
  map.box[0] = 8;
  map.base = 16;
  EXPECT_TRUE(map.check().is_ok());
  map.stride_bytes[3] = 0;  // equal and overlapping strides are legal
  EXPECT_TRUE(map.check().is_ok());
  map.dtype = tma::DataType::tf32, map.oob_fill = tma::OobFill::nan;
  EXPECT_TRUE(map.check().is_ok());
}
TEST(TensorMap, ignores_what_the_driver_ignores) {
  tma::TensorMap map = good();
  map.stride_bytes[0] = 3;
  map.element_stride[0] = 0;
  map.stride_bytes[3] = 1, map.dim[3] = 0, map.box[4] = 1000;  // behind the rank
  EXPECT_TRUE(map.check().is_ok()) << map.check().message();
  map.swizzle = tma::Swizzle::none, map.box[0] = 256;
  EXPECT_TRUE(map.check().is_ok())
      << "without a swizzle the inner box is bounded by 256 elements only";
}
TEST(TensorMap, counts_the_whole_box_in_transaction_bytes) {
  tma::TensorMap map = good();
  EXPECT_EQ(map.transaction_bytes(), 64 * 64 * 2);
  map.element_stride[2] = 3;
  EXPECT_EQ(map.box_elements(2), 22);
  EXPECT_EQ(map.transaction_bytes(), 64 * 22 * 2);
  EXPECT_EQ(good_gather4().transaction_bytes(), 4 * 64 * 2);
}

TEST(DataType, has_the_drivers_values_and_widths) {
  static_assert(static_cast<int>(tma::DataType::bf16) == 9 &&
                static_cast<int>(tma::DataType::i64) == 5);
  const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  for (int i = 0; i < 13; ++i)
    EXPECT_EQ(element_bytes(static_cast<tma::DataType>(i)), bytes[i]) << i;
  EXPECT_EQ(element_bytes(static_cast<tma::DataType>(200)), 0);
}
TEST(DataType, of_a_cache_is_a_byte_for_fp8_and_i8) {
  for (const DType d : {DType::f8_e4m3, DType::f8_e5m2, DType::f8_e8m0, DType::i8})
    EXPECT_EQ(tma::data_type_of(d), tma::DataType::u8);
  EXPECT_EQ(tma::data_type_of(DType::bf16), tma::DataType::bf16);
  EXPECT_EQ(tma::data_type_of(DType::f16), tma::DataType::f16);
  EXPECT_EQ(tma::data_type_of(DType::f32), tma::DataType::f32);
  for (const DType d : {DType::invalid, DType::f4_e2m1, DType::i4})
    EXPECT_EQ(tma::data_type_of(d), tma::DataType::invalid);
}

}  // namespace
}  // namespace folio::test
