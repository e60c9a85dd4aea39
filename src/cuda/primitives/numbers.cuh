// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/numbers.cuh: functions and conversions, each as exact as said.
#pragma once

#include <cstdint>

#include "cuda/primitives/fp8.h"
#include "folio/core/dtype.h"
#include "folio/core/element.h"

namespace folio::cuda {

/// Members of Thread. NaN becomes the hardware's own: 0x7fff in f16 and bf16, 0x7f in fp8.
class Numbers {
 public:
  /// ex2.approx.ftz: within 2 ulp; subnormal arguments and results are zero.
  __device__ __forceinline__ float exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
  }
  /// Within 1 ulp.
  __device__ __forceinline__ float log2(float x) { return ::log2f(x); }
  /// Within 2 ulp; tanh.approx has eleven bits, too few for the softcap of long contexts.
  __device__ __forceinline__ float tanh(float x) { return ::tanhf(x); }
  /// x * y + z, rounded once. Nothing else is fused.
  __device__ __forceinline__ float fma(float x, float y, float z) { return __fmaf_rn(x, y, z); }

  /// Rounded to nearest even: `low` in the lower half.
  template <DType Type>
  __device__ __forceinline__ uint32_t pack(float low, float high) {
    static_assert(Type == DType::bf16 || Type == DType::f16);
    uint32_t pair;
    if constexpr (Type == DType::bf16)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
  /// Half `part` of a pair; exact.
  template <DType Type>
  __device__ __forceinline__ float unpack(uint32_t pair, int part) {
    static_assert(Type == DType::bf16 || Type == DType::f16);
    if constexpr (Type == DType::bf16) {
      return __uint_as_float(part == 0 ? pair << 16 : pair & 0xffff0000u);
    } else {
      float x;
      const auto half = static_cast<unsigned short>(part == 0 ? pair : pair >> 16);
      asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
      return x;
    }
  }

  /// Two fp8 as two f16, the lower first; exact. From sm_89 on one instruction.
  __device__ __forceinline__ uint32_t half_pair_of_e4m3(uint16_t pair) {
#if __CUDA_ARCH__ >= 890
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return halves;
#else
    uint32_t halves;
    asm("mul.rn.f16x2 %0, %1, %2;"
        : "=r"(halves)
        : "r"(small_halves_of_e4m3(pair)), "r"(halves_of_256));
    return with_nan_of_e4m3(halves, pair);
#endif
  }
  __device__ __forceinline__ uint32_t half_pair_of_e5m2(uint16_t pair) {
#if __CUDA_ARCH__ >= 890
    uint32_t halves;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return halves;
#else
    return halves_of_e5m2(pair);
#endif
  }
  /// Rounded to nearest even; what is too large becomes the largest. From sm_89 on one instruction.
  __device__ __forceinline__ uint16_t to_e4m3(float low, float high) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return pair_of<f8_e4m3>(low, high);
#endif
  }
  __device__ __forceinline__ uint16_t to_e5m2(float low, float high) {
#if __CUDA_ARCH__ >= 890
    uint16_t pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return pair_of<f8_e5m2>(low, high);
#endif
  }

 private:
  template <class T>
  __device__ __forceinline__ static uint16_t pair_of(float low, float high) {
    const auto code = [](float x) {
      return x != x ? 0x7fu : static_cast<uint32_t>(from_float<T>(x).bits);
    };
    return static_cast<uint16_t>(code(low) | code(high) << 8);
  }
};

}  // namespace folio::cuda
