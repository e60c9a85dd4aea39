// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/kv_buffer_instances_test.cpp: the kernels' instances of KVBuffer keep the contract of
/// all instances.
#include "cpu/avx512/row_loader.h"
#include "cpu/features.h"
#include "cpu/kv_buffer_entries.h"
#include "support/kv_buffer_configs.h"
#include "support/kv_buffer_conformance.h"

namespace folio::test {
namespace {

bool has_avx512_bf16() { return machine_has(Capability::avx512_bf16); }

template <int PerWord>
struct Words {
  static constexpr int per_word = PerWord;
};
template <int PerWord, bool Keys, DType D, bool HasScales = false>
using Rows = BufferInstanceApart<avx512::RowConfig<Words<PerWord>, Keys>, D,
                                 avx512_rows<PerWord, Keys, D>, has_avx512_bf16, HasScales>;

using RowTypes =
    ::testing::Types<Rows<1, true, DType::f32>, Rows<1, false, DType::bf16>,
                     Rows<1, true, DType::f16>, Rows<1, false, DType::i8, true>,
                     Rows<2, true, DType::bf16>, Rows<2, false, DType::bf16>,
                     Rows<2, true, DType::f8_e4m3, true>, Rows<2, false, DType::f8_e5m2>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Avx512, KVBufferConformance, RowTypes);

/// The constants of amx::StageConfig, which this program cannot compile.
template <bool Keys, int Depth>
struct TileShape : std::conditional_t<Keys, ThreadKeys<Depth>, ThreadValues<Depth>> {
  static constexpr DType smem_dtype = DType::bf16;
};
template <bool Keys, int Depth, DType D, bool HasScales = false>
using Tiles = BufferInstanceApart<TileShape<Keys, Depth>, D, amx_tiles<Keys, Depth, D>,
                                  has_avx512_bf16, HasScales, false>;

using TileTypes =
    ::testing::Types<Tiles<true, 128, DType::bf16>, Tiles<false, 128, DType::bf16>,
                     Tiles<true, 96, DType::i8, true>, Tiles<false, 64, DType::i8, true>,
                     Tiles<true, 64, DType::f8_e4m3, true>, Tiles<false, 256, DType::f8_e4m3, true>,
                     Tiles<true, 128, DType::f8_e5m2>, Tiles<false, 96, DType::f8_e5m2>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Amx, KVBufferConformance, TileTypes);

}  // namespace
}  // namespace folio::test
