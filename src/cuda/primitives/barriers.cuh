// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/barriers.cuh: mbarriers (sm_90 on): eight bytes of shared memory that count
/// arrivals and bytes.
///
/// Phases have parities 0, 1, 0, ...; wait(at, p) returns when the phase of parity p that is open,
/// or was open last, has completed. So a fresh barrier lets wait(at, 1) pass.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "cuda/primitives/debug.h"

namespace folio::cuda {

namespace detail {

/// Where cuda::ptx wants a pointer; it goes back to the address.
template <class T = void>
__device__ __forceinline__ T* shared_pointer(uint32_t at) {
  return static_cast<T*>(__cvta_shared_to_generic(at));
}

}  // namespace detail

/// Members of Thread.
class Barriers {
 public:
  __device__ __forceinline__ void init_barrier(uint32_t at, uint32_t arrivals) {
    ::cuda::ptx::mbarrier_init(detail::shared_pointer<uint64_t>(at), arrivals);
  }
  /// Makes barriers that this thread has made known to copies.
  __device__ __forceinline__ void fence_barriers() {
    ::cuda::ptx::fence_mbarrier_init(::cuda::ptx::sem_release, ::cuda::ptx::scope_cluster);
  }
  /// Between ordinary writes to shared memory, by the thread that wrote, and a bulk copy or
  /// multiply_group that overwrites or reads them.
  __device__ __forceinline__ void fence_async() {
    ::cuda::ptx::fence_proxy_async(::cuda::ptx::space_shared);
  }
  __device__ __forceinline__ void arrive(uint32_t at) {
    ::cuda::ptx::mbarrier_arrive(detail::shared_pointer<uint64_t>(at));
  }
  /// Arrives, and makes the phase wait for `bytes` of copies more.
  __device__ __forceinline__ void arrive_expecting(uint32_t at, uint32_t bytes) {
    ::cuda::ptx::mbarrier_arrive_expect_tx(::cuda::ptx::sem_release, ::cuda::ptx::scope_cta,
                                           ::cuda::ptx::space_shared,
                                           detail::shared_pointer<uint64_t>(at), bytes);
  }
  /// In debug builds a wait of some seconds fails the launch.
  __device__ __forceinline__ void wait(uint32_t at, uint32_t parity) {
    auto* barrier = detail::shared_pointer<uint64_t>(at);
    if constexpr (is_debug) {
      constexpr long long most_clocks = 1ll << 33;
      const long long begin = clock64();
      while (!::cuda::ptx::mbarrier_try_wait_parity(barrier, parity))
        if (clock64() - begin > most_clocks) __trap();
    } else {
      while (!::cuda::ptx::mbarrier_try_wait_parity(barrier, parity)) {}
    }
  }
};

}  // namespace folio::cuda
