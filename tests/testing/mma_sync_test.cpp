// SPDX-License-Identifier: Apache-2.0
/// tests/testing/mma_sync_test.cpp: fragment maps against the wording of the PTX manual, and warps
/// that multiply.
#include "folio/testing/mma_sync.h"
#include "folio/core/element.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "folio/tma/swizzle.h"
#include "support/random.h"

namespace folio::test {
namespace {

using namespace emulator;
using ::testing::HasSubstr;

/// The manual's tables, one per width, with its own index i over all elements of a fragment.
MatrixElement manual_a(int bits, int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  if (bits == 16) {
    const int row = (0 <= i && i < 2) || (4 <= i && i < 6) ? group : group + 8;
    return {row, i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8};
  }
  if (bits == 8) {
    const int row = (0 <= i && i < 4) || (8 <= i && i < 12) ? group : group + 8;
    return {row, i < 8 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16};
  }
  return {i == 0 || i == 2 ? group : group + 8, i == 0 || i == 1 ? in_group : in_group + 4};
}
MatrixElement manual_b(int bits, int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  if (bits == 16) return {i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8, group};
  if (bits == 8) return {i < 4 ? in_group * 4 + (i & 3) : in_group * 4 + (i & 3) + 16, group};
  return {i == 0 ? in_group : in_group + 4, group};
}
MatrixElement manual_c(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
}

TEST(MmaSync, fragments_are_those_of_the_manual_and_cover_the_matrices) {
  for (const int bits : {8, 16, 32}) {
    const int parts = parts_of(bits);
    std::set<std::array<int, 2>> a, b;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4 * parts; ++i) {
        const FragmentSlot slot{lane, i / parts, i % parts};
        const MatrixElement element = mma_a_element(bits, slot);
        EXPECT_EQ(element, manual_a(bits, lane, i)) << bits << " " << lane << " " << i;
        EXPECT_EQ(mma_a_slot(bits, element), slot);
        a.insert({element.row, element.column});
      }
      for (int i = 0; i < 2 * parts; ++i) {
        const FragmentSlot slot{lane, i / parts, i % parts};
        const MatrixElement element = mma_b_element(bits, slot);
        EXPECT_EQ(element, manual_b(bits, lane, i)) << bits << " " << lane << " " << i;
        EXPECT_EQ(mma_b_slot(bits, element), slot);
        b.insert({element.row, element.column});
      }
      for (int i = 0; i < 4; ++i) {
        const MatrixElement element = mma_c_element(lane, i);
        EXPECT_EQ(element, manual_c(lane, i));
        EXPECT_EQ(mma_c_slot(element), (FragmentSlot{lane, i, 0}));
      }
    }
    EXPECT_EQ(a.size(), static_cast<size_t>(16 * mma_k(bits)));
    EXPECT_EQ(b.size(), static_cast<size_t>(8 * mma_k(bits)));
  }
  EXPECT_EQ(mma_k(16), 16);
  EXPECT_EQ(mma_k(32), 8);
  EXPECT_EQ(mma_k(8), 32);
}

/// A small integer in the bits of `dtype`: every sum of products is exact.
uint32_t small_bits(DType dtype, int value) {
  const auto x = static_cast<float>(value);
  switch (dtype) {
    case DType::f32: return __builtin_bit_cast(uint32_t, x);
    case DType::f16: return from_float<f16>(x).bits;
    case DType::bf16: return from_float<bf16>(x).bits;
    case DType::f8_e4m3: return from_float<f8_e4m3>(x).bits;
    default: return from_float<f8_e5m2>(x).bits;
  }
}

TEST(MmaSync, multiplies_every_type) {
  Rng rng(test_seed());
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f8_e4m3, DType::f8_e5m2}) {
    const int bits = bit_width(dtype), k = mma_k(bits);
    int a[16][32], b[32][8], c[16][8];
    for (auto& row : a)
      for (int& x : row) x = rng.int_between(-4, 4);
    for (auto& row : b)
      for (int& x : row) x = rng.int_between(-4, 4);
    for (auto& row : c)
      for (int& x : row) x = rng.int_between(-100, 100);
    Registers<4> ra{};
    Registers<2> rb{};
    Accumulators rc{};
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < k; ++column) {
        const FragmentSlot s = mma_a_slot(bits, {row, column});
        ra[static_cast<size_t>(s.lane)][static_cast<size_t>(s.reg)] |=
            small_bits(dtype, a[row][column]) << (bits * s.part % 32);
      }
    }
    for (int row = 0; row < k; ++row) {
      for (int column = 0; column < 8; ++column) {
        const FragmentSlot s = mma_b_slot(bits, {row, column});
        rb[static_cast<size_t>(s.lane)][static_cast<size_t>(s.reg)] |=
            small_bits(dtype, b[row][column]) << (bits * s.part % 32);
      }
    }
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        const FragmentSlot s = mma_c_slot({row, column});
        rc[static_cast<size_t>(s.lane)][static_cast<size_t>(s.reg)] =
            static_cast<float>(c[row][column]);
      }
    }
    ASSERT_TRUE(mma_sync(dtype, ra, rb, rc).is_ok());
    for (int row = 0; row < 16; ++row) {
      for (int column = 0; column < 8; ++column) {
        int expected = c[row][column];
        for (int i = 0; i < k; ++i) expected += a[row][i] * b[i][column];
        const FragmentSlot s = mma_c_slot({row, column});
        EXPECT_EQ(rc[static_cast<size_t>(s.lane)][static_cast<size_t>(s.reg)],
                  static_cast<float>(expected))
            << name(dtype);
      }
    }
  }
}

TEST(MmaSync, refuses_types_that_it_has_no_product_for) {
  Accumulators c{};
  EXPECT_EQ(mma_sync(DType::i8, {}, {}, c).code(), Errc::unsupported);
  EXPECT_EQ(mma_sync(DType::f8_e8m0, {}, {}, c).code(), Errc::unsupported);
}

TEST(MmaSync, tf32_does_not_see_the_lowest_13_bits) {
  EXPECT_EQ(register_part(DType::f32, 0x3f801fffu, 0), 1.0f);
  EXPECT_EQ(register_part(DType::f32, 0x3f802000u, 0), 1.0009765625f);
}

/// A 16x16 matrix of distinct units, rows of 32 bytes at `pitch`.
SharedMemory square(int64_t pitch) {
  SharedMemory shared(16 * pitch);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 16; ++column)
      shared.store(row * pitch + column * 2, static_cast<uint16_t>(row * 100 + column));
  }
  return shared;
}
uint32_t unit_of(uint32_t bits, int part) { return bits >> (16 * part) & 0xffff; }

TEST(Ldmatrix, x4_gives_the_a_fragment_of_mma) {
  const SharedMemory shared = square(64);
  std::array<int64_t, 32> rows{};
  for (int lane = 0; lane < 32; ++lane)
    rows[static_cast<size_t>(lane)] = lane % 16 * 64 + lane / 16 * 16;
  const Result<Registers<4>> a = ldmatrix<4>(shared, rows);
  ASSERT_TRUE(a.has_value()) << a.error().message();
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 4; ++reg) {
      for (int part = 0; part < 2; ++part) {
        const MatrixElement e = mma_a_element(16, {lane, reg, part});
        const uint32_t value =
            unit_of((*a)[static_cast<size_t>(lane)][static_cast<size_t>(reg)], part);
        EXPECT_EQ(value, static_cast<uint32_t>(e.row * 100 + e.column));
      }
    }
  }
}

TEST(Ldmatrix, x2_gives_b_from_rows_along_k_and_trans_from_rows_along_n) {
  const SharedMemory shared = square(64);
  std::array<int64_t, 32> rows{};
  // Keys as rows, head dimensions as columns: B = K^T, eight keys.
  for (int lane = 0; lane < 16; ++lane)
    rows[static_cast<size_t>(lane)] = lane % 8 * 64 + lane / 8 * 16;
  Result<Registers<2>> b = ldmatrix<2>(shared, rows);
  ASSERT_TRUE(b.has_value());
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 2; ++reg) {
      for (int part = 0; part < 2; ++part) {
        const MatrixElement e = mma_b_element(16, {lane, reg, part});
        const uint32_t value =
            unit_of((*b)[static_cast<size_t>(lane)][static_cast<size_t>(reg)], part);
        EXPECT_EQ(value, static_cast<uint32_t>(e.column * 100 + e.row));
      }
    }
  }
  // Values: 16 keys as rows along K, eight dimensions: B = V, transposed on the way.
  for (int lane = 0; lane < 16; ++lane) rows[static_cast<size_t>(lane)] = lane * 64;
  b = ldmatrix<2>(shared, rows, true);
  ASSERT_TRUE(b.has_value());
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < 2; ++reg) {
      for (int part = 0; part < 2; ++part) {
        const MatrixElement e = mma_b_element(16, {lane, reg, part});
        const uint32_t value =
            unit_of((*b)[static_cast<size_t>(lane)][static_cast<size_t>(reg)], part);
        EXPECT_EQ(value, static_cast<uint32_t>(e.row * 100 + e.column));
      }
    }
  }
}

TEST(Ldmatrix, x1_reads_the_first_eight_addresses_only) {
  const SharedMemory shared = square(64);
  std::array<int64_t, 32> rows;
  rows.fill(-1);
  for (int lane = 0; lane < 8; ++lane) rows[static_cast<size_t>(lane)] = lane * 64;
  EXPECT_TRUE(ldmatrix<1>(shared, rows).has_value());
  EXPECT_THAT(std::string(ldmatrix<2>(shared, rows).error().message()),
              HasSubstr("lane 8 gives address -1"));
  rows[3] = 8;
  EXPECT_THAT(std::string(ldmatrix<1>(shared, rows).error().message()),
              HasSubstr("lane 3 gives address 8, expected a multiple of 16"));
  rows[3] = shared.size();
  EXPECT_THAT(std::string(ldmatrix<1>(shared, rows).error().message()),
              HasSubstr("shared memory has 1024 bytes"));
}

TEST(Ldmatrix, a_swizzle_frees_it_of_bank_conflicts) {
  std::array<int64_t, 8> plain, swizzled;
  for (int row = 0; row < 8; ++row) {
    plain[static_cast<size_t>(row)] = row * 128 + 32;
    swizzled[static_cast<size_t>(row)] = swizzle(tma::Swizzle::b128, row * 128 + 32);
  }
  EXPECT_EQ(ldmatrix_passes(plain), 8);
  EXPECT_EQ(ldmatrix_passes(swizzled), 1);
}

}  // namespace
}  // namespace folio::test
