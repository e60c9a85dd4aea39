// SPDX-License-Identifier: Apache-2.0
/// folio/core/dtype.h: the names of element types, and their widths.
///
/// The types themselves and their conversions: folio/core/element.h. `f4_e2m1` and `i4` have a name
/// and a width so that sizes can be computed; no element type exists for them yet and every checked
/// function refuses them.
///
/// The last six are block formats, those of llama.cpp's caches: rows are blocks of 32 elements and
/// the scale that they share, no element has an address of its own. d, and m, are f16; q is the
/// element's pattern; all numbers are little-endian:
///
///     q8_0    34 bytes: d, 32 bytes              q * d           q in [-128, 127]
///     q4_0    18 bytes: d, 16 bytes              (q - 8) * d     q of 4 bits: byte i holds those
///     q4_1    20 bytes: d, m, 16 bytes           q * d + m       of i (low half) and i + 16
///     q5_0    22 bytes: d, 4 bytes, 16 bytes     (q - 16) * d    a fifth bit for each element:
///     q5_1    24 bytes: d, m, 4 bytes, 16 bytes  q * d + m       bit i of the 4 bytes
///     iq4_nl  18 bytes: d, 16 bytes              values[q] * d, a table of 16
///
/// A plane of a cache may have one, its rows being head_size / 32 blocks: CPU attention reads them
/// in place, `append` writes them (attention/append.h states how), copies move and convert them.
/// Whatever else takes a dtype refuses them by name, on other devices all.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::inline v1 {

/// Fixed values: they are part of the C ABI and of stored files.
enum class DType : uint8_t {
  invalid = 0,
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  f8_e4m3 = 4,
  f8_e5m2 = 5,
  f8_e8m0 = 6,
  i8 = 7,
  f4_e2m1 = 8,
  i4 = 9,
  q8_0 = 10,
  q4_0 = 11,
  q4_1 = 12,
  q5_0 = 13,
  q5_1 = 14,
  iq4_nl = 15,
};

/// Bits of one element; 0 for `invalid` and block formats, whose elements have no address. Bits,
/// not bytes: 4-bit types must fit the size arithmetic.
FOLIO_HOST_DEVICE constexpr int bit_width(DType dtype) {
  switch (dtype) {
    case DType::invalid: return 0;
    case DType::f32: return 32;
    case DType::f16:
    case DType::bf16: return 16;
    case DType::f8_e4m3:
    case DType::f8_e5m2:
    case DType::f8_e8m0:
    case DType::i8: return 8;
    case DType::f4_e2m1:
    case DType::i4: return 4;
    case DType::q8_0:
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::iq4_nl: return 0;
  }
  return 0;
}

/// Elements that are stored together: 32 in a block format, 1 in all others.
FOLIO_HOST_DEVICE constexpr int block_elements(DType dtype) {
  return dtype >= DType::q8_0 && dtype <= DType::iq4_nl ? 32 : 1;
}

/// Bytes of a row of `elements`, a multiple of block_elements.
FOLIO_HOST_DEVICE FOLIO_ALWAYS_INLINE constexpr int64_t row_bytes(DType dtype, int64_t elements) {
  switch (dtype) {
    case DType::q8_0: return elements / 32 * 34;
    case DType::q4_0:
    case DType::iq4_nl: return elements / 32 * 18;
    case DType::q4_1: return elements / 32 * 20;
    case DType::q5_0: return elements / 32 * 22;
    case DType::q5_1: return elements / 32 * 24;
    default: return elements * bit_width(dtype) / 8;
  }
}

/// "bf16", "f8_e4m3", ...; "invalid" also for values outside the enumeration.
FOLIO_HOST_DEVICE constexpr const char* name(DType dtype) {
  switch (dtype) {
    case DType::invalid: return "invalid";
    case DType::f32: return "f32";
    case DType::f16: return "f16";
    case DType::bf16: return "bf16";
    case DType::f8_e4m3: return "f8_e4m3";
    case DType::f8_e5m2: return "f8_e5m2";
    case DType::f8_e8m0: return "f8_e8m0";
    case DType::i8: return "i8";
    case DType::f4_e2m1: return "f4_e2m1";
    case DType::i4: return "i4";
    case DType::q8_0: return "q8_0";
    case DType::q4_0: return "q4_0";
    case DType::q4_1: return "q4_1";
    case DType::q5_0: return "q5_0";
    case DType::q5_1: return "q5_1";
    case DType::iq4_nl: return "iq4_nl";
  }
  return "invalid";
}

namespace detail {

/// What the patterns of iq4_nl are multiples of d by.
inline constexpr int8_t iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};

/// Whether the value is one of the enumeration other than invalid.
FOLIO_HOST_DEVICE constexpr bool is_dtype(DType dtype) {
  return dtype >= DType::f32 && dtype <= DType::iq4_nl;
}
FOLIO_HOST_DEVICE constexpr bool is_block(DType dtype) { return block_elements(dtype) > 1; }

/// Whether `dtype` has an element type, i.e. can be loaded and stored today.
FOLIO_HOST_DEVICE constexpr bool is_supported(DType dtype) {
  return dtype >= DType::f32 && dtype <= DType::i8;
}

}  // namespace detail
}  // namespace folio::inline v1
