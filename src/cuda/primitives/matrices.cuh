// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/matrices.cuh: ldmatrix and mma.sync, by all 32 lanes of a warp. Which lane
/// holds what: folio/testing/mma_sync.h.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::cuda {

/// Members of Thread.
class Matrices {
 public:
  /// Four 8x8 matrices of 16-bit elements; lane l gives row l % 8 of matrix l / 8.
  template <bool Transposed>
  __device__ __forceinline__ void load_matrices(uint32_t (&out)[4], uint32_t row) {
    if constexpr (Transposed)
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(row)
                   : "memory");
    else
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                   : "r"(row)
                   : "memory");
  }
  /// C[16, 8] += A[16, 16] * B[16, 8].
  template <DType Type>
  __device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                           uint32_t b1) {
    static_assert(Type == DType::bf16 || Type == DType::f16);
    if constexpr (Type == DType::bf16)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
          "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
};

}  // namespace folio::cuda
