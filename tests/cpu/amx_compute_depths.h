// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_depths.h: what the pieces of amx_compute_entries.h are made of. Each has
/// its own `Target`, so that all it instantiates is its own.
#pragma once

#include <type_traits>

#include "cpu/amx/grouped/compute.h"
#include "cpu/amx_compute_entries.h"
#include "support/emulated_lanes.h"

namespace folio::test {
template <class Tile, int Depth, int VDepth>
void attend_rows(int rows, const amx::TileJob* jobs, int count, float scale_log2) {
  static thread_local amx::ComputeScratch scratch;
  const amx::TileScope<Tile> scope;
  if (rows == 16) {
    amx::attend_jobs<Tile, Depth, VDepth, 16>(jobs, count, scale_log2, scratch);
  } else {
    amx::attend_jobs<Tile, Depth, VDepth, 32>(jobs, count, scale_log2, scratch);
  }
}

/// Calls attend(std::type_identity<Tile>()) with the tiles of that name.
template <class InstructionSet, class Attend>
void with_vocabulary(Vocabulary vocabulary, Attend attend) {
  if (vocabulary == Vocabulary::hardware) {
    attend(std::type_identity<amx::HardwareTile<InstructionSet>>());
  } else {
    attend(std::type_identity<amx::EmulatedTile<InstructionSet>>());
  }
}

}  // namespace folio::test
