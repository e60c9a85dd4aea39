// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/byte_rows_entries.h: rows of 8 bits as bf16, behind a function that a baseline test
/// may call.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::test {

/// The bf16 of `n` elements; nothing behind either is touched.
void bf16_row_of_bytes(DType dtype, const void* from, uint16_t* to, int n);

}  // namespace folio::test
