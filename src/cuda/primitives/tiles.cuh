// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/tiles.cuh: bulk copies and copies of boxes by tensor maps (sm_90 on; gather4
/// sm_100 on).
///
/// Destinations are said to be of the block, not of a cluster (PTX 8.6): for the latter ptxas makes
/// a stack on sm_120. One thread calls for the whole copy. Boxes begin in shared memory at
/// multiples of 128; bulk copies have addresses and sizes that are multiples of 16. They run on a
/// proxy of their own: see fence_async. Loads report their bytes to a barrier, stores belong to
/// groups of the thread.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "cuda/primitives/barriers.cuh"
#include "folio/tma/encode.h"

namespace folio::cuda {

/// Members of Thread. Coordinates are the fastest dimension first.
class TileCopies {
 public:
  using TileMap = tma::EncodedTensorMap;

  template <int Rank>
  __device__ __forceinline__ void copy_tile(const TileMap& map, const tma::Coordinates<Rank>& c,
                                            uint32_t to, uint32_t barrier) {
    ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_shared, ::cuda::ptx::space_global,
                                      detail::shared_pointer(to), &map, c.at,
                                      detail::shared_pointer<uint64_t>(barrier));
  }
  template <int Rank>
  __device__ __forceinline__ void store_tile(const TileMap& map, const tma::Coordinates<Rank>& c,
                                             uint32_t from) {
    ::cuda::ptx::cp_async_bulk_tensor(::cuda::ptx::space_global, ::cuda::ptx::space_shared, &map,
                                      c.at, detail::shared_pointer(from));
  }
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
  /// Four rows of a matrix: the first column, then the rows.
  __device__ __forceinline__ void copy_gather4(const TileMap& map, const tma::Coordinates<5>& c,
                                               uint32_t to, uint32_t barrier) {
    ::cuda::ptx::cp_async_bulk_tensor_tile_gather4(
        ::cuda::ptx::space_shared, ::cuda::ptx::space_global, detail::shared_pointer(to), &map,
        c.at, detail::shared_pointer<uint64_t>(barrier));
  }
#endif
  /// Brings the box into L2.
  template <int Rank>
  __device__ __forceinline__ void prefetch_tile(const TileMap& map,
                                                const tma::Coordinates<Rank>& c) {
    static_assert(Rank >= 2 && Rank <= 5, "prefetch_tile: boxes have two to five dimensions");
    const TileMap* m = &map;
    if constexpr (Rank == 2)
      asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(m),
                   "r"(c[0]), "r"(c[1])
                   : "memory");
    else if constexpr (Rank == 3)
      asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(m),
                   "r"(c[0]), "r"(c[1]), "r"(c[2])
                   : "memory");
    else if constexpr (Rank == 4)
      asm volatile(
          "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(m),
          "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
          : "memory");
    else
      asm volatile(
          "cp.async.bulk.prefetch.tensor.5d.L2.global.tile [%0, {%1, %2, %3, %4, %5}];" ::"l"(m),
          "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
          : "memory");
  }
  /// Brings the map itself near.
  __device__ __forceinline__ void prefetch_map(const TileMap& map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
  }

  __device__ __forceinline__ void copy_bulk(uint32_t to, const void* from, uint32_t bytes,
                                            uint32_t barrier) {
    ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_shared, ::cuda::ptx::space_global,
                               detail::shared_pointer(to), from, bytes,
                               detail::shared_pointer<uint64_t>(barrier));
  }
  __device__ __forceinline__ void store_bulk(void* to, uint32_t from, uint32_t bytes) {
    ::cuda::ptx::cp_async_bulk(::cuda::ptx::space_global, ::cuda::ptx::space_shared, to,
                               detail::shared_pointer(from), bytes);
  }
  /// Closes this thread's group of stores.
  __device__ __forceinline__ void commit_stores() { ::cuda::ptx::cp_async_bulk_commit_group(); }
  /// All but the last `Pending` groups have been written.
  template <int Pending>
  __device__ __forceinline__ void wait_stores() {
    ::cuda::ptx::cp_async_bulk_wait_group(::cuda::ptx::n32_t<Pending>());
  }
  /// All but the last `Pending` groups have read shared memory, which may be overwritten.
  template <int Pending>
  __device__ __forceinline__ void wait_store_reads() {
    ::cuda::ptx::cp_async_bulk_wait_group_read(::cuda::ptx::n32_t<Pending>());
  }
};

}  // namespace folio::cuda
