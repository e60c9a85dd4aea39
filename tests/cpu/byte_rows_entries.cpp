// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/byte_rows_entries.cpp: the rows, compiled for AVX512-BF16 and AVX512-VBMI.
#include "cpu/byte_rows_entries.h"

#include "cpu/avx512/target_bf16.h"
#include "cpu/convert/row_factors.h"
#include "cpu/convert/rows.h"
#include "cpu/convert/scaled_rows.h"

namespace folio::test {
namespace {

struct InstructionSet : avx512::Bf16Target<InstructionSet> {};

template <class To>
void convert(const ScaledRow& row, To* to) {
  RowFactors<InstructionSet, 576> factors;
  factors.read(row.view, static_cast<const std::byte*>(row.scales), row.phase, row.n);
  ScaledRows<InstructionSet>::row_to<To>(row.dtype, factors.is_by_element())(
      static_cast<const std::byte*>(row.from), factors.each(), to, row.n);
}

}  // namespace

void bf16_row_of_bytes(DType dtype, const void* from, uint16_t* to, int n) {
  Rows<InstructionSet>::row_to<bf16>(dtype)(static_cast<const std::byte*>(from),
                                            reinterpret_cast<bf16*>(to), n);
}

void bf16_row_of_scaled(const ScaledRow& row, uint16_t* to) {
  convert(row, reinterpret_cast<bf16*>(to));
}
void f32_row_of_scaled(const ScaledRow& row, float* to) { convert(row, to); }

}  // namespace folio::test
