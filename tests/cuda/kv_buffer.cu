// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/kv_buffer.cu: a kernel per instance of KVBuffer, so that its stack, its spills and
/// its instructions can be looked at.
#include "cuda/kv_buffer_kernels.h"
#include "cuda/primitives/thread.cuh"
#include "folio/attention/operand.h"
#include "folio/cache/paged_kv_cache.h"

namespace {

using namespace folio;
using namespace folio::test;
using folio::cuda::Thread;

using View = ViewMHAOperand<DType::bf16>;
using Cache = KVCacheMHAOperand<PagedKVCache<DType::bf16, KVCacheStaticParams{8, 128}, 16>>;

/// Scores of 16 query rows over all keys, summed: what a kernel does with K, less the softmax.
template <class Buffer>
__device__ void multiply_keys(Thread& t, Buffer& buffer, int64_t keys, const uint32_t* a,
                              float* out) {
  constexpr int last = Buffer::num_smem_stages - 1;
  for (int stage = 0; stage < last; ++stage) {
    buffer.begin_load(stage);
    buffer.finish_load();
    if constexpr (requires { buffer.loader().commit(); }) buffer.loader().commit();
  }
  float c[Buffer::num_mmas][4] = {};
  int stage = 0;
  for (int64_t first = 0; first < keys; first += Buffer::BN) {
    if constexpr (requires { buffer.loader().commit(); })
      buffer.loader().template wait<last - 1>();
    else
      buffer.loader().wait(stage);
    t.sync_block();
    buffer.begin_load(stage == 0 ? last : stage - 1);
    buffer.finish_load();
    if constexpr (requires { buffer.loader().commit(); }) buffer.loader().commit();
    buffer.load_from_shared(stage);
    buffer.zero_partial_tile_pad();
    const uint32_t q[4] = {a[0], a[1], a[2], a[3]};
    buffer.kv_mma_op.template mma<0, 0>(t, q, c);
    buffer.kv_mma_op.template mma<Buffer::num_k_mmas2 - 1, Buffer::num_k_tiles - 1>(t, q, c);
    stage = stage == last ? 0 : stage + 1;
  }
  for (int n = 0; n < Buffer::num_mmas; ++n)
    for (int e = 0; e < 4; ++e) out[(n * 4 + e) * t.threads() + t.thread()] = c[n][e];
}

template <class Operand, class Base>
__device__ void by_cp_async(const Operand& operand, int64_t keys, const uint32_t* a, float* out) {
  using Buffer = KVBuffer<Operand, ByCpAsync<Base, Thread>>;
  Thread t;
  Buffer buffer(operand, blockIdx.x, blockIdx.y, {{&t, t.shared_base()}, {}}, keys,
                static_cast<uint32_t>(t.warp()));
  multiply_keys(t, buffer, keys, a, out);
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <class Operand, class Base>
__device__ void by_tma(const Operand& operand, const tma::EncodedTensorMap& map, int box_rows,
                       int64_t keys, const uint32_t* a, float* out) {
  using Buffer = KVBuffer<Operand, ByTma<Base, Thread>>;
  Thread t;
  const SharedMemBarrier barriers{t.shared_base()};
  if (t.thread() == 0) Buffer::Loader::init_barriers(t, barriers);
  t.sync_block();
  Buffer buffer(operand, blockIdx.x, blockIdx.y,
                {{&t, t.shared_base() + 1024}, map, barriers, box_rows}, keys,
                static_cast<uint32_t>(t.warp()));
  multiply_keys(t, buffer, keys, a, out);
}
#endif

}  // namespace

__global__ void __launch_bounds__(128)
    keys_by_cp_async(const __grid_constant__ View view, int64_t keys, const uint32_t* a,
                     float* out) {
  by_cp_async<View, LaneKeys>(view, keys, a, out);
}
__global__ void __launch_bounds__(128)
    cache_by_cp_async(const __grid_constant__ Cache cache, int64_t keys, const uint32_t* a,
                      float* out) {
  by_cp_async<Cache, LaneKeys>(cache, keys, a, out);
}
__global__ void __launch_bounds__(128)
    values_by_cp_async(const __grid_constant__ View view, int64_t keys, const uint32_t* a,
                       float* out) {
  by_cp_async<View, LaneValues>(view, keys, a, out);
}
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__global__ void __launch_bounds__(128)
    keys_by_tma(const __grid_constant__ View view,
                const __grid_constant__ tma::EncodedTensorMap map, int box_rows, int64_t keys,
                const uint32_t* a, float* out) {
  by_tma<View, LaneKeys>(view, map, box_rows, keys, a, out);
}
__global__ void __launch_bounds__(128)
    values_by_tma(const __grid_constant__ View view,
                  const __grid_constant__ tma::EncodedTensorMap map, int box_rows, int64_t keys,
                  const uint32_t* a, float* out) {
  by_tma<View, LaneValues>(view, map, box_rows, keys, a, out);
}
#endif
