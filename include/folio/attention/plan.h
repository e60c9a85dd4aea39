// SPDX-License-Identifier: Apache-2.0
/// folio/attention/plan.h: `Attention`, the selected kernels, and `plan`, the work list of one
/// step.
///
/// Load: Attention::create selects. Step: plan cuts the batch into tasks. Layer: attend (attend.h)
/// runs them.
#pragma once

#include <cstdint>
#include <string_view>

#include "folio/attention/problem.h"
#include "folio/cache/batch.h"
#include "folio/core/execution.h"
#include "folio/core/export.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

struct Kernel;  // src/kernel/kernel.h

/// Null if some kernel serves the problem on `device`, else the reason why none does (a string that
/// lives as long as the program). Builds nothing.
[[nodiscard]] FOLIO_EXPORT const char* refuse(const AttentionProblem& problem,
                                              Device device = {}) noexcept;

/// The kernel for one problem, and the limits. Immutable plain data: copy it freely, use it from
/// any thread.
class Attention {
 public:
  /// `kernel`: use this one (or refuse); empty: FOLIO_FORCE_KERNEL, then the first that does not
  /// refuse. Errors: invalid_argument for a broken problem, strides that reach beyond memory
  /// (PagedKVView), limits < 1 or so large that no memory holds what they need, or an unknown
  /// kernel name; unsupported with the reason.
  [[nodiscard]] FOLIO_EXPORT static Result<Attention> create(const AttentionProblem& problem,
                                                             const AttentionLimits& limits,
                                                             Device device = {},
                                                             std::string_view kernel = {}) noexcept;

  /// The name of the selected kernel, e.g. "attention_paged_any_x86_64_v4".
  [[nodiscard]] FOLIO_EXPORT std::string_view kernel() const noexcept;
  /// Bytes that suffice for every batch within the limits; 64-byte aligned memory is required.
  [[nodiscard]] int64_t plan_bytes() const noexcept { return plan_bytes_; }
  [[nodiscard]] int64_t workspace_bytes() const noexcept { return workspace_bytes_; }
  [[nodiscard]] const AttentionProblem& problem() const noexcept { return problem_; }
  [[nodiscard]] const AttentionLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] const Kernel* kernel_entry() const noexcept { return kernel_; }

 private:
  AttentionProblem problem_ = {};  // scale, v_head_size and value resolved
  AttentionLimits limits_ = {};
  const Kernel* kernel_ = nullptr;
  int64_t plan_bytes_ = 0;
  int64_t workspace_bytes_ = 0;
};

/// A view of plan memory: copy freely, share between threads.
struct AttentionPlan {
  int64_t num_tasks = 0;
  const void* items = nullptr;
  int32_t batch = 0;
  int32_t tokens = 0;
};

/// Cuts `batch` into tasks, from the lengths alone, and writes them into `plan_memory`
/// (plan_bytes() bytes, 64-byte aligned).
///
/// Errors:  invalid_argument for an empty Attention, null or contradictory arrays, offsets that do
///          not ascend, lengths below 0 or beyond the limits, a batch beyond the limits, intervals
///          or tree missing or unasked for, too few tree words, memory too small or misaligned;
///          nothing usable is left in the memory then
/// Effects: allocates nothing. Borrows the batch's table and per-query arrays until the step's last
/// attend; copies the rest.
[[nodiscard]] FOLIO_EXPORT Result<AttentionPlan> plan(const Attention& attention,
                                                      const Batch& batch,
                                                      MemorySpan plan_memory) noexcept;

}  // namespace folio::inline v1
