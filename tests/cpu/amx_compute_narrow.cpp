// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_compute_narrow.cpp: the AMX compute of grouped heads for depths of up to 128,
/// compiled for AVX512-BF16, on both tile vocabularies.
#include "cpu/amx_compute_depths.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {};

}  // namespace

void attend_narrow(Vocabulary vocabulary, Depths depths, int rows, const amx::TileJob* jobs,
                   int count, float scale_log2) {
  with_vocabulary<InstructionSet>(vocabulary, [&]<class Tile>(std::type_identity<Tile>) {
    switch (depths.depth) {
      case 64: return attend_rows<Tile, 64, 64>(rows, jobs, count, scale_log2);
      case 96: return attend_rows<Tile, 96, 96>(rows, jobs, count, scale_log2);
      default: return attend_rows<Tile, 128, 128>(rows, jobs, count, scale_log2);
    }
  });
}

}  // namespace folio::test
