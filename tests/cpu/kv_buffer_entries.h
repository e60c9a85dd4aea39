// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/kv_buffer_entries.h: the kernels' instances of KVBuffer, compiled for their
/// instruction sets.
#pragma once

#include "support/kv_buffer_entries.h"

namespace folio::test {

/// cpu/avx512/row_loader.h: rows of `D` as 4-byte words of `PerWord` elements, of K or V.
/// AVX512-BF16.
template <int PerWord, bool Keys, DType D>
BufferEntries avx512_rows();

/// cpu/amx/grouped/stage.h: K or V of `D` as tiles of bf16, scales apart. AVX512-BF16; tiles are
/// only written, so AMX is not needed.
template <bool Keys, int Depth, DType D>
BufferEntries amx_tiles();

}  // namespace folio::test
