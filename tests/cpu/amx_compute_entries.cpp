// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_entries.cpp: the AMX compute of grouped heads, compiled for AVX512-BF16,
/// on both tile vocabularies.
#include "cpu/amx_compute_entries.h"

#include "cpu/amx/grouped/compute.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct Target : EmulatedLanes<Target> {};

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

template <class Tile>
void attend_depths(Depths depths, int rows, const amx::TileJob* jobs, int count, float scale_log2) {
  switch (depths.depth) {
    case 64: return attend_rows<Tile, 64, 64>(rows, jobs, count, scale_log2);
    case 96: return attend_rows<Tile, 96, 96>(rows, jobs, count, scale_log2);
    case 128: return attend_rows<Tile, 128, 128>(rows, jobs, count, scale_log2);
    case 192: return attend_rows<Tile, 192, 128>(rows, jobs, count, scale_log2);
    default: return attend_rows<Tile, 256, 256>(rows, jobs, count, scale_log2);
  }
}

}  // namespace

void attend_jobs(Vocabulary vocabulary, Depths depths, int rows, const amx::TileJob* jobs,
                 int count, float scale_log2) {
  if (vocabulary == Vocabulary::hardware) {
    attend_depths<amx::HardwareTile<Target>>(depths, rows, jobs, count, scale_log2);
  } else {
    attend_depths<amx::EmulatedTile<Target>>(depths, rows, jobs, count, scale_log2);
  }
}

}  // namespace folio::test
