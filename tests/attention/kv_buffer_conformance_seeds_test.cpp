// SPDX-License-Identifier: Apache-2.0
/// tests/attention/kv_buffer_conformance_seeds_test.cpp: the instances of KVBuffer in the seed's
/// layout.
#include "support/kv_buffer_conformance.h"

#include "support/kv_buffer_configs.h"

namespace folio::test {
namespace {

// The seed's layout, many warps, swizzled and not, full and streamed.
using Seeds = ::testing::Types<
    BufferInstance<SeedBf16Depth128, DType::bf16>, BufferInstance<SeedBf16Depth64, DType::f16>,
    BufferInstance<SeedFp8Depth128, DType::f8_e4m3>,
    BufferInstance<SeedFp8LatentUneven, DType::f8_e5m2>,
    BufferInstance<SeedBf16Depth256, DType::bf16>, BufferInstance<SeedValues, DType::bf16>,
    BufferInstance<SeedNarrowValues, DType::bf16>, BufferInstance<SeedStreamedKeys, DType::bf16>,
    BufferInstance<SeedStreamedValues, DType::i8>, BufferInstance<SeedPartialStrip, DType::bf16>,
    BufferInstance<SeedRopeKeys, DType::bf16>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Plain, KVBufferConformance, Seeds);

}  // namespace
}  // namespace folio::test
