// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/thread.cuh: the machine that kernels are written against, on a GPU: every
/// member is an instruction or a few, and PTX stands in this folder alone. Its twin on the host:
/// folio/testing/cta/; what both have: machine.h.
#pragma once

#include <cstdint>

#include "cuda/primitives/access.cuh"
#include "cuda/primitives/matrices.cuh"
#include "cuda/primitives/numbers.cuh"

// What an architecture lacks, its Thread does not have.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#include "cuda/primitives/barriers.cuh"
#include "cuda/primitives/tiles.cuh"
#endif
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "cuda/primitives/groups.cuh"
#endif

namespace folio::cuda {

class Thread : public MemoryAccess,
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
               public Barriers,
               public TileCopies,
#endif
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
               public GroupMatrices,
#endif
               public Matrices,
               public Numbers {
 public:
  __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x & 31u); }
  __device__ __forceinline__ int warp() const { return static_cast<int>(threadIdx.x >> 5); }
  __device__ __forceinline__ int threads() const { return static_cast<int>(blockDim.x); }
  __device__ __forceinline__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ __forceinline__ int blocks() const { return static_cast<int>(gridDim.x); }

  // By all lanes of a warp. Only sync_warp orders memory.
  __device__ __forceinline__ void sync_warp() { __syncwarp(); }
  __device__ __forceinline__ uint32_t shuffle(uint32_t value, int from) {
    return __shfl_sync(~0u, value, from);
  }
  __device__ __forceinline__ float shuffle(float value, int from) {
    return __shfl_sync(~0u, value, from);
  }
  __device__ __forceinline__ uint32_t shuffle_xor(uint32_t value, int mask) {
    return __shfl_xor_sync(~0u, value, mask);
  }
  __device__ __forceinline__ float shuffle_xor(float value, int mask) {
    return __shfl_xor_sync(~0u, value, mask);
  }
  __device__ __forceinline__ uint32_t ballot(bool value) { return __ballot_sync(~0u, value); }

  /// All threads of the block.
  __device__ __forceinline__ void sync_block() { __syncthreads(); }
  /// `count` threads, a multiple of 32, by barrier 1 to 15; whole warps.
  __device__ __forceinline__ void sync_threads(int barrier, int count) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
  }
};

}  // namespace folio::cuda
