// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/kv_buffer_entries.h: the kernels' instances of KVBuffer, compiled for their instruction sets.
#pragma once

#include "support/kv_buffer_entries.h"

namespace folio::test {

/// cpu/avx512/row_loader.h: rows of `D` as 4-byte words of `PerWord` elements, of K or V. AVX512-BF16.
template <int PerWord, bool Keys, DType D>
BufferEntries avx512_rows();

}  // namespace folio::test
