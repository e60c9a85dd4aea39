// SPDX-License-Identifier: Apache-2.0
/// src/cuda/plan/launch.h: the plan kernel, put on a stream.
#pragma once

#include "cuda/plan/plan_layout.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::cuda {

/// Writes the plan of `batch`, whose arrays lie on the device, into `plan_memory`. Problem and
/// limits are those of the layout. Errors: as launch.
[[nodiscard]] Status launch_plan(const char* function, Device device,
                                 const AttentionProblem& problem, const AttentionLimits& limits,
                                 const Batch& batch, const DevicePlanLayout& layout,
                                 void* plan_memory, Stream stream) noexcept;

}  // namespace folio::cuda
