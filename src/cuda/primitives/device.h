// SPDX-License-Identifier: Apache-2.0
/// src/cuda/primitives/device.h: marks of kernel code, which is one source for GPUs and for the
/// emulator on the host: those of folio/core/host_device.h.
#pragma once

#include "folio/core/host_device.h"
