// SPDX-License-Identifier: Apache-2.0
/// src/attention/check.h: the border checks: what is broken is named before any work.
#pragma once

#include "folio/attention/attend.h"
#include "folio/attention/problem.h"
#include "folio/core/status.h"
#include "kernel/kernel.h"

namespace folio::inline v1 {

/// Checks the problem and fills in what it leaves open: scale, v_head_size, and value for
/// value_in_key. Pointers and num_pages, which are not the problem's, are cleared.
[[nodiscard]] Result<AttentionProblem> resolve(const AttentionProblem& problem) noexcept;

[[nodiscard]] Status check_limits(const char* function, const AttentionProblem& problem,
                                  const AttentionLimits& limits) noexcept;

[[nodiscard]] Status check_mask(const char* function, const Mask& mask) noexcept;

/// `batch` against the limits and the problem's optional inputs. Reads offsets and lengths only.
[[nodiscard]] Status check_batch(const AttentionProblem& problem, const AttentionLimits& limits,
                                 const Batch& batch) noexcept;

/// The same, as far as the host knows of arrays on a device: nothing is read.
[[nodiscard]] Status check_device_batch(const char* function, const AttentionProblem& problem,
                                        const AttentionLimits& limits, const Batch& batch) noexcept;

/// The planes of one layer: those that the problem describes, as far as calls may not differ, in
/// memory and with strides that `kernel` takes. `function` names the caller.
[[nodiscard]] Status check_planes(const char* function, const Kernel& kernel,
                                  const AttentionProblem& problem,
                                  const AttentionArgs& args) noexcept;

/// All arguments of one layer against the problem, its kernel and the number of tokens.
[[nodiscard]] Status check_args(const char* function, const Kernel& kernel,
                                const AttentionProblem& problem, int64_t tokens,
                                const AttentionArgs& args) noexcept;

/// The plan is one of this Attention, and the one that its memory holds. `function` names the
/// caller.
[[nodiscard]] Status check_plan(const char* function, const Attention& attention,
                                const AttentionPlan& plan) noexcept;

/// What attend_task takes beside its arguments: check_plan, a workspace that is prepared for the
/// plan, a task of it.
[[nodiscard]] Status check_task(const Attention& attention, const AttentionPlan& plan,
                                const MemorySpan& workspace, int64_t task) noexcept;

}  // namespace folio::inline v1
