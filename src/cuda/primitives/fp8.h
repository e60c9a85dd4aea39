// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/fp8.h: fp8 to f16 on architectures without the instruction (below sm_89),
/// but for one product. Plain C++, so that the host can hold it to the exact tables.
#pragma once

#include <cstdint>

#include "folio/core/host_device.h"

namespace folio::cuda {

/// Two e4m3 with their bits where f16 has them: numbers that are 2^8 too small, subnormals too.
FOLIO_HOST_DEVICE constexpr uint32_t small_halves_of_e4m3(uint16_t pair) {
  const uint32_t apart = (pair & 0xffu) | (pair & 0xff00u) << 8;
  return (apart & 0x800080u) << 8 | (apart & 0x7f007fu) << 7;
}
inline constexpr uint32_t halves_of_256 = 0x5c005c00u;

/// Those times 2^8, where e4m3 says NaN: the hardware's.
FOLIO_HOST_DEVICE constexpr uint32_t with_nan_of_e4m3(uint32_t halves, uint16_t pair) {
  if ((pair & 0x7fu) == 0x7fu) halves = (halves & 0xffff0000u) | 0x7fffu;
  if ((pair & 0x7f00u) == 0x7f00u) halves = (halves & 0xffffu) | 0x7fff0000u;
  return halves;
}

/// e5m2 is the upper half of f16.
FOLIO_HOST_DEVICE constexpr uint32_t halves_of_e5m2(uint16_t pair) {
  uint32_t halves = (pair & 0xffu) << 8 | (pair & 0xff00u) << 16;
  if ((halves & 0x7f00u) > 0x7c00u) halves = (halves & 0xffff0000u) | 0x7fffu;
  if ((halves & 0x7f000000u) > 0x7c000000u) halves = (halves & 0xffffu) | 0x7fff0000u;
  return halves;
}

}  // namespace folio::cuda
