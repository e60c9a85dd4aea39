// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/device.h: marks of kernel code, which is one source for GPUs and for the
/// emulator on the host.
#pragma once

#ifdef __CUDACC__
#define FOLIO_DEVICE __device__ __forceinline__
#define FOLIO_UNROLL _Pragma("unroll")
#else
#define FOLIO_DEVICE inline
#define FOLIO_UNROLL
#endif
