// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/byte_rows_entries.cpp: the rows, compiled for AVX512-BF16 and AVX512-VBMI.
#include "cpu/byte_rows_entries.h"

#include "cpu/avx512/target_bf16.h"
#include "cpu/convert/rows.h"

namespace folio::test {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {};

}  // namespace

void bf16_row_of_bytes(DType dtype, const void* from, uint16_t* to, int n) {
  Rows<InstructionSet>::row_to<bf16>(dtype)(static_cast<const std::byte*>(from),
                                            reinterpret_cast<bf16*>(to), n);
}

}  // namespace folio::test
