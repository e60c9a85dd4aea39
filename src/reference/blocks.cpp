// SPDX-License-Identifier: Apache-2.0
/// reference/blocks.cpp: a block at a time, an element at a time.
#include "reference/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "reference/elements.h"

namespace folio::reference {
namespace {

constexpr size_t elements = 32;
constexpr double f16_max = 65504.0;

double f32(double x) { return static_cast<double>(static_cast<float>(x)); }
double limited(double x) { return std::clamp(x, -f16_max, f16_max); }

/// What d and the patterns are made of.
struct Block {
  std::array<double, elements> x = {};  // NaN is 0
  double low = 0.0;                     // of the finite ones
  double high = 0.0;
  double extreme = 0.0;  // the first of the largest magnitude

  explicit Block(const float* from) {
    bool is_first = true;
    for (size_t i = 0; i < elements; ++i) {
      const double value = static_cast<double>(from[i]);
      x[i] = std::isnan(value) ? 0.0 : value;
      if (!std::isfinite(value)) continue;
      low = is_first ? value : std::min(low, value);
      high = is_first ? value : std::max(high, value);
      is_first = false;
      if (std::fabs(value) > std::fabs(extreme)) extreme = value;
    }
    low += 0.0;  // there is one zero
    high += 0.0;
  }
};

double inverse_of(double d) { return std::fabs(d) < std::ldexp(1.0, -126) ? 0.0 : f32(1.0 / d); }

/// A product of 0 and infinity is none.
double times(double x, double inverse) { return inverse == 0.0 ? 0.0 : f32(x * inverse); }

using Patterns = std::array<uint32_t, elements>;

/// d, m and the patterns in the places of the format.
void put(std::byte* at, DType dtype, double d, const double* minimum, const Patterns& patterns) {
  store(at, DType::f16, d);
  at += 2;
  if (minimum != nullptr) {
    store(at, DType::f16, *minimum);
    at += 2;
  }
  if (dtype == DType::q5_0 || dtype == DType::q5_1) {
    std::array<uint8_t, 4> fifths = {};
    for (size_t i = 0; i < elements; ++i)
      fifths[i / 8] = static_cast<uint8_t>(fifths[i / 8] | (patterns[i] >> 4 & 1u) << i % 8);
    std::memcpy(at, fifths.data(), fifths.size());
    at += 4;
  }
  for (size_t i = 0; i < elements; ++i) {
    if (dtype == DType::q8_0) {
      at[i] = static_cast<std::byte>(patterns[i]);
    } else if (i < 16) {
      at[i] = static_cast<std::byte>((patterns[i] & 15u) | (patterns[i + 16] & 15u) << 4);
    }
  }
}

void store_q8_0(std::byte* at, const Block& block) {
  const double d = std::min(f32(std::fabs(block.extreme) / 127.0), f16_max);
  Patterns patterns = {};
  for (size_t i = 0; i < elements; ++i) {
    const double q = std::round(std::clamp(times(block.x[i], inverse_of(d)), -127.0, 127.0));
    patterns[i] = static_cast<uint32_t>(static_cast<int>(q)) & 255u;
  }
  put(at, DType::q8_0, d, nullptr, patterns);
}

/// Levels are 16 or 32: extremes are the lowest of them.
void store_signed(std::byte* at, DType dtype, const Block& block, int levels) {
  const double d = limited(f32(block.extreme / (-levels / 2.0)));
  Patterns patterns = {};
  for (size_t i = 0; i < elements; ++i) {
    const double q = f32(times(block.x[i], inverse_of(d)) + levels / 2.0 + 0.5);
    patterns[i] = static_cast<uint32_t>(std::clamp(q, 0.0, levels - 1.0));
  }
  put(at, dtype, d, nullptr, patterns);
}

void store_ranged(std::byte* at, DType dtype, const Block& block, int levels) {
  const double minimum = limited(block.low),
               d = limited(f32(f32(block.high - block.low) / (levels - 1.0)));
  Patterns patterns = {};
  for (size_t i = 0; i < elements; ++i) {
    const double q = f32(times(f32(block.x[i] - minimum), inverse_of(d)) + 0.5);
    patterns[i] = static_cast<uint32_t>(std::clamp(q, 0.0, levels - 1.0));
  }
  put(at, dtype, d, &minimum, patterns);
}

/// Written out apart from the library's.
constexpr std::array<double, 16> values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

double summed(std::array<double, elements> terms) {
  for (size_t n = elements / 2; n > 0; n /= 2)
    for (size_t i = 0; i < n; ++i) terms[i] = f32(terms[i] + terms[i + n]);
  return terms[0];
}

void store_iq4_nl(std::byte* at, const Block& block) {
  const double d = limited(f32(block.extreme / -127.0));
  Patterns patterns = {};
  std::array<double, elements> products = {}, squares = {};
  for (size_t i = 0; i < elements; ++i) {
    const double a = std::clamp(times(block.x[i], inverse_of(d)), -127.0, 127.0);
    size_t nearest = 0;
    for (size_t k = 1; k < values.size(); ++k)
      if (std::fabs(values[k] - a) <= std::fabs(values[nearest] - a)) nearest = k;
    patterns[i] = static_cast<uint32_t>(nearest);
    const double weighted = f32(f32(a * a) * values[nearest]);
    products[i] = f32(weighted * a);
    squares[i] = f32(weighted * values[nearest]);
  }
  const double all = summed(squares), factor = all > 0.0 ? f32(summed(products) / all) : 1.0;
  put(at, DType::iq4_nl, limited(f32(d * factor)), nullptr, patterns);
}

}  // namespace

void store_blocks(void* at, DType dtype, std::span<const float> x) {
  auto* to = static_cast<std::byte*>(at);
  for (size_t i = 0; i < x.size(); i += elements, to += row_bytes(dtype, 32)) {
    const Block block(&x[i]);
    static_assert(detail::num_block_dtypes == 6);
    switch (dtype) {
      case DType::q8_0: store_q8_0(to, block); break;
      case DType::q4_0: store_signed(to, dtype, block, 16); break;
      case DType::q5_0: store_signed(to, dtype, block, 32); break;
      case DType::q4_1: store_ranged(to, dtype, block, 16); break;
      case DType::q5_1: store_ranged(to, dtype, block, 32); break;
      case DType::iq4_nl: store_iq4_nl(to, block); break;
      default: break;  // no blocks
    }
  }
}

double block_error(DType dtype, double low, double high) {
  const double amax = std::max(std::fabs(low), std::fabs(high)), range = high - low;
  static_assert(detail::num_block_dtypes == 6);
  switch (dtype) {
    case DType::q8_0: return amax / 225.0;
    case DType::q4_0: return amax / 7.9;
    case DType::q5_0: return amax / 15.8;
    case DType::q4_1: return range / 29.5 + std::fabs(low) / 2000.0;
    case DType::q5_1: return range / 60.0 + std::fabs(low) / 2000.0;
    default: return amax / 4.0;
  }
}

}  // namespace folio::reference
