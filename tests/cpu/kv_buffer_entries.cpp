// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/kv_buffer_entries.cpp: the kernels' instances of KVBuffer, compiled for AVX512-BF16.
#include "cpu/kv_buffer_entries.h"

#include "cpu/amx/grouped/stage.h"
#include "cpu/avx512/row_loader.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::test {
namespace {

template <int PerWord>
struct Words : Avx512Lanes {
  static constexpr int per_word = PerWord;
};

struct InstructionSet : Avx512Lanes {};

}  // namespace

template <int PerWord, bool Keys, DType D>
BufferEntries avx512_rows() {
  return EntriesOf<KVBuffer<ViewMHAOperand<D>, avx512::RowConfig<Words<PerWord>, Keys>>>::entries();
}

template <bool Keys, int Depth, DType D>
BufferEntries amx_tiles() {
  return EntriesOf<
      KVBuffer<ViewMHAOperand<D>, amx::StageConfig<InstructionSet, Keys, Depth>>>::entries();
}

template BufferEntries avx512_rows<1, true, DType::f32>();
template BufferEntries avx512_rows<1, false, DType::bf16>();
template BufferEntries avx512_rows<1, true, DType::f16>();
template BufferEntries avx512_rows<1, false, DType::i8>();
template BufferEntries avx512_rows<2, true, DType::bf16>();
template BufferEntries avx512_rows<2, false, DType::bf16>();
template BufferEntries avx512_rows<2, true, DType::f8_e4m3>();
template BufferEntries avx512_rows<2, false, DType::f8_e5m2>();
template BufferEntries amx_tiles<true, 128, DType::bf16>();
template BufferEntries amx_tiles<false, 128, DType::bf16>();
template BufferEntries amx_tiles<true, 96, DType::i8>();
template BufferEntries amx_tiles<false, 64, DType::i8>();
template BufferEntries amx_tiles<true, 64, DType::f8_e4m3>();
template BufferEntries amx_tiles<false, 256, DType::f8_e4m3>();
template BufferEntries amx_tiles<true, 128, DType::f8_e5m2>();
template BufferEntries amx_tiles<false, 96, DType::f8_e5m2>();

}  // namespace folio::test
