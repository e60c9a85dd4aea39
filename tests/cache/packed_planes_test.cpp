// SPDX-License-Identifier: Apache-2.0
/// tests/cache/packed_planes_test.cpp: sizes, strides and byte runs of planes of four bits, of zero
/// points beside their scales, and what a shape says of rotations.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "folio/cache/page_extents.h"
#include "folio/cache/page_walk.h"
#include "folio/cache/planes.h"
#include "support/guarded_memory.h"
#include "support/random.h"

namespace folio::test {
namespace {

constexpr DType packed_dtypes[] = {DType::i4, DType::u4, DType::f4_e2m1, DType::i4_halves,
                                   DType::u4_halves};

/// Seven pages of two layers, 5 slots, 3 heads of 64 elements.
KVShape packed_shape(DType dtype, DType scale_dtype, int32_t granularity) {
  return {.num_layers = 2,
          .num_heads = 3,
          .head_size = 64,
          .page_size = 5,
          .dtype = dtype,
          .scale_dtype = scale_dtype,
          .quantization_granularity = granularity};
}

TEST(PackedPlanes, have_half_a_byte_for_an_element) {
  for (const DType dtype : packed_dtypes) {
    KVShape shape = packed_shape(dtype, DType::f16, 32);
    EXPECT_EQ(*page_bytes(shape), 2 * 2 * 5 * 3 * 32) << name(dtype);
    EXPECT_EQ(*scale_page_bytes(shape), 2 * 2 * 5 * 3 * 2 * 2);
    shape.is_mla = true;
    EXPECT_EQ(*page_bytes(shape), 2 * 5 * 3 * 32);
    shape.head_size = block_elements(dtype);
    EXPECT_EQ(*page_bytes(shape), 2 * 5 * 3 * block_elements(dtype) / 2);
  }
}

TEST(PackedPlanes, have_the_names_of_engines) {
  // a row of K and V of 256 columns, with its scales
  const auto bytes_of = [](DType dtype, DType scale_dtype, int32_t granularity) {
    const KVShape shape{.head_size = 256,
                        .page_size = 1,
                        .dtype = dtype,
                        .scale_dtype = scale_dtype,
                        .quantization_granularity = granularity};
    return *page_bytes(shape) + *scale_page_bytes(shape);
  };
  EXPECT_EQ(bytes_of(DType::i4, DType::f16, 32), 2 * (128 + 16)) << "int4";
  EXPECT_EQ(bytes_of(DType::f4_e2m1, DType::f8_e4m3, 16), 2 * (128 + 16)) << "nvfp4";
  EXPECT_EQ(bytes_of(DType::f4_e2m1, DType::f8_e8m0, 32), 2 * (128 + 8)) << "mxfp4";
}

TEST(PackedPlanes, of_zero_points_have_two_elements_for_a_granule) {
  for (const Zeros zeros : {Zeros::none, Zeros::patterns, Zeros::minimum, Zeros::in_scale}) {
    KVShape shape = packed_shape(DType::u4, DType::f32, 32);
    shape.zeros = zeros;
    const bool has_pairs = zeros == Zeros::patterns || zeros == Zeros::minimum;
    const int64_t granule = has_pairs ? 8 : 4;
    EXPECT_EQ(*scale_page_bytes(shape), 2 * 2 * 5 * 3 * 2 * granule);
    const std::vector<KVPlanes> planes = make_planes(shape, 7, {}).value();
    const ScaleView& scales = planes[1].value.scales;
    EXPECT_EQ(scales.zeros, zeros);
    EXPECT_EQ(scales.zero_offset_bytes, has_pairs ? 4 : 0);
    EXPECT_EQ(scales.granule_stride_bytes, granule);
    EXPECT_EQ(scales.head_stride_bytes, 2 * granule);
    EXPECT_EQ(scales.slot_stride_bytes, 3 * 2 * granule);
    EXPECT_EQ(scales.page_stride_bytes, 2 * 2 * 5 * 3 * 2 * granule);
  }
}

TEST(PackedPlanes, say_how_their_rows_are_turned) {
  KVShape shape = packed_shape(DType::i4, DType::f16, 32);
  shape.hadamard = {.block = 32, .sign_seed = 7};
  const std::vector<KVPlanes> planes = make_planes(shape, 7, {}).value();
  for (const KVPlanes& layer : planes) {
    EXPECT_EQ(layer.key.hadamard, (Hadamard{32, 7}));
    EXPECT_EQ(layer.value.hadamard, (Hadamard{32, 7}));
    EXPECT_FALSE(layer.key.has_channel_scales);
  }
  shape.dtype = DType::bf16;  // rows of any type may be
  shape.scale_dtype = DType::invalid;
  EXPECT_EQ(make_planes(shape, 7, {}).value()[0].key.hadamard.block, 32);
}

TEST(PackedPlanes, of_unlike_types_are_two_shapes) {
  KVShape key = packed_shape(DType::i8, DType::f32, 0),
          value = packed_shape(DType::i4, DType::f16, 32);
  key.is_mla = value.is_mla = true;
  const GuardedMemory blocks[] = {GuardedMemory(7 * *page_bytes(key)),
                                  GuardedMemory(7 * *page_bytes(value))};
  const GuardedMemory scales[] = {GuardedMemory(7 * *scale_page_bytes(key), 4),
                                  GuardedMemory(7 * *scale_page_bytes(value), 2)};
  const std::vector<KVPlanes> keys =
      make_planes(key, 7, blocks[0].span(), scales[0].span()).value();
  const std::vector<KVPlanes> values =
      make_planes(value, 7, blocks[1].span(), scales[1].span()).value();
  const KVPlanes layer{.key = keys[1].key, .value = values[1].key};
  const auto extents = page_extents({&layer, 1}, 6);
  ASSERT_TRUE(extents) << extents.error().message();
  int64_t bytes = 0;
  for (const Extent& e : *extents) bytes += e.bytes;
  EXPECT_EQ(bytes, 5 * 3 * (64 + 4) + 5 * 3 * (32 + 4));
}

TEST(PackedPlanes, extents_of_a_page_are_one_run_of_values_and_one_of_pairs) {
  for (const Zeros zeros : {Zeros::patterns, Zeros::minimum}) {
    KVShape shape = packed_shape(DType::u4, DType::f16, 32);
    shape.zeros = zeros;
    const GuardedMemory blocks(7 * *page_bytes(shape)), scales(7 * *scale_page_bytes(shape), 2);
    const auto planes = make_planes(shape, 7, blocks.span(), scales.span()).value();
    const std::vector<Extent> extents = page_extents(planes, 3).value();
    ASSERT_EQ(extents.size(), 2U);
    for (const Extent& e : extents) {
      const bool is_scales = e.bytes == *scale_page_bytes(shape);
      EXPECT_EQ(e.bytes, is_scales ? *scale_page_bytes(shape) : *page_bytes(shape));
      EXPECT_EQ(e.data, (is_scales ? scales.data() : blocks.data()) + 3 * e.bytes);
    }
  }
}

// ---- Extents by definition

/// What ScaleView and KVShape state of a granule: the scale's bytes, those of its zero point, and
/// of a pair of elements all.
int64_t zero_bytes(const ScaleView& s) {
  if (s.zeros == Zeros::patterns) return 1;
  return s.zeros == Zeros::minimum ? bit_width(s.dtype) / 8 : 0;
}

using Bytes = std::set<const std::byte*>;

void add(Bytes& bytes, const void* at, int64_t offset, int64_t count) {
  for (int64_t i = 0; i < count; ++i) bytes.insert(static_cast<const std::byte*>(at) + offset + i);
}

Bytes bytes_of_page(const PagedKVView& v, int64_t page) {
  Bytes bytes;
  const ScaleView& s = v.scales;
  const int64_t element = bit_width(s.dtype) / 8;
  for (int64_t slot = 0; slot < v.page_size; ++slot) {
    for (int64_t head = 0; head < v.num_heads; ++head) {
      add(bytes, v.data,
          page * v.page_stride_bytes + slot * v.slot_stride_bytes + head * v.head_stride_bytes,
          v.head_size / 2);
      if (s.page_stride_bytes == 0) continue;
      for (int32_t d = 0; d < v.head_size; d += s.granularity) {
        const int64_t at = page * s.page_stride_bytes + slot * s.slot_stride_bytes +
                           head * s.head_stride_bytes + d / s.granularity * s.granule_stride_bytes;
        const bool is_pair = zero_bytes(s) != 0 && s.zero_offset_bytes == element &&
                             s.granule_stride_bytes == 2 * element;
        add(bytes, s.data, at, is_pair ? 2 * element : element);
        add(bytes, s.data, at + s.zero_offset_bytes, zero_bytes(s));
      }
    }
  }
  return bytes;
}

PagedKVView random_view(Rng& rng, std::byte* middle) {
  constexpr DType scale_dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0,
                                    DType::f8_e4m3};
  constexpr Zeros all_zeros[] = {Zeros::none, Zeros::patterns, Zeros::minimum, Zeros::in_scale};
  const bool is_halves = rng.chance(0.3);
  PagedKVView view{.data = middle + rng.between(-40, 40),
                   .dtype = is_halves ? DType::u4_halves : DType::u4,
                   .num_heads = rng.int_between(1, 3),
                   .head_size = is_halves ? 32 * rng.int_between(1, 2) : 2 * rng.int_between(1, 13),
                   .page_size = rng.int_between(1, 5),
                   .num_pages = 5};
  const auto stride = [&](int64_t unit) { return unit * rng.between(-30, 30); };
  view.page_stride_bytes = stride(1);
  view.slot_stride_bytes = stride(1);
  view.head_stride_bytes = stride(1);
  ScaleView& s = view.scales;
  s.zeros = rng.pick(all_zeros);
  s.dtype = s.zeros == Zeros::in_scale  ? DType::f32
            : s.zeros == Zeros::minimum ? scale_dtypes[rng.between(0, 2)]
                                        : rng.pick(scale_dtypes);
  const int64_t element = bit_width(s.dtype) / 8;
  s.data = middle + element * rng.between(-40, 40);
  s.granularity = rng.int_between(1, 9);
  s.page_stride_bytes = rng.chance(0.2) ? 0 : stride(element);
  s.slot_stride_bytes = rng.chance(0.2) ? 0 : stride(element);
  s.head_stride_bytes = rng.chance(0.2) ? 0 : stride(element);
  const int64_t unit = s.zeros == Zeros::patterns ? 1 : element;
  if (zero_bytes(s) != 0)
    s.zero_offset_bytes = rng.chance(0.5)   ? element
                          : rng.chance(0.5) ? -unit * rng.between(1, 40)
                                            : element + unit * rng.between(0, 40);
  s.granule_stride_bytes = rng.chance(0.3)   ? element * (zero_bytes(s) != 0 ? 2 : 1)
                           : rng.chance(0.2) ? 0
                                             : stride(element);
  return view;
}

TEST(PackedPlanes, extents_cover_exactly_the_bytes_of_a_page_for_any_geometry) {
  Rng rng(test_seed());
  alignas(4) std::byte memory[64] = {};  // never touched, and never left by more than strides say
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const PagedKVView views[] = {random_view(rng, memory + 32), random_view(rng, memory + 32)};
    const KVPlanes planes{.key = views[0], .value = views[1]};
    const auto page = static_cast<uint32_t>(rng.between(0, 4));
    const auto extents = page_extents({&planes, 1}, page);
    ASSERT_TRUE(extents) << extents.error().message();
    Bytes covered;
    const std::byte* end = nullptr;
    for (const Extent& e : *extents) {
      EXPECT_GT(e.bytes, 0);
      EXPECT_TRUE(end == nullptr || e.data > end) << "ascending, adjacent runs merged";
      add(covered, e.data, 0, e.bytes);
      end = e.data + e.bytes;
    }
    Bytes expected = bytes_of_page(views[0], page);
    expected.merge(bytes_of_page(views[1], page));
    ASSERT_EQ(covered, expected);
  }
}

}  // namespace
}  // namespace folio::test
