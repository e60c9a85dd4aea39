// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cta_numbers_test.cpp: the arithmetic of the emulated machine, its tensor maps, and
/// that it has all that kernels may ask for.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "cuda/primitives/fp8.h"
#include "cuda/primitives/machine.h"
#include "folio/core/element.h"
#include "folio/testing/cta/grid.h"

namespace folio::test {
namespace {

static_assert(cuda::Machine<emulator::EmulatedThread>);
static_assert(cuda::TileMachine<emulator::EmulatedThread>);
static_assert(cuda::GatherMachine<emulator::EmulatedThread>);
static_assert(cuda::GroupMachine<emulator::EmulatedThread>);

using emulator::machine_exp2;
using emulator::machine_fp8_pair;
using emulator::machine_half_pair;
using emulator::machine_pack;
using emulator::machine_unpack;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(CtaNumbers, pairs_of_halves_keep_their_order) {
  EXPECT_EQ((machine_pack<DType::bf16>(1.0f, -2.0f)), 0xc0003f80u);
  EXPECT_EQ((machine_pack<DType::f16>(1.0f, -2.0f)), 0xc0003c00u);
  EXPECT_EQ((machine_unpack<DType::bf16>(0xc0003f80u, 0)), 1.0f);
  EXPECT_EQ((machine_unpack<DType::bf16>(0xc0003f80u, 1)), -2.0f);
  EXPECT_EQ((machine_unpack<DType::f16>(0xc0003c00u, 0)), 1.0f);
  EXPECT_EQ((machine_unpack<DType::f16>(0xc0003c00u, 1)), -2.0f);
}

TEST(CtaNumbers, halves_round_to_nearest_even_and_overflow_to_infinity) {
  EXPECT_EQ((machine_pack<DType::bf16>(1.00390625f, 1.01171875f)), 0x3f823f80u);  // two ties
  EXPECT_EQ((machine_pack<DType::f16>(1.00048828125f, 1.00146484375f)), 0x3c023c00u);
  EXPECT_EQ((machine_pack<DType::f16>(65519.0f, 65520.0f)), 0x7c007bffu);
  EXPECT_EQ((machine_pack<DType::bf16>(infinity, -infinity)), 0xff807f80u);
  EXPECT_EQ((machine_pack<DType::f16>(0x1p-24f, 0x1p-25f)), 0x00000001u);
}

TEST(CtaNumbers, not_a_number_is_the_hardwares) {
  EXPECT_EQ((machine_pack<DType::bf16>(nan, -nan)), 0x7fff7fffu);
  EXPECT_EQ((machine_pack<DType::f16>(nan, -nan)), 0x7fff7fffu);
  EXPECT_EQ(machine_fp8_pair<f8_e4m3>(nan, -nan), 0x7f7fu);
  EXPECT_EQ(machine_fp8_pair<f8_e5m2>(nan, -nan), 0x7f7fu);
  EXPECT_EQ(machine_half_pair<f8_e4m3>(0xff7f), 0x7fff7fffu);
  EXPECT_EQ(machine_half_pair<f8_e5m2>(0xfe7d), 0x7fff7fffu);
}

TEST(CtaNumbers, eight_bits_too_large_become_the_largest) {
  EXPECT_EQ(machine_fp8_pair<f8_e4m3>(1e9f, -infinity), 0xfe7eu);
  EXPECT_EQ(machine_fp8_pair<f8_e5m2>(1e9f, -infinity), 0xfb7bu);
  EXPECT_EQ(machine_fp8_pair<f8_e4m3>(448.0f, 464.0f), 0x7e7eu);
}

TEST(CtaNumbers, every_eight_bits_survive_the_way_to_halves_and_back) {
  for (uint32_t code = 0; code < 256; ++code) {
    const auto pair = static_cast<uint16_t>(code << 8 | (code ^ 0x80));
    const uint32_t e4m3 = machine_half_pair<f8_e4m3>(pair);
    const uint32_t e5m2 = machine_half_pair<f8_e5m2>(pair);
    const float x = to_float(f8_e4m3{static_cast<uint8_t>(code)});
    const float y = to_float(f8_e5m2{static_cast<uint8_t>(code)});
    if (x == x) {
      EXPECT_EQ((machine_unpack<DType::f16>(e4m3, 1)), x) << code;
      EXPECT_EQ(machine_fp8_pair<f8_e4m3>(-x, x), pair) << code;
    }
    if (y == y) {
      EXPECT_EQ((machine_unpack<DType::f16>(e5m2, 1)), y) << code;
      if (!std::isinf(y)) {
        EXPECT_EQ(machine_fp8_pair<f8_e5m2>(-y, y), pair) << code;
      }
    }
  }
}

TEST(CtaNumbers, architectures_without_the_instruction_convert_eight_bits_alike) {
  for (uint32_t code = 0; code < 256; ++code) {
    const auto pair = static_cast<uint16_t>(code << 8 | (255 - code));
    const uint32_t small = cuda::small_halves_of_e4m3(pair);
    const uint32_t halves = machine_pack<DType::f16>(256.0f * machine_unpack<DType::f16>(small, 0),
                                                     256.0f * machine_unpack<DType::f16>(small, 1));
    EXPECT_EQ(cuda::with_nan_of_e4m3(halves, pair), machine_half_pair<f8_e4m3>(pair)) << code;
    EXPECT_EQ(cuda::halves_of_e5m2(pair), machine_half_pair<f8_e5m2>(pair)) << code;
  }
  EXPECT_EQ((machine_unpack<DType::f16>(cuda::halves_of_256, 1)), 256.0f);
}

TEST(CtaNumbers, exp2_is_exact_at_whole_numbers_and_flushes_subnormals) {
  for (int i = -126; i < 128; ++i)
    EXPECT_EQ(machine_exp2(static_cast<float>(i)), std::ldexp(1.0f, i));
  EXPECT_EQ(machine_exp2(-127.0f), 0.0f);
  EXPECT_EQ(machine_exp2(-infinity), 0.0f);
  EXPECT_EQ(machine_exp2(128.0f), infinity);
  EXPECT_EQ(machine_exp2(0x1p-140f), 1.0f);
  EXPECT_TRUE(std::isnan(machine_exp2(nan)));
}

TEST(CtaNumbers, tensor_maps_survive_their_encoding) {
  tma::TensorMap map;
  map.base = 0x7fff12345670u;
  map.rank = 5;
  map.dtype = tma::DataType::bf16;
  map.swizzle = tma::Swizzle::b128;
  map.l2_promotion = tma::L2Promotion::b256;
  map.oob_fill = tma::OobFill::nan;
  for (int i = 0; i < 5; ++i) {
    map.dim[i] = (int64_t{1} << 32) - i;
    map.stride_bytes[i] = i == 0 ? 0 : (int64_t{1} << 40) - 16 * i;
    map.box[i] = 256 >> i;
    map.element_stride[i] = 8 - i;
  }
  const tma::EncodedTensorMap encoded = emulator::encode(map);
  EXPECT_EQ(emulator::decode_tile_map(encoded), map);
  map.use = tma::Use::gather4;
  map.rank = 2;
  EXPECT_EQ(emulator::decode_tile_map(emulator::encode(map)), map);
}

TEST(CtaNumbers, bytes_that_the_emulator_has_not_written_are_no_map) {
  EXPECT_FALSE(emulator::decode_tile_map({}).has_value());
  tma::EncodedTensorMap other = emulator::encode(tma::TensorMap{});
  other.words[0] ^= 1;
  EXPECT_FALSE(emulator::decode_tile_map(other).has_value());
}

}  // namespace
}  // namespace folio::test
