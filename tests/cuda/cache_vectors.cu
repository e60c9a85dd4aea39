// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/cache_vectors.cu: loads and stores of static caches, a kernel each, so that their
/// accesses can be counted.
#include "folio/cache/continuous_kv_cache.h"
#include "folio/cache/paged_kv_cache.h"

namespace {

using namespace folio;

constexpr KVCacheStaticParams params{8, 128};
using Halves = PagedKVCache<DType::bf16, params, 16>;
using Continuous = ContinuousKVCache<DType::f16, params>;
using Bytes = PagedKVCache<DType::f8_e4m3, params, 16, DType::f32, 64>;
/// A vector of eight elements may reach into the next granule.
using Crossing = PagedKVCache<DType::f8_e4m3, params, 16, DType::f32, 12>;

}  // namespace

/// The address is looked at.
__global__ void copy_checked(const Halves from, const Halves to) {
  const auto v = from.load<8>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8);
  to.store(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8, v);
}
/// It is promised.
__global__ void copy_promised(const Halves from, const Halves to) {
  const auto v =
      from.load<8, DType::bf16, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8);
  to.store<8, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8, v);
}
__global__ void copy_continuous(const Continuous from, const Continuous to) {
  const auto v = from.load<8, DType::f16, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8);
  to.store<8, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8, v);
}
/// Sixteen quantised elements, one scale, sixteen halves.
__global__ void copy_dequantised(const Bytes from, const Halves to) {
  const auto v =
      from.load<16, DType::bf16, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 16);
  to.store<16, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 16, v);
}
/// Eight, which two scales may hold for.
__global__ void copy_crossing(const Crossing from, const Halves to) {
  const auto v = from.load<8, DType::bf16, 8>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8);
  to.store<8, 16>(blockIdx.x, threadIdx.y, blockIdx.y, threadIdx.x * 8, v);
}
