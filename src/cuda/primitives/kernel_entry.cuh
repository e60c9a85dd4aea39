// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/kernel_entry.cuh: what stands between a __global__ function and a kernel
/// written against a Thread.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/primitives/thread.cuh"

namespace folio::cuda {

/// Bytes of shared memory that a block may have on the architecture that is compiled for.
__host__ __device__ constexpr int max_shared_bytes() {
#ifndef __CUDA_ARCH__
  return 227 << 10;
#elif __CUDA_ARCH__ >= 1200
  return 99 << 10;
#elif __CUDA_ARCH__ >= 900
  return 227 << 10;
#else
  return 163 << 10;
#endif
}

template <class Kernel>
__device__ __forceinline__ void run_kernel(const typename Kernel::Args& args) {
  static_assert(std::is_trivially_copyable_v<typename Kernel::Args>);
  static_assert(sizeof(typename Kernel::Args) <= 4096, "arguments lie in 4 KiB of constant memory");
  static_assert(Kernel::shared_bytes <= max_shared_bytes(),
                "more shared memory than a block has on this architecture");
  Thread thread;
  Kernel::run(thread, args);
}

}  // namespace folio::cuda
