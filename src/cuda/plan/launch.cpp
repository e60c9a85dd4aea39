// SPDX-License-Identifier: Apache-2.0
/// src/cuda/plan/launch.cpp: the plan kernel's one block.
#include "cuda/plan/launch.h"

#include "cuda/plan/plan_kernel.h"
#include "cuda/runtime/launch.h"

namespace folio::cuda {

Status launch_plan(const char* function, Device device, const AttentionProblem& problem,
                   const AttentionLimits& limits, const Batch& batch,
                   const DevicePlanLayout& layout, void* plan_memory, Stream stream) noexcept {
  const PlanCall call{problem, limits, batch, layout, plan_memory};
  return launch(function, device, kernel_number("plan"), 1, &call, sizeof call, stream);
}

}  // namespace folio::cuda
