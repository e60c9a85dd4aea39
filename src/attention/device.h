// SPDX-License-Identifier: Apache-2.0
/// src/attention/device.h: what a device offers to kernels, and the kernels of an Attention on one.
#pragma once

#include <cstdint>

#include "cuda/plan/plan_layout.h"
#include "folio/attention/plan.h"
#include "folio/core/execution.h"
#include "kernel/capability.h"
#include "kernel/kernel.h"

namespace folio::inline v1 {

/// What the device offers. Errors: device, unsupported: there is none, or none that folio is built
/// for.
[[nodiscard]] Result<Capabilities> capabilities_of(const char* function, Device device) noexcept;

/// What runs at once: threads of the default executor, or multiprocessors.
[[nodiscard]] Result<int32_t> concurrency_of_device(const char* function, Device device) noexcept;

/// How an Attention's work is cut on a CUDA device: lists of few and of many rows, and where they
/// lie in the plan memory and the workspace.
struct DeviceLists {
  cuda::DeviceGeometry few = {};
  cuda::DeviceGeometry many = {};  ///< rows 0: there is no kernel for many rows
  int32_t blocks_few = 0;
  int32_t blocks_many = 0;
  cuda::DevicePlanLayout layout = {};
};

/// `many` may be null. Limits are resolved.
[[nodiscard]] DeviceLists device_lists(const AttentionProblem& problem,
                                       const AttentionLimits& limits, const Kernel& kernel,
                                       const Kernel* many) noexcept;

}  // namespace folio::inline v1
