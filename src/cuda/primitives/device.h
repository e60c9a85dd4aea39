// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/device.h: marks of kernel code, which is one source for GPUs and for the
/// emulator on the host: those of folio/core/host_device.h.
#pragma once

#include "folio/core/host_device.h"

// Shorter, and not in public headers: folio/c/folio.h has an enumerator of the name.
#define FOLIO_DEVICE FOLIO_DEVICE_FUNCTION

/// Before a loop whose trips one after the other leave registers to others.
#ifdef __CUDA_ARCH__
#define FOLIO_NO_UNROLL _Pragma("unroll 1")
#else
#define FOLIO_NO_UNROLL
#endif
