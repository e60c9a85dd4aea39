// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/tile_copies.cu: the device side of tiles, a kernel each, so that their stack and
/// their instructions can be looked at.
#include "cuda/primitives/thread.cuh"
#include "folio/cache/paged_kv_cache.h"

namespace {

using namespace folio;
using folio::cuda::Thread;
using Map = tma::EncodedTensorMap;
using Cache = PagedKVCache<DType::bf16, KVCacheStaticParams{8, 128}, 16>;

/// The barrier of a block, in front of its tile.
__device__ SharedMemBarrier make_barrier(Thread& t) {
  const SharedMemBarrier barrier{t.shared_base()};
  if (t.thread() == 0) {
    barrier.init(t);
    SharedMemBarrier::fence_init(t);
  }
  t.sync_block();
  return barrier;
}
/// Something that needs what has been copied.
__device__ void read_back(Thread& t, float* out) {
  t.store(out + t.thread(), t.load_shared<float>(t.shared_base() + 1024u + 4u * threadIdx.x));
}

}  // namespace

/// Eight pages of K and of V: rows found once, the last ones missing.
__global__ void pages_of_k_and_v(const __grid_constant__ Cache cache,
                                 const __grid_constant__ Map k_map,
                                 const __grid_constant__ Map v_map, int pieces, float* out) {
  Thread t;
  const SharedMemBarrier barrier = make_barrier(t);
  constexpr auto b128 = tma::Swizzle::b128;
  if (t.thread() == 0) {
    const auto rows = cache.populate<128, 128>(blockIdx.x, blockIdx.y * 128);
    barrier.expect_bytes(t, rows.tma_k_bytes<DType::bf16, b128, 128>(pieces) +
                                rows.tma_v_bytes<DType::bf16, b128, 128>());
    const auto head = static_cast<int32_t>(blockIdx.z);
    const uint32_t to = t.shared_base() + 1024;
    rows.tma_copy_k<DType::bf16, b128, 128>(t, k_map, to, barrier, head, 0, pieces);
    rows.tma_copy_v<DType::bf16, b128, 128>(t, v_map, to + 32768, barrier, head, 0, pieces,
                                            RestOfTile::zero);
  }
  barrier.wait(t, 0);
  read_back(t, out);
}

__global__ void row_tile(const __grid_constant__ Map map,
                         const __grid_constant__ TMATensorTile<3> tile, int row, float* out) {
  Thread t;
  const SharedMemBarrier barrier = make_barrier(t);
  if (t.thread() == 0) {
    tile.prefetch_descriptor(t, map);
    barrier.expect_bytes(t, tile.copied_bytes());
    tile.async_prefetch(t, map, {{0, 0, row + 64}});
    tile.async_copy(t, map, t.shared_base() + 1024, barrier, {{0, 0, row}});
  }
  barrier.wait(t, 0);
  read_back(t, out);
}

__global__ void ragged_rows(const __grid_constant__ Map map,
                            const __grid_constant__ RaggedTMA3DTile tile, tma::RaggedRows rows,
                            float* out) {
  Thread t;
  const SharedMemBarrier barrier = make_barrier(t);
  const uint32_t at = t.shared_base() + 1024;
  if (t.thread() == 0) {
    barrier.expect_bytes(t, tile.copied_bytes());
    tile.async_copy(t, map, at, barrier, rows, 0);
  }
  barrier.wait(t, 0);
  read_back(t, out);
  t.sync_block();
  if (t.thread() == 0) {
    tile.async_store(t, map, at, {rows.start + rows.length, rows.length, 0}, 0);
    t.commit_stores();
    t.wait_stores<0>();
  }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
__global__ void selected_rows(const __grid_constant__ Cache cache, const __grid_constant__ Map map,
                              const __grid_constant__ TMATensorTile<2> tile, const int64_t* slots,
                              float* out) {
  Thread t;
  const SharedMemBarrier barrier = make_barrier(t);
  if (t.thread() == 0) {
    barrier.expect_bytes(t, tile.copied_bytes());
    tile.async_copy_gather4_tile(t, map, t.shared_base() + 1024, barrier, [&](int32_t i) {
      return static_cast<int32_t>(cache.get_tma_row(t.read(slots + i)));
    });
  }
  barrier.wait(t, 0);
  read_back(t, out);
}
#endif
