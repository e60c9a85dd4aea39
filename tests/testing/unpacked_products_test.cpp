// SPDX-License-Identifier: Apache-2.0
/// tests/testing/unpacked_products_test.cpp: mma_sync, wgmma and ldmatrix against their
/// definitions, which look up every element where the maps say it is.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "folio/testing/mma_sync.h"
#include "folio/testing/wgmma.h"
#include "support/random.h"

namespace folio::test {
namespace {

using namespace emulator;

constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2};

/// The bits of numbers, and one for all that are none.
uint32_t bits_of(float x) { return x == x ? std::bit_cast<uint32_t>(x) : 0x7fc00000u; }

/// Any bits: subnormals, infinities and NaN too; or numbers, where `numbers` says so.
uint32_t random_bits(Rng& rng, DType dtype, bool numbers) {
  auto bits = static_cast<uint32_t>(rng.next());
  if (!numbers) return bits;
  for (int part = 0; part < parts_of(bit_width(dtype)); ++part) {
    const int width = bit_width(dtype);
    // Without the top bit of the exponent no part is infinite or NaN.
    bits &= ~(1u << (width * part + width - 2));
  }
  return bits;
}

void defined_mma(DType dtype, const Registers<4>& a, const Registers<2>& b, Accumulators& sums) {
  const int bits = bit_width(dtype);
  for (int lane = 0; lane < warp_lanes; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      const MatrixElement d = mma_c_element(lane, reg);
      float& sum = sums[static_cast<size_t>(lane)][static_cast<size_t>(reg)];
      double exact = static_cast<double>(sum);
      for (int k = 0; k < mma_k(bits); ++k) {
        const FragmentSlot x = mma_a_slot(bits, {d.row, k}), y = mma_b_slot(bits, {k, d.column});
        exact += static_cast<double>(register_part(
                     dtype, a[static_cast<size_t>(x.lane)][static_cast<size_t>(x.reg)], x.part)) *
                 static_cast<double>(register_part(
                     dtype, b[static_cast<size_t>(y.lane)][static_cast<size_t>(y.reg)], y.part));
      }
      sum = static_cast<float>(exact);
    }
  }
}

TEST(UnpackedProducts, mma_sync_gives_the_bits_of_its_definition) {
  Rng rng(1);
  for (const DType dtype : types) {
    for (int round = 0; round < 40; ++round) {
      Registers<4> a;
      Registers<2> b;
      Accumulators got, expected;
      for (auto& lane : a)
        for (uint32_t& reg : lane) reg = random_bits(rng, dtype, round % 2 == 0);
      for (auto& lane : b)
        for (uint32_t& reg : lane) reg = random_bits(rng, dtype, round % 2 == 0);
      for (auto& lane : got)
        for (float& c : lane) c = std::bit_cast<float>(random_bits(rng, DType::f32, true));
      expected = got;
      ASSERT_TRUE(mma_sync(dtype, a, b, got).is_ok());
      defined_mma(dtype, a, b, expected);
      for (size_t lane = 0; lane < 32; ++lane)
        for (size_t reg = 0; reg < 4; ++reg)
          ASSERT_EQ(bits_of(got[lane][reg]), bits_of(expected[lane][reg]))
              << name(dtype) << " lane " << lane << " register " << reg;
    }
  }
}

TEST(UnpackedProducts, every_half_is_unpacked_as_its_definition_says) {
  for (uint32_t half = 0; half < 65536; ++half) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      float parts[2];
      emulator::detail::unpack_register(dtype, half | (half ^ 0x8000u) << 16, parts);
      ASSERT_EQ(bits_of(parts[0]), bits_of(register_part(dtype, half, 0))) << half;
      ASSERT_EQ(bits_of(parts[1]), bits_of(register_part(dtype, half ^ 0x8000u, 0))) << half;
    }
  }
}

float element(const WgmmaOperand& operand, DType dtype, int mn, int k, const SharedMemory& shared) {
  const int bits = bit_width(dtype);
  const int64_t at = wgmma_operand_address(operand.descriptor, operand.major, bits, mn, k);
  const uint32_t value = bits == 32   ? shared.load<uint32_t>(at)
                         : bits == 16 ? uint32_t{shared.load<uint16_t>(at)}
                                      : uint32_t{shared.load<uint8_t>(at)};
  return register_part(dtype, value, 0);
}

void defined_wgmma(const WgmmaArguments& args, const SharedMemory& shared,
                   std::vector<float>& sums) {
  const int bits = bit_width(args.dtype);
  for (int thread = 0; thread < warpgroup_threads; ++thread) {
    for (int reg = 0; reg < args.n / 2; ++reg) {
      const MatrixElement d = wgmma_d_element(thread, reg);
      float& sum = sums[static_cast<size_t>(thread * (args.n / 2) + reg)];
      double exact = static_cast<double>(sum);
      for (int k = 0; k < mma_k(bits); ++k) {
        const FragmentSlot slot = wgmma_a_slot(bits, {d.row, k});
        const float x =
            args.a_registers.empty()
                ? element(args.a, args.dtype, d.row, k, shared)
                : register_part(args.dtype,
                                args.a_registers[static_cast<size_t>(slot.lane * 4 + slot.reg)],
                                slot.part);
        exact += static_cast<double>(x) *
                 static_cast<double>(element(args.b, args.dtype, d.column, k, shared));
      }
      sum = static_cast<float>(exact);
    }
  }
}

TEST(UnpackedProducts, wgmma_gives_the_bits_of_its_definition) {
  Rng rng(2);
  for (const DType dtype : types) {
    for (int round = 0; round < 24; ++round) {
      SharedMemory shared(int64_t{64} << 10);
      for (int64_t at = 0; at < shared.size(); at += 4)
        shared.store(at, random_bits(rng, dtype, round % 3 != 0));
      const auto swizzle = static_cast<tma::Swizzle>(rng.between(0, 3));
      const bool may_be_mn = bit_width(dtype) == 16;
      WgmmaArguments args;
      args.dtype = dtype;
      args.n = 8 + 8 * rng.int_between(0, 31);
      for (WgmmaOperand* operand : {&args.a, &args.b}) {
        operand->major = may_be_mn && rng.chance(0.5) ? Major::mn : Major::k;
        operand->descriptor = {.start_address = 1024 * rng.between(0, 7),
                               .leading_byte_offset = 1024,
                               .stride_byte_offset = 1040,
                               .base_offset = 0,
                               .swizzle = swizzle};
        if (swizzle != tma::Swizzle::none) operand->descriptor.stride_byte_offset = 1024;
      }
      std::vector<uint32_t> registers;
      if (round % 2 == 0) {
        for (int i = 0; i < 512; ++i) registers.push_back(random_bits(rng, dtype, true));
        args.a_registers = registers;
      }
      std::vector<float> got(static_cast<size_t>(64 * args.n)), expected;
      for (float& c : got) c = std::bit_cast<float>(random_bits(rng, DType::f32, true));
      expected = got;
      const Status status = wgmma(args, shared, got);
      ASSERT_TRUE(status.is_ok()) << status.message();
      defined_wgmma(args, shared, expected);
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(bits_of(got[i]), bits_of(expected[i]))
            << name(dtype) << " n " << args.n << " swizzle " << static_cast<int>(swizzle) << " at "
            << i;
    }
  }
}

TEST(UnpackedProducts, ldmatrix_gives_the_units_of_its_definition) {
  Rng rng(3);
  SharedMemory shared(4096);
  for (int64_t at = 0; at < shared.size(); at += 4)
    shared.store(at, static_cast<uint32_t>(rng.next()));
  for (const bool trans : {false, true}) {
    for (int round = 0; round < 20; ++round) {
      std::array<int64_t, 32> rows;
      for (int64_t& row : rows) row = 16 * rng.between(0, 255);
      const auto registers = ldmatrix<4>(shared, rows, trans);
      ASSERT_TRUE(static_cast<bool>(registers));
      for (int lane = 0; lane < 32; ++lane) {
        for (int reg = 0; reg < 4; ++reg) {
          uint32_t expected = 0;
          for (int part = 0; part < 2; ++part) {
            const MatrixElement unit = ldmatrix_element(trans, {lane, reg, part});
            const int64_t row = rows[static_cast<size_t>(8 * reg + unit.row)];
            expected |= uint32_t{shared.load<uint16_t>(row + 2 * unit.column)} << (16 * part);
          }
          ASSERT_EQ((*registers)[static_cast<size_t>(lane)][static_cast<size_t>(reg)], expected);
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::test
