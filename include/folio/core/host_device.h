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

/// Marks functions that ISA objects may use: never emitted out of line, so no weak symbol compiled
/// for a wider instruction set can be picked by the linker for baseline callers. Such functions
/// call only functions marked alike.
#if defined(__GNUC__) || defined(__clang__)
#define FOLIO_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define FOLIO_ALWAYS_INLINE inline
#endif
