// SPDX-License-Identifier: Apache-2.0
/// src/cuda/copy/launch.h: copies between planes on a device's stream.
#pragma once

#include "cuda/copy/kernels.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::cuda {

/// Puts a launch of at least one pair of planes and one copy on the stream; nothing waits for it.
/// Errors: of cuda::launch.
[[nodiscard]] Status launch_copies(const char* function, Device device, const CopyLaunch& copies,
                                   Stream stream) noexcept;

}  // namespace folio::cuda
