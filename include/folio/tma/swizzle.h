// SPDX-License-Identifier: Apache-2.0
/// folio/tma/swizzle.h: how TMA permutes 16-byte units of shared memory, and the widths that follow
/// from it.
///
/// A swizzle XORs address bits 4.. with bits 7..: rows of 128 bytes then put the same column into
/// different banks. It acts on the absolute shared-memory address, so a box of one row placed into
/// a larger tile lands where a box of the whole tile would put it.
///
/// | mode  | address                     | span (bytes) | repeats after (bytes) |
/// | ----- | --------------------------- | ------------ | --------------------- |
/// | none  | a                           | 16           | 16                    |
/// | b32   | a ^ ((a >> 7 & 1) << 4)     | 32           | 256                   |
/// | b64   | a ^ ((a >> 7 & 3) << 4)     | 64           | 512                   |
/// | b128  | a ^ ((a >> 7 & 7) << 4)     | 128          | 1024                  |
///
/// Sources: PTX ISA, "Swizzling modes"; cuTensorMapEncodeTiled.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::inline v1::tma {

/// The values are the driver's CUtensorMapSwizzle.
enum class Swizzle : uint8_t {
  none = 0,
  b32 = 1,
  b64 = 2,
  b128 = 3,
};

FOLIO_HOST_DEVICE constexpr const char* name(Swizzle mode) {
  switch (mode) {
    case Swizzle::none: return "none";
    case Swizzle::b32: return "b32";
    case Swizzle::b64: return "b64";
    case Swizzle::b128: return "b128";
  }
  return "invalid";
}

/// i ^ ((i & mask) >> shift) with a mask of `bits` bits: the general XOR swizzle, on any unit of
/// address. Requires |shift| >= bits; a negative shift moves bits up. Its own inverse for shift !=
/// 0.
struct XorSwizzle {
  int32_t bits = 0;
  int32_t base = 0;   ///< position of the lowest bit that changes
  int32_t shift = 0;  ///< how far above it the bits stand that change it

  FOLIO_HOST_DEVICE constexpr int64_t operator()(int64_t i) const {
    const int64_t ones = (int64_t{1} << bits) - 1;
    const int64_t mask = ones << (base + (shift > 0 ? shift : 0));
    return i ^ (shift >= 0 ? (i & mask) >> shift : (i & mask) << -shift);
  }
  /// The pattern repeats after this many units.
  FOLIO_HOST_DEVICE constexpr int64_t period() const {
    return int64_t{1} << (bits + base + (shift > 0 ? shift : -shift));
  }
  bool operator==(const XorSwizzle&) const = default;
};

/// Widest inner box of a mode, in bytes; `none` has no limit and counts as one 16-byte unit.
FOLIO_HOST_DEVICE constexpr int32_t swizzle_bytes(Swizzle mode) {
  // values outside the enumeration are refused by TensorMap::fault, not here
  return 16 << (static_cast<int32_t>(mode) & 3);
}
/// Bytes after which the pattern repeats: where a tile must begin for its offsets to be addresses.
FOLIO_HOST_DEVICE constexpr int32_t swizzle_period_bytes(Swizzle mode) {
  return mode == Swizzle::none ? 16 : 8 * swizzle_bytes(mode);
}

/// The mode on elements of `element_bytes` (1 for byte addresses).
FOLIO_HOST_DEVICE constexpr XorSwizzle xor_swizzle(Swizzle mode, int32_t element_bytes = 1) {
  int32_t base = 4;
  for (int32_t bytes = element_bytes; bytes > 1; bytes /= 2) --base;
  return {static_cast<int32_t>(mode), base, 3};
}

/// Where byte `address` of shared memory, counted without a swizzle, lies with it.
FOLIO_HOST_DEVICE constexpr int64_t swizzle(Swizzle mode, int64_t address) {
  const int64_t mask = (int64_t{1} << static_cast<int32_t>(mode)) - 1;
  return address ^ ((address >> 7 & mask) << 4);
}

/// Elements of one chunk: the widest inner box of a mode.
FOLIO_HOST_DEVICE constexpr int32_t swizzle_granularity(DType dtype, Swizzle mode) {
  return bit_width(dtype) == 0 ? 0 : swizzle_bytes(mode) * 8 / bit_width(dtype);
}
/// `depth` rounded up to whole chunks: the columns of its tile in shared memory.
FOLIO_HOST_DEVICE constexpr int32_t padded_depth(DType dtype, Swizzle mode, int32_t depth) {
  const int32_t chunk = swizzle_granularity(dtype, mode);
  return chunk == 0 ? 0 : static_cast<int32_t>((int64_t{depth} + chunk - 1) / chunk * chunk);
}

}  // namespace folio::inline v1::tma

namespace folio::inline v1 {

/// The seeds' name.
using TensorMapSwizzle = tma::Swizzle;

}  // namespace folio::inline v1
