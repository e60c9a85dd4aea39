// SPDX-License-Identifier: Apache-2.0
/// tests/core/tensor_view_test.cpp: layouts whose extents and strides are known partly at compile
/// time; Vec.
#include "folio/core/tensor_view.h"
#include "folio/core/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "folio/core/vec.h"

namespace folio {
namespace {

using PagedShape = IntTuple<-1, 16, 8, 128>;
using PagedStrides = IntTuple<-1, 1024, 128, 1>;
using PagedLayout = Layout<PagedShape, PagedStrides>;

static_assert(PagedShape::rank == 4 && PagedShape::num_unknown == 1 && PagedShape::at(2) == 8);
static_assert(std::is_trivially_copyable_v<PagedLayout> &&
              sizeof(PagedLayout) == 2 * sizeof(int64_t));
static_assert(std::is_empty_v<Layout<IntTuple<2, 3>>>);
static_assert(sizeof(TensorView<float, Layout<IntTuple<2, 3>>>) == sizeof(float*));
static_assert(std::is_trivially_copyable_v<TensorView<float, PagedLayout>>);
static_assert(
    std::is_same_v<detail::row_major_strides_t<IntTuple<2, -1, 3, 4>>, IntTuple<-1, 12, 4, 1>>);
static_assert(std::is_same_v<detail::row_major_strides_t<IntTuple<-1, 3>>, IntTuple<3, 1>>);
static_assert(!std::is_constructible_v<PagedLayout, int64_t>, "one value for each -1");
static_assert(
    !std::is_convertible_v<TensorView<const float, PagedLayout>, TensorView<float, PagedLayout>>);

TEST(Layout, run_time_values_take_the_place_of_minus_one) {
  constexpr PagedLayout layout(5, 99999);
  EXPECT_EQ(layout.extent(0), 5);
  EXPECT_EQ(layout.extent(1), 16);
  EXPECT_EQ(layout.stride(0), 99999);
  EXPECT_EQ(layout.stride(1), 1024);
  EXPECT_EQ(layout.stride(3), 1);
  EXPECT_EQ(layout(2, 3, 4, 5), 2 * 99999 + 3 * 1024 + 4 * 128 + 5);
  EXPECT_EQ(layout.size(), 5 * 16 * 8 * 128);
  static_assert(layout(1, 0, 0, 0) == 99999);
}

TEST(Layout, several_run_time_values_keep_their_order) {
  const Layout<IntTuple<-1, 4, -1>, IntTuple<-1, -1, 1>> layout(7, 9, 1000, 10);
  EXPECT_EQ(layout.extent(0), 7);
  EXPECT_EQ(layout.extent(1), 4);
  EXPECT_EQ(layout.extent(2), 9);
  EXPECT_EQ(layout.stride(0), 1000);
  EXPECT_EQ(layout.stride(1), 10);
  EXPECT_EQ(layout(1, 2, 3), 1023);
}

TEST(Layout, offsets_pass_two_to_the_32) {
  const PagedLayout layout(1 << 20, int64_t{1} << 33);
  EXPECT_EQ(layout(3, 0, 0, 1), 3 * (int64_t{1} << 33) + 1);
  EXPECT_EQ(layout(int32_t{1} << 19, 0, 0, 0), int64_t{1} << 52)
      << "32-bit indices are widened first";
}

TEST(Layout, row_major_packs_whatever_is_known_when) {
  EXPECT_EQ((row_major<IntTuple<2, 3, 4>>()(1, 2, 3)), 23);
  EXPECT_EQ((row_major<IntTuple<-1, 3, 4>>(2)(1, 2, 3)), 23);
  EXPECT_EQ((row_major<IntTuple<-1, -1, -1>>(2, 3, 4)(1, 2, 3)), 23);
  EXPECT_EQ((row_major<IntTuple<2, -1, 4>>(3)(1, 2, 3)), 23);
  EXPECT_EQ((row_major<IntTuple<2, 3, -1>>(4)(1, 2, 3)), 23);
  EXPECT_EQ((row_major<IntTuple<-1, -1>>(0, 5).size()), 0);
}

TEST(TensorView, addresses_elements_and_reads_through_a_const_view) {
  std::vector<float> storage(2 * 3 * 4);
  const TensorView<float, Layout<IntTuple<-1, 3, 4>>> view{storage.data(),
                                                           row_major<IntTuple<-1, 3, 4>>(2)};
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int k = 0; k < 4; ++k) view(i, j, k) = static_cast<float>(100 * i + 10 * j + k);
    }
  }
  EXPECT_EQ(storage[23], 123.0f);
  const TensorView<const float, Layout<IntTuple<-1, 3, 4>>> read_only = view;
  EXPECT_EQ(read_only(1, 0, 2), 102.0f);
  EXPECT_EQ(read_only.pointer(1, 1, 0), storage.data() + 16);
  EXPECT_EQ(read_only.extent(0), 2);
  EXPECT_EQ(read_only.stride(0), 12);
  EXPECT_EQ(read_only.size(), 24);
}

TEST(TensorView, default_is_null_and_empty) {
  const TensorView<float, Layout<IntTuple<-1, 4>>> view;
  EXPECT_EQ(view.data, nullptr);
  EXPECT_EQ(view.size(), 0);
}

TEST(Vec, lanes_are_values) {
  Vec<int32_t, 4> v;
  EXPECT_EQ(v, (Vec<int32_t, 4>::splat(0)));
  v[2] = 7;
  EXPECT_EQ(v[2], 7);
  EXPECT_NE(v, (Vec<int32_t, 4>::splat(7)));
  static_assert(Vec<float, 8>::width == 8 && sizeof(Vec<bf16, 8>) == 16 &&
                std::is_trivially_copyable_v<Vec<bf16, 8>>);
}

TEST(Vec, cast_rounds_each_lane_by_the_target_type) {
  Vec<float, 4> v;
  v[0] = 1.0f;
  v[1] = 1000.0f;
  v[2] = -0.0f;
  v[3] = std::numeric_limits<float>::quiet_NaN();
  const Vec<f8_e4m3, 4> narrow = cast<f8_e4m3>(v);
  EXPECT_EQ(narrow[0].bits, 0x38);
  EXPECT_EQ(narrow[1].bits, 0x7e);
  EXPECT_EQ(narrow[2].bits, 0x80);
  const Vec<float, 4> wide = cast<float>(narrow);
  EXPECT_EQ(wide[1], 448.0f);
  EXPECT_TRUE(std::isnan(wide[3]));
}

}  // namespace
}  // namespace folio
