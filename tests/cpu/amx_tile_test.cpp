// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_tile_test.cpp: the tile vocabulary: the emulation against double and integers,
/// hardware against the emulation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "cpu/amx/tile/emulated.h"
#include "cpu/amx/tile/tile.h"
#include "cpu/features.h"
#include "folio/core/element.h"
#include "support/random.h"

namespace folio::test {
namespace {

struct InstructionSet {
  [[noreturn]] static void fault(const char* what) { throw std::logic_error(what); }
};
using Emulated = amx::EmulatedTile<InstructionSet>;
using Hardware = amx::HardwareTile<InstructionSet>;

enum class Op { bf16, signed_bytes, unsigned_bytes };
constexpr Op ops[] = {Op::bf16, Op::signed_bytes, Op::unsigned_bytes};

/// Dwords: C is m x n, A is m x k, B is k x n.
struct Shape {
  int m, n, k;
};
struct alignas(64) Bytes {
  uint8_t at[1024] = {};
};
struct Operands {
  Bytes a, b, c;
};

amx::TileConfig config_of(const Shape& shape) {
  amx::TileConfig config = amx::whole_tiles();
  const auto set = [&config](int t, int rows, int dwords) {
    config.rows[t] = static_cast<uint8_t>(rows);
    config.row_bytes[t] = static_cast<uint16_t>(4 * dwords);
  };
  set(0, shape.m, shape.k);
  set(1, shape.k, shape.n);
  set(2, shape.m, shape.n);
  return config;
}

/// C after one product, as stored into bytes of ones, and then C as a whole tile.
template <class Tile>
std::vector<uint8_t> product(Op op, const Shape& shape, const Operands& of) {
  std::vector<uint8_t> result(2048, 0xff);
  Tile::config(config_of(shape));
  Tile::template load<0>(of.a.at, 64);
  Tile::template load_t1<1>(of.b.at, 64);
  Tile::template load<2>(of.c.at, 64);
  switch (op) {
    case Op::bf16: Tile::template dpbf16<2, 0, 1>(); break;
    case Op::signed_bytes: Tile::template dpbssd<2, 0, 1>(); break;
    case Op::unsigned_bytes: Tile::template dpbusd<2, 0, 1>(); break;
  }
  Tile::template store<2>(result.data(), 64);
  Tile::template zero<3>();
  Tile::template store<3>(result.data() + 1024, 64);
  Tile::release();
  return result;
}

Shape random_shape(Rng& rng) {
  if (rng.chance(0.3)) return {16, 16, 16};
  return {rng.int_between(1, 16), rng.int_between(1, 16), rng.int_between(1, 16)};
}

uint32_t bits_of(const uint8_t* at) {
  uint32_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}
float float_of(const uint8_t* at) {
  const uint32_t bits = bits_of(at);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
void fill_bytes(Rng& rng, Bytes& bytes) {
  for (uint8_t& byte : bytes.at) byte = static_cast<uint8_t>(rng.next());
}

/// How exponents are drawn: plain numbers, near the least normal, whole range with zeros, or
/// anything with infinities and NaNs.
enum class Range { plain, small, wide, any };
constexpr Range ranges[] = {Range::plain, Range::small, Range::wide, Range::any};

uint32_t exponent(Rng& rng, Range range) {
  switch (range) {
    case Range::plain: return static_cast<uint32_t>(rng.between(120, 130));
    case Range::small:
      return static_cast<uint32_t>(rng.chance(0.25) ? rng.between(0, 2) : rng.between(40, 90));
    case Range::wide: return static_cast<uint32_t>(rng.chance(0.1) ? 0 : rng.between(60, 194));
    case Range::any: break;
  }
  return static_cast<uint32_t>(rng.chance(0.02) ? 255 : rng.between(0, 254));
}
void fill_bf16(Rng& rng, Range range, Bytes& bytes) {
  for (int i = 0; i < 512; ++i) {
    const auto bits = static_cast<uint16_t>((rng.next() & 0x807f) | exponent(rng, range) << 7);
    std::memcpy(bytes.at + 2 * i, &bits, sizeof bits);
  }
}
void fill_f32(Rng& rng, Range range, Bytes& bytes) {
  for (int i = 0; i < 256; ++i) {
    const uint32_t near_zero = static_cast<uint32_t>(rng.between(0, 3));
    const uint32_t drawn =
        range == Range::small && rng.chance(0.5) ? near_zero : exponent(rng, range);
    const uint32_t bits = (static_cast<uint32_t>(rng.next()) & 0x807fffffu) | drawn << 23;
    std::memcpy(bytes.at + 4 * i, &bits, sizeof bits);
  }
}

TEST(AmxTile, emulated_bf16_products_are_right_to_the_rounding_of_f32) {
  Rng rng(test_seed());
  for (int round = 0; round < 200; ++round) {
    const Shape shape = random_shape(rng);
    Operands of;
    fill_bf16(rng, Range::plain, of.a);
    fill_bf16(rng, Range::plain, of.b);
    fill_f32(rng, Range::plain, of.c);
    const std::vector<uint8_t> result = product<Emulated>(Op::bf16, shape, of);
    const auto element = [](const Bytes& bytes, int row, int i) {
      bf16 value;
      std::memcpy(&value, bytes.at + row * 64 + 2 * i, sizeof value);
      return static_cast<double>(to_float(value));
    };
    for (int m = 0; m < shape.m; ++m)
      for (int n = 0; n < shape.n; ++n) {
        double sum = float_of(of.c.at + m * 64 + 4 * n), size = std::abs(sum);
        for (int k = 0; k < 2 * shape.k; ++k) {
          const double term = element(of.a, m, k) * element(of.b, k / 2, 2 * n + k % 2);
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(float_of(result.data() + m * 64 + 4 * n), sum, size * 20 * 0x1p-24)
            << m << ", " << n;
      }
  }
}

TEST(AmxTile, emulated_byte_products_wrap) {
  Rng rng(test_seed() + 1);
  for (int round = 0; round < 200; ++round) {
    const Shape shape = random_shape(rng);
    Operands of;
    fill_bytes(rng, of.a);
    fill_bytes(rng, of.b);
    fill_bytes(rng, of.c);
    for (const Op op : {Op::signed_bytes, Op::unsigned_bytes}) {
      const std::vector<uint8_t> result = product<Emulated>(op, shape, of);
      for (int m = 0; m < shape.m; ++m)
        for (int n = 0; n < shape.n; ++n) {
          int64_t sum = bits_of(of.c.at + m * 64 + 4 * n);
          for (int k = 0; k < 4 * shape.k; ++k) {
            const uint8_t left = of.a.at[m * 64 + k];
            const int64_t a = op == Op::signed_bytes ? static_cast<int8_t>(left) : left;
            sum += a * static_cast<int8_t>(of.b.at[k / 4 * 64 + 4 * n + k % 4]);
          }
          ASSERT_EQ(bits_of(result.data() + m * 64 + 4 * n), static_cast<uint32_t>(sum))
              << m << ", " << n;
        }
    }
  }
}

TEST(AmxTile, emulated_denormals_count_as_zeros_of_their_sign) {
  Operands of;
  const uint16_t denormal = 0x8001, one = 0x3f80;
  const uint32_t negative_denormal = 0x80000001u;
  std::memcpy(of.a.at, &one, sizeof one);
  std::memcpy(of.b.at, &denormal, sizeof denormal);
  std::memcpy(of.c.at, &negative_denormal, sizeof negative_denormal);
  EXPECT_EQ(bits_of(product<Emulated>(Op::bf16, {1, 1, 1}, of).data()), 0u)
      << "-0 + +0, the sum of both chains";
}

TEST(AmxTile, a_store_writes_the_configured_rows_and_columns_alone) {
  Operands of;
  for (uint8_t& byte : of.c.at) byte = 7;
  const std::vector<uint8_t> result = product<Emulated>(Op::signed_bytes, {3, 5, 2}, of);
  for (int row = 0; row < 16; ++row)
    for (int i = 0; i < 64; ++i) {
      const bool is_inside = row < 3 && i < 20;
      EXPECT_EQ(result[static_cast<size_t>(row * 64 + i)], is_inside ? 7 : 0xff)
          << row << ", " << i;
    }
}

TEST(AmxTile, misuse_that_a_processor_refuses_is_refused) {
  const amx::TileConfig whole = amx::whole_tiles();
  Bytes bytes;
  Emulated::release();
  EXPECT_THROW(Emulated::zero<0>(), std::logic_error) << "not configured";

  const auto refuses = [&whole](auto change) {
    amx::TileConfig config = whole;
    change(config);
    EXPECT_THROW(Emulated::config(config), std::logic_error);
  };
  refuses([](amx::TileConfig& c) { c.palette = 2; });
  refuses([](amx::TileConfig& c) { c.reserved[3] = 1; });
  refuses([](amx::TileConfig& c) { c.rows[1] = 17; });
  refuses([](amx::TileConfig& c) { c.row_bytes[1] = 68; });
  refuses([](amx::TileConfig& c) { c.rows[2] = 0; });
  refuses([](amx::TileConfig& c) { c.rows[8] = 1, c.row_bytes[8] = 1; });

  const auto multiplies = [&whole, &bytes](auto change) {
    amx::TileConfig config = whole;
    change(config);
    Emulated::config(config);
    Emulated::load<0>(bytes.at, 64);
    Emulated::load<1>(bytes.at, 64);
    Emulated::load<2>(bytes.at, 64);
    Emulated::dpbf16<2, 0, 1>();
  };
  EXPECT_NO_THROW(multiplies([](amx::TileConfig&) {}));
  EXPECT_THROW(multiplies([](amx::TileConfig& c) { c.rows[0] = 15; }), std::logic_error)
      << "rows of A and C";
  EXPECT_THROW(multiplies([](amx::TileConfig& c) { c.row_bytes[1] = 60; }), std::logic_error)
      << "columns of B and C";
  EXPECT_THROW(multiplies([](amx::TileConfig& c) { c.row_bytes[0] = 60; }), std::logic_error)
      << "columns of A, rows of B";
  EXPECT_THROW(multiplies([](amx::TileConfig& c) { c.rows[2] = 0, c.row_bytes[2] = 0; }),
               std::logic_error)
      << "no tile 2";
  Emulated::config(whole);
  EXPECT_THROW(Emulated::store<5>(bytes.at, 64), std::logic_error) << "nothing was written to it";
  Emulated::release();
}

TEST(AmxTile, a_scope_leaves_no_configuration_behind) {
  {
    const amx::TileScope<Emulated> scope;
    EXPECT_NO_THROW(Emulated::zero<7>());
  }
  EXPECT_THROW(Emulated::zero<7>(), std::logic_error);
}

TEST(AmxTile, hardware_and_emulation_agree_bit_for_bit) {
  if (!machine_has(Capability::amx_bf16))
    GTEST_SKIP() << "this machine lacks AMX, or the system refuses it";
  Rng rng(test_seed() + 2);
  for (int round = 0; round < 3000; ++round)
    for (const Op op : ops) {
      const Shape shape = random_shape(rng);
      const Range range = rng.pick(ranges);
      Operands of;
      if (op == Op::bf16) {
        fill_bf16(rng, range, of.a);
        fill_bf16(rng, range, of.b);
        fill_f32(rng, range, of.c);
      } else {
        fill_bytes(rng, of.a);
        fill_bytes(rng, of.b);
        fill_bytes(rng, of.c);
      }
      const std::vector<uint8_t> hardware = product<Hardware>(op, shape, of),
                                 emulated = product<Emulated>(op, shape, of);
      for (size_t i = 0; i < hardware.size(); i += 4) {
        if (op == Op::bf16 && std::isnan(float_of(&hardware[i])) &&
            std::isnan(float_of(&emulated[i])))
          continue;
        ASSERT_EQ(bits_of(&hardware[i]), bits_of(&emulated[i]))
            << "round " << round << ", byte " << i;
      }
    }
}

}  // namespace
}  // namespace folio::test
