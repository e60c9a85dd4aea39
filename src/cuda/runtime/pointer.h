// SPDX-License-Identifier: Apache-2.0
/// src/cuda/runtime/pointer.h: whether a device can reach what a caller's pointer names.
///
/// Asks the driver, which knows its own allocations; takes no lock and waits for nothing. Thread
/// safety: usable from any thread.
#pragma once

#include <cstdint>

#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::cuda {

/// Whether host memory that the driver has pinned (allocated or registered) will do.
enum class Pinned : uint8_t { refused, allowed };

/// Memory of this device, managed memory, or pinned host memory where that is allowed. Pageable
/// host memory, another device's and null are refused.
/// Errors: invalid_argument, naming the argument; device; unsupported without CUDA.
[[nodiscard]] Status check_device_pointer(const char* function, const char* argument, Device device,
                                          const void* pointer,
                                          Pinned pinned = Pinned::refused) noexcept;

}  // namespace folio::cuda
