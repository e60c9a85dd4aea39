// SPDX-License-Identifier: Apache-2.0
/// reference/elements.cpp: the element types by their definitions.
#include "reference/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace folio::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A binary floating format. Value of (exponent field e, mantissa field m): m * 2^(min_exponent -
/// precision + 1) for e = 0, (2^(precision-1) + m) * 2^(min_exponent + e - precision) for others.
struct Format {
  int precision;     // significant bits, the hidden one included
  int min_exponent;  // of the smallest normal value 2^min_exponent
  double largest;
  // the largest exponent field holds infinity and NaN; otherwise only its last code is NaN
  bool has_infinity;
  bool saturates;
};

Format format_of(DType dtype) {
  static_assert(detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::f32: return {24, -126, std::ldexp(16777215.0, 104), true, false};
    case DType::f16: return {11, -14, 65504.0, true, false};
    case DType::bf16: return {8, -126, std::ldexp(255.0, 120), true, false};
    case DType::f8_e4m3: return {4, -6, 448.0, false, true};
    default: return {3, -14, 57344.0, true, true};  // f8_e5m2
  }
}

bool is_float_format(DType dtype) { return dtype != DType::i8 && dtype != DType::f8_e8m0; }

enum class Direction { nearest_even, up };

double to_integer(double x, Direction direction) {
  return direction == Direction::up ? std::ceil(x) : std::nearbyint(x);
}

/// The multiple of the format's spacing at x that x rounds to.
double round_float(const Format& f, double x, Direction direction) {
  if (std::isnan(x) || x == 0.0) return x;
  if (std::isinf(x)) return f.saturates ? std::copysign(f.largest, x) : x;
  int exponent = 0;  // |x| in [2^(exponent-1), 2^exponent)
  std::frexp(x, &exponent);
  const int spacing = std::max(exponent - 1, f.min_exponent) - f.precision + 1;
  const double rounded = std::ldexp(to_integer(std::ldexp(x, -spacing), direction), spacing);
  if (std::fabs(rounded) <= f.largest) return rounded;
  if (direction == Direction::up && x < 0.0) return -f.largest;
  return std::copysign(f.saturates ? f.largest : infinity, x);
}

double round_e8m0(double x, Direction direction) {
  if (!(x >= 0.0)) return not_a_number;
  if (x <= std::ldexp(1.0, -127)) return std::ldexp(1.0, -127);
  if (x >= std::ldexp(1.0, 127)) return std::ldexp(1.0, 127);
  int exponent = 0;
  // [0.5, 1): x lies between 2^(exponent-1) and 2^exponent
  const double fraction = std::frexp(x, &exponent);
  const bool exact = fraction == 0.5;
  const bool up = direction == Direction::up ? !exact : fraction >= 0.75;
  return std::ldexp(1.0, exponent - 1 + (up ? 1 : 0));
}

double round_i8(double x, Direction direction) {
  if (std::isnan(x)) return 0.0;
  return std::fmax(-127.0, std::fmin(127.0, to_integer(x, direction)));
}

double round(DType dtype, double x, Direction direction) {
  if (dtype == DType::i8) return round_i8(x, direction);
  if (dtype == DType::f8_e8m0) return round_e8m0(x, direction);
  return round_float(format_of(dtype), x, direction);
}

/// The pattern of a value that the type has.
uint32_t pattern_of(DType dtype, double value) {
  if (dtype == DType::i8) return static_cast<uint32_t>(static_cast<int>(value)) & 0xffu;
  if (dtype == DType::f8_e8m0)
    return std::isnan(value) ? 255u : static_cast<uint32_t>(std::ilogb(value) + 127);
  const Format f = format_of(dtype);
  const uint32_t sign = std::signbit(value) ? 1u << (bit_width(dtype) - 1) : 0u;
  const uint32_t exponent_fields = 1u << (bit_width(dtype) - f.precision);
  const uint32_t infinity_code = (exponent_fields - 1u) << (f.precision - 1);
  if (std::isnan(value))
    return sign | (f.has_infinity ? infinity_code | (1u << (f.precision - 2))
                                  : (1u << (bit_width(dtype) - 1)) - 1u);
  if (std::isinf(value)) return sign | infinity_code;
  if (value == 0.0) return sign;
  const int exponent = std::max(std::ilogb(value), f.min_exponent);
  // hidden bit included
  const auto units =
      static_cast<uint32_t>(std::ldexp(std::fabs(value), f.precision - 1 - exponent));
  return sign | (units + (static_cast<uint32_t>(exponent - f.min_exponent) << (f.precision - 1)));
}

bool is_unsigned4(DType dtype) { return dtype == DType::u4 || dtype == DType::u4_halves; }
bool is_signed4(DType dtype) { return dtype == DType::i4 || dtype == DType::i4_halves; }

/// Two bits of exponent with a bias of 1, one of mantissa, without a sign; OCP Microscaling
/// Formats.
double decode_e2m1(uint32_t code) {
  const double mantissa = code % 2u * 0.5;
  const uint32_t exponent = code / 2u;
  return exponent == 0 ? mantissa : std::ldexp(1.0 + mantissa, static_cast<int>(exponent) - 1);
}

/// The pattern nearest to x; ties to the even one. u4 stands for -7 to 7.
uint32_t encode_packed(DType dtype, double x) {
  if (std::isnan(x)) return is_unsigned4(dtype) ? 8u : 0u;
  if (dtype == DType::f4_e2m1) {
    const double size = std::min(std::fabs(x), 6.0);
    uint32_t nearest = 0;
    for (uint32_t code = 1; code < 8u; ++code) {
      const double gain =
          std::fabs(decode_e2m1(nearest) - size) - std::fabs(decode_e2m1(code) - size);
      if (gain > 0.0 || (gain == 0.0 && code % 2u == 0)) nearest = code;
    }
    return nearest + (std::signbit(x) ? 8u : 0u);
  }
  const double lowest = is_unsigned4(dtype) ? -7.0 : -8.0;
  const int q = static_cast<int>(std::clamp(std::nearbyint(x), lowest, 7.0));
  return static_cast<uint32_t>(is_unsigned4(dtype) ? q + 8 : q) & 15u;
}

/// The pattern of element `index` of a row: which byte, and whether it is the high half.
struct HalfByte {
  int64_t byte;
  bool is_high;
};
HalfByte place_of(DType dtype, int64_t index) {
  if (block_elements(dtype) == 2) return {index / 2, index % 2 != 0};
  return {index / 32 * 16 + index % 16, index % 32 >= 16};
}

double decode_float(const Format& f, int width, uint32_t code) {
  const double sign = code >> (width - 1) & 1u ? -1.0 : 1.0;
  const uint32_t magnitude = code & ((1u << (width - 1)) - 1u);
  const auto field = static_cast<int>(magnitude >> (f.precision - 1));
  const uint32_t mantissa = magnitude & ((1u << (f.precision - 1)) - 1u);
  const int last_field = (1 << (width - f.precision)) - 1;
  if (f.has_infinity && field == last_field) return mantissa == 0 ? sign * infinity : not_a_number;
  if (!f.has_infinity && magnitude == (1u << (width - 1)) - 1u) return not_a_number;
  if (field == 0)
    return sign * std::ldexp(static_cast<double>(mantissa), f.min_exponent - f.precision + 1);
  return sign * std::ldexp(std::ldexp(1.0, f.precision - 1) + static_cast<double>(mantissa),
                           f.min_exponent + field - f.precision);
}

/// All values of a type of at most 16 bits, so that rows decode fast.
std::vector<double> all_values(DType dtype) {
  std::vector<double> values(size_t{1} << bit_width(dtype));
  for (uint32_t code = 0; code < values.size(); ++code) values[code] = decode(dtype, code);
  return values;
}

const double* values_of(DType dtype) {
  static const std::vector<double> f16_values = all_values(DType::f16),
                                   bf16_values = all_values(DType::bf16),
                                   e4m3_values = all_values(DType::f8_e4m3),
                                   e5m2_values = all_values(DType::f8_e5m2),
                                   e8m0_values = all_values(DType::f8_e8m0),
                                   i8_values = all_values(DType::i8);
  static_assert(detail::num_plane_dtypes == 6);
  switch (dtype) {
    case DType::f16: return f16_values.data();
    case DType::bf16: return bf16_values.data();
    case DType::f8_e4m3: return e4m3_values.data();
    case DType::f8_e5m2: return e5m2_values.data();
    case DType::f8_e8m0: return e8m0_values.data();
    default: return i8_values.data();
  }
}

uint32_t load_pattern(const void* at, DType dtype) {
  uint32_t code = 0;  // little-endian: the low bytes
  std::memcpy(&code, at, static_cast<size_t>(bit_width(dtype) / 8));
  return code;
}

}  // namespace

double decode(DType dtype, uint32_t code) {
  if (dtype == DType::i8) return code < 128u ? code : static_cast<double>(code) - 256.0;
  if (dtype == DType::f8_e8m0)
    return code == 255u ? not_a_number : std::ldexp(1.0, static_cast<int>(code) - 127);
  if (is_unsigned4(dtype)) return code;
  if (is_signed4(dtype)) return code < 8u ? code : static_cast<double>(code) - 16.0;
  if (dtype == DType::f4_e2m1) return (code < 8u ? 1.0 : -1.0) * decode_e2m1(code % 8u);
  return decode_float(format_of(dtype), bit_width(dtype), code);
}

uint32_t encode(DType dtype, double x) {
  if (detail::is_packed(dtype)) return encode_packed(dtype, x);
  return pattern_of(dtype, round(dtype, x, Direction::nearest_even));
}

uint32_t encode_up(DType dtype, double x) {
  return pattern_of(dtype, round(dtype, x, Direction::up));
}

void store_packed(void* row, DType dtype, int64_t index, uint32_t code) {
  const auto [byte, is_high] = place_of(dtype, index);
  uint8_t& at = static_cast<uint8_t*>(row)[byte];
  at = static_cast<uint8_t>(is_high ? (at & 0x0fu) | code << 4 : (at & 0xf0u) | code);
}

double round_to(DType dtype, double x) {
  if (detail::is_packed(dtype)) return decode(dtype, encode_packed(dtype, x));
  return round(dtype, x, Direction::nearest_even);
}

double unit_roundoff(DType dtype) {
  return is_float_format(dtype) ? std::ldexp(1.0, -format_of(dtype).precision) : 0.5;
}

/// By the pattern of 4 bits; written out apart from the library's.
constexpr std::array<int, 16> values_of_iq4_nl = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};

void load_block(const void* at, DType dtype, double* out) {
  std::array<uint8_t, 34> bytes = {};
  std::memcpy(bytes.data(), at, static_cast<size_t>(row_bytes(dtype, 32)));
  const double d = load(bytes.data(), DType::f16);
  static_assert(detail::num_block_dtypes == 6);
  const bool has_minimum = dtype == DType::q4_1 || dtype == DType::q5_1;
  const bool has_fifth_bits = dtype == DType::q5_0 || dtype == DType::q5_1;
  const double minimum = has_minimum ? load(bytes.data() + 2, DType::f16) : 0.0;
  const uint8_t* const fifth_bits = bytes.data() + (has_minimum ? 4 : 2);
  const uint8_t* const patterns = fifth_bits + (has_fifth_bits ? 4 : 0);
  for (size_t i = 0; i < 32; ++i) {
    const uint32_t pair = patterns[i % 16];
    int q = static_cast<int>(i < 16 ? pair % 16 : pair / 16);
    if (has_fifth_bits && (fifth_bits[i / 8] >> i % 8 & 1) != 0) q += 16;
    switch (dtype) {
      case DType::q8_0: q = static_cast<int>(decode(DType::i8, patterns[i])); break;
      case DType::q4_0: q -= 8; break;
      case DType::q5_0: q -= 16; break;
      case DType::iq4_nl: q = values_of_iq4_nl[static_cast<size_t>(q)]; break;
      default: break;
    }
    out[i] = has_minimum ? q * d + minimum : q * d;  // which may be -0
  }
}

double load(const void* at, DType dtype) {
  const uint32_t code = load_pattern(at, dtype);
  return dtype == DType::f32 ? static_cast<double>(std::bit_cast<float>(code))
                             : values_of(dtype)[code];
}

void store(void* at, DType dtype, double x) {
  const uint32_t code = encode(dtype, x);
  std::memcpy(at, &code, static_cast<size_t>(bit_width(dtype) / 8));
}

void load_row(const void* at, DType dtype, int64_t count, double* out) {
  const auto* bytes = static_cast<const unsigned char*>(at);
  if (detail::is_block(dtype)) {
    std::array<double, 32> block = {};
    for (int64_t i = 0; i < count; i += 32) {
      load_block(bytes + row_bytes(dtype, i), dtype, block.data());
      std::copy_n(block.data(), std::min<int64_t>(32, count - i), out + i);
    }
    return;
  }
  if (detail::is_packed(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      const auto [byte, is_high] = place_of(dtype, i);
      out[i] = decode(dtype, is_high ? bytes[byte] / 16u : bytes[byte] % 16u);
    }
    return;
  }
  const int64_t size = bit_width(dtype) / 8;
  const double* values = dtype == DType::f32 ? nullptr : values_of(dtype);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t code = load_pattern(bytes + i * size, dtype);
    out[i] = values == nullptr ? static_cast<double>(std::bit_cast<float>(code)) : values[code];
  }
}

}  // namespace folio::reference
