// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_wide.cpp: the AMX compute of grouped heads for depths above 128, compiled
/// for AVX512-BF16, on both tile vocabularies.
#include "cpu/amx_compute_depths.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {};

}  // namespace

void attend_wide(Vocabulary vocabulary, Depths depths, int rows, const amx::TileJob* jobs,
                 int count, float scale_log2) {
  with_vocabulary<InstructionSet>(vocabulary, [&]<class Tile>(std::type_identity<Tile>) {
    switch (depths.depth) {
      case 192: return attend_rows<Tile, 192, 128>(rows, jobs, count, scale_log2);
      default: return attend_rows<Tile, 256, 256>(rows, jobs, count, scale_log2);
    }
  });
}

}  // namespace folio::test
