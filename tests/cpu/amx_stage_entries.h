// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_stage_entries.h: the AMX staging, compiled for AVX512-BF16, for a test that is
/// not.
#pragma once

#include <cstddef>

#include "folio/attention/kv_buffer/page_cursor.h"

namespace folio::test {

enum class Operand { key, value };

/// Stages one head of a tile into 128 * depth bytes at `to`, 64-byte aligned. False: no such
/// depth.
bool stage_tile(Operand operand, const PagedKVView& view, const KeyTile& tile, int head, int depth,
                std::byte* to);
void gather_scales(const PagedKVView& view, const KeyTile& tile, int head, float* to);
int column_of_dim(int d);

}  // namespace folio::test
