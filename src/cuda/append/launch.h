// SPDX-License-Identifier: Apache-2.0
/// src/cuda/append/launch.h: append and rotate on a device's stream.
#pragma once

#include "cuda/append/append_call.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::cuda {

/// Puts a checked call of at least one token on the stream; nothing waits for it. Parts are filled
/// in here. Errors: of cuda::launch.
[[nodiscard]] Status launch_append(const char* function, Device device, const AppendCall& call,
                                   Stream stream) noexcept;

}  // namespace folio::cuda
