// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/byte_rows_entries.h: rows as they are staged for AVX512-BF16, behind functions that a
/// baseline test may call.
#pragma once

#include <cstdint>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"

namespace folio::test {

/// The bf16 of `n` elements; nothing behind either is touched.
void bf16_row_of_bytes(DType dtype, const void* from, uint16_t* to, int n);

/// The same of any type, times its scales from `scales` on, of which column 0 is number `phase` of
/// the first granule; as floats, too.
struct ScaledRow {
  DType dtype;
  const void* from;
  ScaleView view;  ///< data is not read
  const void* scales;
  int phase;
  int n;
};
void bf16_row_of_scaled(const ScaledRow& row, uint16_t* to);
void f32_row_of_scaled(const ScaledRow& row, float* to);

}  // namespace folio::test
