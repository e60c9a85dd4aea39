// SPDX-License-Identifier: Apache-2.0
/// folio/core/host_device.h: marks functions that compile for the host and for CUDA devices.
///
/// The static face of folio is plain C++; with nvcc its functions are `__host__ __device__`, elsewhere the macro is empty.
#pragma once

#ifdef __CUDACC__
#define FOLIO_HOST_DEVICE __host__ __device__
#else
#define FOLIO_HOST_DEVICE
#endif
