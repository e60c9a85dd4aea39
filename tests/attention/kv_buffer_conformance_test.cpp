// SPDX-License-Identifier: Apache-2.0
/// tests/attention/kv_buffer_conformance_test.cpp: the plain instances of KVBuffer of one thread:
/// rows, the page itself, MMA tiles.
#include "support/kv_buffer_conformance.h"

#include "support/kv_buffer_configs.h"

namespace folio::test {
namespace {

// One thread.
struct Keys : ThreadKeys<128> {};
struct Values : ThreadValues<64> {};
using Threads =
    ::testing::Types<BufferInstance<Keys, DType::f32>, BufferInstance<Values, DType::i8>>;
INSTANTIATE_TYPED_TEST_SUITE_P(OneThread, KVBufferConformance, Threads);

// Staging is the page itself; other types are converted beside it.
template <class Base, DType Staged>
struct InPlace : Base {
  static constexpr int bk_smem = Base::depth, num_smem_stages = 3;
  static constexpr DType smem_dtype = Staged;
  template <class Shape>
  using Loader = InPlaceLoader<Shape>;
};
struct StreamedInPlace : ThreadKeys<128> {
  static constexpr bool full_kv = false;
  template <class Shape>
  using Loader = InPlaceLoader<Shape>;
};
struct LatentRope : ThreadKeys<64> {
  static constexpr int cache_depth = 576, head_dim_offset = 512;
};
using InPlaceTypes =
    ::testing::Types<BufferInstance<InPlace<Keys, DType::bf16>, DType::bf16>,
                     BufferInstance<InPlace<Values, DType::f32>, DType::f32>,
                     BufferInstance<InPlace<Keys, DType::bf16>, DType::i8, true>,
                     BufferInstance<InPlace<Values, DType::f32>, DType::f8_e4m3, true>,
                     BufferInstance<InPlace<LatentRope, DType::bf16>, DType::bf16>,
                     BufferInstance<StreamedInPlace, DType::f16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(InPlace, KVBufferConformance, InPlaceTypes);

// Staging is packed tiles.
template <class Base, DType Staged>
struct Tiled : Base {
  static constexpr DType smem_dtype = Staged;
  template <class Shape>
  using Loader = TileLoader<Shape>;
  template <class Shape>
  using Fragments = StagedTiles<Shape>;
};
struct StreamedTiles : Tiled<ThreadKeys<256>, DType::bf16> {
  static constexpr bool full_kv = false;
};
using TiledTypes =
    ::testing::Types<BufferInstance<Tiled<Keys, DType::bf16>, DType::bf16>,
                     BufferInstance<Tiled<Values, DType::bf16>, DType::bf16>,
                     BufferInstance<Tiled<Keys, DType::bf16>, DType::i8, true>,
                     BufferInstance<Tiled<Values, DType::bf16>, DType::f8_e5m2, true>,
                     BufferInstance<Tiled<LatentRope, DType::bf16>, DType::f32>,
                     BufferInstance<StreamedTiles, DType::f8_e4m3>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Tiles, KVBufferConformance, TiledTypes);

}  // namespace
}  // namespace folio::test
