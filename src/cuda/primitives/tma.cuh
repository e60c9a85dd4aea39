// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/tma.cuh: PTX of barriers and of copies by tensor maps, one function each.
///
/// Shared-memory addresses are 32-bit, destinations and sources multiples of 128. One thread calls;
/// bulk copies run on a proxy of their own: fence_async() stands between ordinary writes to shared
/// memory and a copy that overwrites or reads them. Source: PTX ISA 8.7, mbarrier and
/// cp.async.bulk.tensor.
#pragma once

#include <cstdint>

#include "folio/tma/encode.h"

namespace folio::cuda {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void init_barrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// Arrives, and makes the phase wait for `bytes` of copies more.
__device__ inline void arrive_expecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n"
        "}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}
__device__ inline void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

/// The box at these coordinates, fastest dimension first.
template <int Rank>
__device__ void load(const tma::EncodedTensorMap& map, const tma::Coordinates<Rank>& c, uint32_t to,
                     uint32_t barrier) {
  const auto* m = &map;
  if constexpr (Rank == 1) {
    asm volatile(
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3}], [%2];" ::"r"(to),
        "l"(m), "r"(barrier), "r"(c[0])
        : "memory");
  } else if constexpr (Rank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(m), "r"(barrier), "r"(c[0]), "r"(c[1])
        : "memory");
  } else if constexpr (Rank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5}], [%2];" ::"r"(to),
        "l"(m), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2])
        : "memory");
  } else if constexpr (Rank == 4) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
        "l"(m), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6, %7}], "
        "[%2];" ::"r"(to),
        "l"(m), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}

/// The way back, of the ranks that have a use. Completed by finish_stores.
template <int Rank>
__device__ void store(const tma::EncodedTensorMap& map, const tma::Coordinates<Rank>& c,
                      uint32_t from) {
  static_assert(Rank == 3 || Rank == 5, "store: row tiles have three dimensions, ragged ones five");
  const auto* m = &map;
  if constexpr (Rank == 3) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::
            "l"(m),
        "r"(from), "r"(c[0]), "r"(c[1]), "r"(c[2])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], "
        "[%1];" ::"l"(m),
        "r"(from), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }
}
/// Waits until every store of this thread is visible to the device.
__device__ inline void finish_stores() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// From compute capability 10.0 on.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 1000
/// Coordinates: first column, then four rows.
__device__ inline void gather4(const tma::EncodedTensorMap& map, const tma::Coordinates<5>& c,
                               uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6, %7}], "
      "[%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
      : "memory");
}
#endif

}  // namespace folio::cuda
