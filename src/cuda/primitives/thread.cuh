// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/thread.cuh: the machine that kernels are written against, on a GPU: every
/// member is an instruction or a few. Its twin on the host: folio/testing/cta/.
#pragma once

#include <cstdint>

#include "folio/tma/encode.h"

namespace folio::cuda {

extern __shared__ __align__(1024) unsigned char shared_memory[];

class Thread {
 public:
  __device__ int thread() const { return static_cast<int>(threadIdx.x); }
  __device__ int block() const { return static_cast<int>(blockIdx.x); }
  __device__ int blocks() const { return static_cast<int>(gridDim.x); }
  __device__ uint32_t shared_base() const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
  }

  template <class T>
  __device__ T load_shared(uint32_t at) {
    return *reinterpret_cast<const T*>(shared_memory + (at - shared_base()));
  }
  template <class T>
  __device__ void store_shared(uint32_t at, const T& value) {
    *reinterpret_cast<T*>(shared_memory + (at - shared_base())) = value;
  }
  template <class T>
  __device__ T read(const T* p) {
    return *p;
  }
  template <class T>
  __device__ T load(const T* p) {
    if constexpr (sizeof(T) == 16) {
      const float4 v = __ldcg(reinterpret_cast<const float4*>(p));
      return __builtin_bit_cast(T, v);
    } else if constexpr (sizeof(T) == 8) {
      const float2 v = __ldcg(reinterpret_cast<const float2*>(p));
      return __builtin_bit_cast(T, v);
    } else {
      return *p;
    }
  }
  template <class T>
  __device__ void store(T* p, const T& value) {
    *p = value;
  }
  __device__ uint32_t arrive_at(uint32_t* counter, uint32_t last) {
    uint32_t old;
    __threadfence();
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(counter), "r"(last)
                 : "memory");
    return old;
  }

  __device__ void copy_async(uint32_t to, const void* from, bool valid) {
    const int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(bytes));
  }
  __device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int Pending>
  __device__ void wait_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
  }

  // mbarriers and TMA: sm_90 on
  using TileMap = tma::EncodedTensorMap;
  __device__ void init_barrier(uint32_t at, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
  }
  __device__ void fence_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
  __device__ void arrive_expecting(uint32_t at, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
  }
  __device__ void wait(uint32_t at, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\nwait_%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], "
        "%1;\n@!done bra wait_%=;\n}" ::"r"(at),
        "r"(parity)
        : "memory");
  }
  template <int Rank>
  __device__ void copy_tile(const TileMap& map, const tma::Coordinates<Rank>& c, uint32_t to,
                            uint32_t at) {
    static_assert(Rank == 5);
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
        "[%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
        "l"(&map), "r"(at), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])
        : "memory");
  }

  __device__ void sync_warp() { __syncwarp(); }
  __device__ void sync_block() { __syncthreads(); }
  __device__ uint32_t shuffle(uint32_t value, int from) { return __shfl_sync(~0u, value, from); }
  __device__ float shuffle_xor(float value, int mask) { return __shfl_xor_sync(~0u, value, mask); }
  __device__ uint32_t ballot(bool value) { return __ballot_sync(~0u, value); }

  template <bool Transposed>
  __device__ void load_matrices(uint32_t (&out)[4], uint32_t row) {
    if constexpr (Transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(row));
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(row));
  }
  __device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  __device__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  __device__ float log2(float x) { return __log2f(x); }
  __device__ uint32_t pack(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

}  // namespace folio::cuda
