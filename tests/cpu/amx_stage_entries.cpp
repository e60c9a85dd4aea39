// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_stage_entries.cpp: the AMX staging, compiled for AVX512-BF16.
#include "cpu/amx_stage_entries.h"

#include "cpu/amx/stage.h"

namespace folio::test {
namespace {

struct Target {};

}  // namespace

bool stage_tile(Operand operand, const PagedKVView& view, const KeyTile& tile, int head, int depth, std::byte* to) {
  using Stage = amx::PlaneStage<Target>;
  const amx::StageTile<Target> stage_tile =
      operand == Operand::key ? Stage::key_stage(view.dtype) : Stage::value_stage(view.dtype);
  if (stage_tile == nullptr) return false;
  const Stage stage(view, view.head_size, depth, stage_tile);
  amx::RowAddresses rows;
  stage.find_rows(tile, head, rows);
  amx::Pacer<Target> pacer;
  stage.stage(rows, to, pacer, 0);
  return true;
}

void gather_scales(const PagedKVView& view, const KeyTile& tile, int head, float* to) {
  amx::PlaneStage<Target>(view, view.head_size, 64, nullptr).gather_scales(tile, head, to);
}

int column_of_dim(int d) { return amx::value_column(d); }

}  // namespace folio::test
