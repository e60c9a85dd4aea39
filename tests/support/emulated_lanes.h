// SPDX-License-Identifier: Apache-2.0
/// tests/support/emulated_lanes.h: AVX-512 lanes with emulated tiles, which end the test on what a
/// processor would refuse.
#pragma once

#include <cstdio>
#include <cstdlib>

#include "cpu/amx/tile/emulated.h"
#include "cpu/convert/byte_rows.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::test {

/// The base of an object's own type, `Target`.
template <class InstructionSet>
struct EmulatedLanes : Avx512Lanes, ByteRows<InstructionSet> {
  [[noreturn]] static void fault(const char* what) {
    std::fprintf(stderr, "emulated tiles: %s\n", what);
    std::abort();
  }
  using Tile = amx::EmulatedTile<InstructionSet>;
};

}  // namespace folio::test
