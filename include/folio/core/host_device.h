// SPDX-License-Identifier: Apache-2.0
/// folio/core/host_device.h: marks functions that compile for the host and for CUDA devices.
///
/// The static face of folio is plain C++; with nvcc its functions are `__host__ __device__`,
/// elsewhere the macro is empty.
#pragma once

#ifdef __CUDACC__
#define FOLIO_HOST_DEVICE __host__ __device__
#else
#define FOLIO_HOST_DEVICE
#endif

/// Marks code that is written against a machine, a thread of a kernel that is a parameter: device
/// code with nvcc, elsewhere host code, for the emulator. The loop behind FOLIO_UNROLL is unrolled.
#ifdef __CUDACC__
#define FOLIO_DEVICE_FUNCTION __device__ __forceinline__
#else
#define FOLIO_DEVICE_FUNCTION inline
#endif
// nvcc's host compiler, which sees functions of both sides too, does not know the pragma
#ifdef __CUDA_ARCH__
#define FOLIO_UNROLL _Pragma("unroll")
#else
#define FOLIO_UNROLL
#endif

/// Marks functions that ISA objects may use: never emitted out of line, so no weak symbol compiled
/// for a wider instruction set can be picked by the linker for baseline callers. Such functions
/// call only functions marked alike.
#if defined(__GNUC__) || defined(__clang__)
#define FOLIO_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define FOLIO_ALWAYS_INLINE inline
#endif
