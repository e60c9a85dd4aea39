// SPDX-License-Identifier: Apache-2.0
/// folio/core/dtype.h: the names of element types, and their widths.
///
/// The types themselves and their conversions: folio/core/element.h. `f4_e2m1` and `i4` have a name
/// and a width so that sizes can be computed; no element type exists for them yet and every checked
/// function refuses them.
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
};

/// Bits of one element; 0 for `invalid`. Bits, not bytes: 4-bit types must fit the size arithmetic.
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
  }
  return 0;
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
  }
  return "invalid";
}

namespace detail {

/// Whether `dtype` has an element type, i.e. can be loaded and stored today.
FOLIO_HOST_DEVICE constexpr bool is_supported(DType dtype) {
  return dtype >= DType::f32 && dtype <= DType::i8;
}

}  // namespace detail
}  // namespace folio::inline v1
