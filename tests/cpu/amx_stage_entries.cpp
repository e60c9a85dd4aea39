// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_stage_entries.cpp: the AMX staging, compiled for AVX512-BF16.
#include "cpu/amx_stage_entries.h"

#include "cpu/amx/grouped/stage.h"
#include "cpu/convert/row_scales.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : Avx512Lanes {};

template <int Depth>
void stage_depth(Operand operand, const PagedKVView& view, const KeyTile& tile, int head,
                 std::byte* to) {
  amx::Pacer<InstructionSet> pacer;
  if (operand == Operand::key) {
    amx::StagedPlane<InstructionSet, true, Depth>(view, view.head_size, to)
        .load(tile, head, 0, pacer, 0);
  } else {
    amx::StagedPlane<InstructionSet, false, Depth>(view, view.head_size, to)
        .load(tile, head, 0, pacer, 0);
  }
}

}  // namespace

bool stage_tile(Operand operand, const PagedKVView& view, const KeyTile& tile, int head, int depth,
                std::byte* to) {
  switch (depth) {
    case 64: return stage_depth<64>(operand, view, tile, head, to), true;
    case 96: return stage_depth<96>(operand, view, tile, head, to), true;
    case 128: return stage_depth<128>(operand, view, tile, head, to), true;
    case 192: return stage_depth<192>(operand, view, tile, head, to), true;
    case 256: return stage_depth<256>(operand, view, tile, head, to), true;
    case 512: return stage_depth<512>(operand, view, tile, head, to), true;
    default: return false;
  }
}

void gather_scales(const PagedKVView& view, const KeyTile& tile, int head, float* to) {
  RowScales<InstructionSet>::gather(view, tile, head, to);
}

int column_of_dim(int d) { return amx::value_column(d); }

}  // namespace folio::test
