// SPDX-License-Identifier: Apache-2.0
/// tests/cache/packed_errors_test.cpp: mistakes in shapes and planes of four bits, in their zero
/// points, rotations and channel scales.
#include <gtest/gtest.h>

#include <vector>

#include "folio/cache/copy.h"
#include "folio/cache/page_extents.h"
#include "folio/cache/planes.h"
#include "support/refusals.h"

namespace folio::test {
namespace {

struct ShapeCall {
  KVShape shape{.num_heads = 2,
                .head_size = 64,
                .dtype = DType::u4,
                .scale_dtype = DType::f16,
                .quantization_granularity = 32,
                .zeros = Zeros::patterns,
                .hadamard = {.block = 64, .sign_seed = 1}};

  Status run() {
    const auto planes = make_planes(shape, 2, {});
    return planes.error();
  }
  [[nodiscard]] static std::vector<std::byte> written() { return {}; }
};

struct SizeCall : ShapeCall {
  Status run() {
    const auto bytes = page_bytes(shape);
    return bytes.error();
  }
};

/// Mistakes in a shape, for every function that takes one.
template <class C>
std::vector<Broken<C>> broken_shapes() {
  return {
      {"scale_dtype",
       [](C& c) { c.shape.scale_dtype = DType::invalid; },
       {"shape.scale_dtype is invalid", "f32, f16, bf16, f8_e8m0 or f8_e4m3"}},
      {"scale_dtype", [](C& c) { c.shape.scale_dtype = DType::i4; }, {"shape.scale_dtype is i4"}},
      {"head_size",
       [](C& c) { c.shape.head_size = 63, c.shape.hadamard = {}; },
       {"shape.head_size is 63", "a multiple of 2 (u4)"}},
      {"head_size",
       [](C& c) { c.shape.dtype = DType::u4_halves, c.shape.head_size = 48; },
       {"shape.head_size is 48", "a multiple of 32 (u4_halves)"}},
      {"zeros of i4",
       [](C& c) { c.shape.dtype = DType::i4; },
       {"shape.zeros are given", "none: i4 has no zero points"}},
      {"zeros of f4_e2m1",
       [](C& c) { c.shape.dtype = DType::f4_e2m1; },
       {"shape.zeros are given", "f4_e2m1 has no zero points"}},
      {"zeros in scales of f16",
       [](C& c) { c.shape.zeros = Zeros::in_scale; },
       {"shape.zeros are in_scale beside scales of f16", "f32"}},
      {"minimum of e4m3",
       [](C& c) { c.shape.zeros = Zeros::minimum, c.shape.scale_dtype = DType::f8_e4m3; },
       {"shape.zeros are minimum beside scales of f8_e4m3", "f32, f16 or bf16"}},
      {"zeros",
       [](C& c) { c.shape.zeros = static_cast<Zeros>(4); },
       {"shape.zeros is 4", "a value of Zeros"}},
      {"hadamard.block",
       [](C& c) { c.shape.hadamard.block = 24; },
       {"shape.hadamard.block is 24", "a power of two from 16 to 512 that divides head_size 64"}},
      {"hadamard.block", [](C& c) { c.shape.hadamard.block = 8; }, {"hadamard.block is 8"}},
      {"hadamard.block", [](C& c) { c.shape.hadamard.block = -64; }, {"hadamard.block is -64"}},
      {"hadamard.block beyond the head",
       [](C& c) { c.shape.hadamard.block = 128; },
       {"hadamard.block is 128", "divides head_size 64"}},
      {"hadamard.block beyond the largest",
       [](C& c) { c.shape.hadamard.block = c.shape.head_size = 1024; },
       {"hadamard.block is 1024", "to 512"}},
      {"signs without a rotation",
       [](C& c) { c.shape.hadamard.block = 0; },
       {"hadamard.block is 0"}},
      {"granularity",
       [](C& c) { c.shape.quantization_granularity = -1; },
       {"shape.quantization_granularity is -1"}}};
}

TEST(PackedErrors, shapes_that_cannot_be_are_refused) {
  expect_refused<ShapeCall>("make_planes", broken_shapes<ShapeCall>());
  expect_refused<SizeCall>("page_bytes", broken_shapes<SizeCall>());
}

/// A plane of u4 with zero points, turned, with factors of channels.
struct PackedView {
  alignas(4) std::byte values[2 * 4 * 2 * 32] = {};
  alignas(4) std::byte scales[2 * 4 * 2 * 2 * 4] = {};
  float channels[2 * 64] = {};
  PagedKVView view{.data = values,
                   .dtype = DType::u4,
                   .num_heads = 2,
                   .head_size = 64,
                   .page_size = 4,
                   .num_pages = 2,
                   .page_stride_bytes = 256,
                   .slot_stride_bytes = 64,
                   .head_stride_bytes = 32,
                   .scales = {.data = scales,
                              .dtype = DType::f16,
                              .granularity = 32,
                              .page_stride_bytes = 64,
                              .slot_stride_bytes = 16,
                              .head_stride_bytes = 8,
                              .granule_stride_bytes = 4,
                              .zeros = Zeros::patterns,
                              .zero_offset_bytes = 2},
                   .hadamard = {.block = 32},
                   .has_channel_scales = true,
                   .channel_scales = channels};
  PackedView() {
    for (float& c : channels) c = 1.0f;
  }
};

struct ExtentsOfPacked : PackedView {
  Status run() {
    const KVPlanes planes{.key = view, .value = {}};
    const auto extents = page_extents({&planes, 1}, 1);
    return extents.error();
  }
  [[nodiscard]] static std::vector<std::byte> written() { return {}; }
};

struct CopyOfPacked : PackedView {
  PackedView target;
  PagedKVView to = target.view;

  Status run() {
    const KVPlanes from_planes{.key = view, .value = {}}, to_planes{.key = to, .value = {}};
    const PageCopy copy{.from = 1, .to = 0, .tokens = 4};
    return copy_pages({&from_planes, 1}, {&to_planes, 1}, {&copy, 1}, serial_executor());
  }
  [[nodiscard]] std::vector<std::byte> written() const {
    return {target.values, target.values + sizeof target.values};
  }
};

/// Mistakes in a plane, for every function that takes all types.
template <class C>
std::vector<Broken<C>> broken_views() {
  return {{"scales missing",
           [](C& c) { c.view.scales = {}; },
           {"key.scales are missing", "those of u4"}},
          {"scales without memory",
           [](C& c) { c.view.scales.data = nullptr; },
           {"key.scales.data is null", "the scales of u4"}},
          {"head_size",
           [](C& c) { c.view.head_size = 63, c.view.hadamard = {}; },
           {"key.head_size is 63", "a multiple of 2 (u4)"}},
          {"zeros",
           [](C& c) { c.view.scales.zeros = static_cast<Zeros>(77); },
           {"key.scales.zeros is 77"}},
          {"zeros of i4",
           [](C& c) { c.view.dtype = DType::i4; },
           {"key.scales.zeros are given", "i4 has no zero points"}},
          {"zero point within the scale",
           [](C& c) { c.view.scales.zero_offset_bytes = 1; },
           {"key.scales.zero_offset_bytes is 1", "at least 2 or at most -1"}},
          {"zero point at the scale",
           [](C& c) { c.view.scales.zero_offset_bytes = 0; },
           {"key.scales.zero_offset_bytes is 0", "beside the scale"}},
          {"offset of no zero points",
           [](C& c) { c.view.scales.zeros = Zeros::none; },
           {"key.scales.zero_offset_bytes is 2", "0: no zero points"}},
          {"zero points out of reach",
           [](C& c) { c.view.scales.zero_offset_bytes = (int64_t{1} << 56) + 1; },
           {"key.scales.zero_offset_bytes", "2^56"}},
          {"minimum misaligned",
           [](C& c) { c.view.scales.zeros = Zeros::minimum, c.view.scales.zero_offset_bytes = 3; },
           {"key.scales.zero_offset_bytes is 3", "a multiple of 2"}},
          {"hadamard.block",
           [](C& c) { c.view.hadamard.block = 24; },
           {"key.hadamard.block is 24", "divides head_size 64"}},
          {"channel scales null",
           [](C& c) { c.view.channel_scales = nullptr; },
           {"key.channel_scales are null", "factors of all columns (has_channel_scales)"}},
          {"channel scales without the flag",
           [](C& c) { c.view.has_channel_scales = false; },
           {"key.channel_scales are given", "none (has_channel_scales)"}},
          {"channel scales misaligned",
           [](C& c) {
             c.view.channel_scales =
                 reinterpret_cast<const float*>(reinterpret_cast<const char*>(c.channels) + 2);
           },
           {"key.channel_scales is not aligned", "4 bytes"}}};
}

TEST(PackedErrors, planes_that_cannot_be_are_refused) {
  expect_refused<ExtentsOfPacked>("page_extents", broken_views<ExtentsOfPacked>());
  expect_refused<CopyOfPacked>("copy_pages", broken_views<CopyOfPacked>());
}

TEST(PackedErrors, channel_scales_that_nothing_can_be_divided_by_are_refused) {
  using C = CopyOfPacked;
  expect_refused<C>(
      "copy_pages",
      {{"zero",
        [](C& c) { c.channels[7] = 0.0f; },
        {"key.channel_scales[7] is 0", "a positive finite number"}},
       {"negative", [](C& c) { c.channels[127] = -1.0f; }, {"key.channel_scales[127] is -1"}}});
}

}  // namespace
}  // namespace folio::test
