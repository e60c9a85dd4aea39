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
  const amx::StageQuad quad = operand == Operand::key ? Stage::key_quad(view.dtype) : Stage::value_quad(view.dtype);
  if (quad == nullptr) return false;
  const Stage stage(view, view.head_size, depth, quad);
  amx::RowAddresses rows;
  stage.find_rows(tile, head, rows);
  for (int q = 0; q < amx::quads; ++q) stage.stage(rows, q, to);
  return true;
}

void gather_scales(const PagedKVView& view, const KeyTile& tile, int head, float* to) {
  amx::PlaneStage<Target>(view, view.head_size, 64, nullptr).gather_scales(tile, head, to);
}

int column_of_dim(int d) { return amx::value_column(d); }

}  // namespace folio::test
