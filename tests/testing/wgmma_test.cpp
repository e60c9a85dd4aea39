// SPDX-License-Identifier: Apache-2.0
/// tests/testing/wgmma_test.cpp: descriptors, operand layouts and products of the emulated wgmma.
#include "folio/testing/wgmma.h"
#include "folio/core/element.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "folio/tma/tile_layout.h"
#include "support/random.h"

namespace folio::test {
namespace {

using namespace emulator;
using ::testing::HasSubstr;

TEST(WgmmaDescriptor, fields_stand_where_the_manual_puts_them) {
  const WgmmaDescriptor descriptor{.start_address = 0x3fff0,
                                   .leading_byte_offset = 16,
                                   .stride_byte_offset = 1024,
                                   .base_offset = 5,
                                   .swizzle = tma::Swizzle::b128};
  const Result<uint64_t> bits = encode(descriptor);
  ASSERT_TRUE(bits.has_value());
  EXPECT_EQ(*bits, uint64_t{0x3fff} | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{5} << 49 |
                       uint64_t{1} << 62);
  EXPECT_EQ(encode(WgmmaDescriptor{.swizzle = tma::Swizzle::b64}).value(), uint64_t{2} << 62);
  EXPECT_EQ(encode(WgmmaDescriptor{.swizzle = tma::Swizzle::b32}).value(), uint64_t{3} << 62);
  EXPECT_EQ(encode(WgmmaDescriptor{}).value(), 0u);
}

TEST(WgmmaDescriptor, decode_is_the_inverse_of_encode) {
  Rng rng(test_seed());
  for (int i = 0; i < 1000; ++i) {
    const WgmmaDescriptor descriptor{.start_address = 16 * rng.between(0, (1 << 14) - 1),
                                     .leading_byte_offset = 16 * rng.between(0, (1 << 14) - 1),
                                     .stride_byte_offset = 16 * rng.between(0, (1 << 14) - 1),
                                     .base_offset = rng.int_between(0, 7),
                                     .swizzle = static_cast<tma::Swizzle>(rng.between(0, 3))};
    EXPECT_EQ(decode_wgmma_descriptor(encode(descriptor).value()), descriptor);
  }
}

TEST(WgmmaDescriptor, what_does_not_fit_is_refused_by_name) {
  const auto message = [](const WgmmaDescriptor& d) {
    return std::string(encode(d).error().message());
  };
  EXPECT_THAT(message({.start_address = 8}), HasSubstr("start_address is 8"));
  EXPECT_THAT(message({.leading_byte_offset = 1 << 18}),
              HasSubstr("leading_byte_offset is 262144"));
  EXPECT_THAT(message({.stride_byte_offset = -16}), HasSubstr("stride_byte_offset is -16"));
  EXPECT_THAT(message({.base_offset = 8}), HasSubstr("base_offset is 8"));
}

TEST(Wgmma, registers_cover_d_and_a_once) {
  for (const int n : {8, 64, 256}) {
    std::set<std::pair<int, int>> seen;
    for (int thread = 0; thread < 128; ++thread) {
      for (int reg = 0; reg < n / 2; ++reg) {
        const MatrixElement e = wgmma_d_element(thread, reg);
        EXPECT_EQ(wgmma_d_slot(e), (FragmentSlot{thread, reg, 0}));
        seen.insert({e.row, e.column});
      }
    }
    EXPECT_EQ(seen.size(), static_cast<size_t>(64 * n));
  }
  for (const int bits : {8, 16, 32}) {
    for (int row = 0; row < 64; ++row) {
      for (int k = 0; k < mma_k(bits); ++k)
        EXPECT_EQ(wgmma_a_element(bits, wgmma_a_slot(bits, {row, k})), (MatrixElement{row, k}));
    }
  }
  // The manual's picture of D: thread 0 has (0, 0), (0, 1), (8, 0), (8, 1), (0, 8) ...; thread 33
  // begins row 16, column 2.
  EXPECT_EQ(wgmma_d_element(0, 2), (MatrixElement{8, 0}));
  EXPECT_EQ(wgmma_d_element(0, 4), (MatrixElement{0, 8}));
  EXPECT_EQ(wgmma_d_element(33, 0), (MatrixElement{16, 2}));
}

TEST(Wgmma, k_major_operands_are_tiles_of_rows) {
  for (const int bits : {8, 16, 32}) {
    for (const tma::Swizzle mode : {tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128}) {
      const DType dtype = bits == 8 ? DType::f8_e4m3 : bits == 16 ? DType::bf16 : DType::f32;
      const tma::TileLayout layout =
          tile_layout(dtype, mode, 64, 2 * swizzle_granularity(dtype, mode));
      const int per_chunk = layout.chunk / mma_k(bits);
      for (int step = 0; step < layout.columns / mma_k(bits); ++step) {
        const WgmmaDescriptor descriptor{
            .start_address =
                layout.alignment() + layout.box_offset(0, step / per_chunk) + step % per_chunk * 32,
            .stride_byte_offset = 8 * layout.chunk_bytes(),
            .swizzle = mode};
        for (int row = 0; row < 64; ++row) {
          for (int k = 0; k < mma_k(bits); ++k) {
            ASSERT_EQ(wgmma_operand_address(descriptor, Major::k, bits, row, k),
                      layout.alignment() + layout.offset(row, step * mma_k(bits) + k))
                << name(mode) << " " << bits << " " << step << " " << row << " " << k;
          }
        }
      }
    }
  }
}

TEST(Wgmma, mn_major_operands_are_tiles_of_rows_along_k) {
  for (const tma::Swizzle mode : {tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128}) {
    // 64 keys, head size 128: V as B of P * V
    const tma::TileLayout layout = tile_layout(DType::bf16, mode, 64, 128);
    for (int step = 0; step < 4; ++step) {
      const WgmmaDescriptor descriptor{.start_address = step * 16 * layout.chunk_bytes(),
                                       .leading_byte_offset = 64 * layout.chunk_bytes(),
                                       .stride_byte_offset = 8 * layout.chunk_bytes(),
                                       .swizzle = mode};
      for (int dim = 0; dim < 128; ++dim) {
        for (int k = 0; k < 16; ++k) {
          ASSERT_EQ(wgmma_operand_address(descriptor, Major::mn, 16, dim, k),
                    layout.offset(step * 16 + k, dim))
              << name(mode) << " " << step << " " << dim << " " << k;
        }
      }
    }
  }
}

TEST(Wgmma, operands_without_a_swizzle_are_core_matrices) {
  const WgmmaDescriptor descriptor{
      .start_address = 4096, .leading_byte_offset = 128, .stride_byte_offset = 256};
  EXPECT_EQ(wgmma_operand_address(descriptor, Major::k, 16, 3, 5), 4096 + 3 * 16 + 5 * 2);
  EXPECT_EQ(wgmma_operand_address(descriptor, Major::k, 16, 11, 9), 4096 + 256 + 3 * 16 + 128 + 2);
  EXPECT_EQ(wgmma_operand_address(descriptor, Major::mn, 16, 3, 5), 4096 + 5 * 16 + 3 * 2);
  EXPECT_EQ(wgmma_operand_address(descriptor, Major::mn, 16, 11, 9),
            4096 + 128 + 1 * 16 + 256 + 3 * 2);
}

/// Small integers at the places of an operand, and the same as a matrix [extent][k].
std::vector<int> place(Rng& rng, const WgmmaOperand& operand, DType dtype, int extent,
                       SharedMemory& shared) {
  const int bits = bit_width(dtype), k = mma_k(bits);
  std::vector<int> matrix;
  for (int mn = 0; mn < extent; ++mn) {
    for (int i = 0; i < k; ++i) {
      const int value = rng.int_between(-4, 4);
      matrix.push_back(value);
      const auto x = static_cast<float>(value);
      const int64_t at = wgmma_operand_address(operand.descriptor, operand.major, bits, mn, i);
      if (dtype == DType::f32) shared.store(at, x);
      if (dtype == DType::bf16) shared.store(at, from_float<bf16>(x));
      if (dtype == DType::f16) shared.store(at, from_float<f16>(x));
      if (dtype == DType::f8_e4m3) shared.store(at, from_float<f8_e4m3>(x));
    }
  }
  return matrix;
}

void expect_product(DType dtype, Major a_major, Major b_major, tma::Swizzle mode,
                    bool from_registers, Rng& rng) {
  const int bits = bit_width(dtype), k = mma_k(bits), n = 24;
  const int64_t width = swizzle_bytes(mode);
  const auto operand = [&](Major major, int64_t start) {
    WgmmaOperand o{{.start_address = start, .stride_byte_offset = 8 * width, .swizzle = mode},
                   major};
    if (mode == tma::Swizzle::none)
      o.descriptor.leading_byte_offset = major == Major::k ? 2048 : 1024;
    if (mode != tma::Swizzle::none && major == Major::mn)
      o.descriptor.leading_byte_offset = 16 * width;
    return o;
  };
  SharedMemory shared(32768);
  WgmmaArguments args{
      .dtype = dtype, .n = n, .a = operand(a_major, 0), .b = operand(b_major, 16384)};
  const std::vector<int> a = place(rng, args.a, dtype, 64, shared);
  const std::vector<int> b = place(rng, args.b, dtype, n, shared);
  std::vector<uint32_t> registers(128 * 4, 0);
  if (from_registers) {
    for (int row = 0; row < 64; ++row) {
      for (int i = 0; i < k; ++i) {
        const FragmentSlot slot = wgmma_a_slot(bits, {row, i});
        const float x = static_cast<float>(a[static_cast<size_t>(row * k + i)]);
        const uint32_t value = dtype == DType::f32    ? __builtin_bit_cast(uint32_t, x)
                               : dtype == DType::bf16 ? uint32_t{from_float<bf16>(x).bits}
                               : dtype == DType::f16  ? uint32_t{from_float<f16>(x).bits}
                                                      : uint32_t{from_float<f8_e4m3>(x).bits};
        registers[static_cast<size_t>(slot.lane * 4 + slot.reg)] |= value
                                                                    << (bits * slot.part % 32);
      }
    }
    args.a_registers = registers;
  }
  std::vector<float> d(128 * n / 2, 1.0f);
  const Status status = wgmma(args, shared, d);
  ASSERT_TRUE(status.is_ok()) << status.message();
  for (int row = 0; row < 64; ++row) {
    for (int column = 0; column < n; ++column) {
      int expected = 1;
      for (int i = 0; i < k; ++i)
        expected += a[static_cast<size_t>(row * k + i)] * b[static_cast<size_t>(column * k + i)];
      const FragmentSlot slot = wgmma_d_slot({row, column});
      ASSERT_EQ(d[static_cast<size_t>(slot.lane * (n / 2) + slot.reg)],
                static_cast<float>(expected))
          << row << ", " << column;
    }
  }
}

TEST(Wgmma, multiplies_every_type_layout_and_swizzle) {
  Rng rng(test_seed());
  for (const tma::Swizzle mode :
       {tma::Swizzle::none, tma::Swizzle::b32, tma::Swizzle::b64, tma::Swizzle::b128}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3}) {
      SCOPED_TRACE(std::string(name(mode)) + " " + name(dtype));
      expect_product(dtype, Major::k, Major::k, mode, false, rng);
      expect_product(dtype, Major::k, Major::k, mode, true, rng);
      if (bit_width(dtype) != 16) continue;
      expect_product(dtype, Major::mn, Major::mn, mode, false, rng);
      expect_product(dtype, Major::k, Major::mn, mode, true, rng);
    }
  }
}

TEST(Wgmma, what_does_not_exist_is_refused) {
  const SharedMemory shared(4096);
  std::vector<float> d(128 * 4);
  const auto message = [&](const WgmmaArguments& args) {
    return std::string(wgmma(args, shared, d).message());
  };
  const WgmmaOperand fits{{.leading_byte_offset = 128, .stride_byte_offset = 256}};
  EXPECT_EQ(message({.a = fits, .b = fits}), "");
  EXPECT_THAT(message({.n = 12, .a = fits, .b = fits}), HasSubstr("n is 12"));
  EXPECT_THAT(message({.n = 16, .a = fits, .b = fits}), HasSubstr("expected [128, 8]"));
  EXPECT_THAT(message({.dtype = DType::i8, .a = fits, .b = fits}),
              HasSubstr("no float product of i8"));
  EXPECT_THAT(message({.a = {{.stride_byte_offset = 1024}}, .b = fits}),
              HasSubstr("element (mn 32, k 0) is at shared address 4096"));
  EXPECT_THAT(message({.dtype = DType::f8_e4m3, .a = fits, .b = {{}, Major::mn}}),
              HasSubstr("f8_e4m3 has no MN-major operands"));
  EXPECT_THAT(message({.a = {{.base_offset = 1}}, .b = fits}),
              HasSubstr("base_offset is not emulated"));
  const std::vector<uint32_t> few(3);
  EXPECT_THAT(message({.b = fits, .a_registers = few}), HasSubstr("3 registers of A"));
}

}  // namespace
}  // namespace folio::test
