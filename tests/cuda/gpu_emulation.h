// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/gpu_emulation.h: a case of the GPU's grid, done by the emulator.
#pragma once

#include <span>

#include "cuda/gpu_cases.h"
#include "folio/testing/tma_copy.h"

namespace folio::test {

inline Result<int64_t> emulate(const GpuCase& c, const ListedCopy& copy,
                               const emulator::GlobalMemory& global,
                               emulator::SharedMemory& shared) {
  const tma::Coordinates<5>& at = copy.at;
  if (c.map.use == tma::Use::gather4)
    return emulator::tma_gather4(c.map, global, shared, copy.shared, at[0],
                                 {at[1], at[2], at[3], at[4]});
  const std::span<const int32_t> coordinates(at.at, static_cast<size_t>(c.map.rank));
  if (c.is_store) return emulator::tma_store(c.map, global, shared, copy.shared, coordinates);
  return emulator::tma_load(c.map, global, shared, copy.shared, coordinates);
}

/// Runs the case's copies between `global` and `shared`. The status names the access that is not
/// allowed.
inline Status emulate(const GpuCase& c, const emulator::GlobalMemory& global,
                      emulator::SharedMemory& shared) {
  int64_t bytes = 0;
  for (const ListedCopy& copy : c.copies) {
    const Result<int64_t> done = emulate(c, copy, global, shared);
    if (!done) return done.error();
    bytes += *done;
  }
  if (bytes != c.layout.bytes())
    return fail(Errc::internal, "{} bytes copied, the tile has {}", bytes, c.layout.bytes());
  return {};
}

}  // namespace folio::test
