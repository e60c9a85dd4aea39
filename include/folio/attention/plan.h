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

/// Null if some kernel serves the problem on `device`, else the reason why none does (a string that
/// lives as long as the program). Builds nothing.
[[nodiscard]] FOLIO_EXPORT const char* refuse(const AttentionProblem& problem,
                                              Device device = {}) noexcept;

/// The kernel for one problem, and the limits. Immutable plain data: copy it freely, use it from
/// any thread.
class Attention {
 public:
  /// A kernel of this build.
  struct KernelName {
    std::string_view name = {};  ///< a literal: lives as long as the program, null-terminated
    bool runs_here = false;      ///< this machine offers the instructions that it needs
  };
  /// The kernels of this build, best first: names for `create` and FOLIO_FORCE_KERNEL.
  [[nodiscard]] FOLIO_EXPORT static int32_t kernel_count() noexcept;
  /// The kernel at `index`; an empty name outside [0, kernel_count()).
  [[nodiscard]] FOLIO_EXPORT static KernelName kernel_name(int32_t index) noexcept;

  /// `kernel`: use this one (or refuse); empty: FOLIO_FORCE_KERNEL, then the first that does not
  /// refuse. Errors: invalid_argument for a broken problem, strides that reach beyond memory
  /// (PagedKVView), limits below their least or so large that no memory holds what they need, or an
  /// unknown kernel name; unsupported with the reason: what the problem needs, what the kernel
  /// (without a name, the last of the list) supports, what is missing.
  /// Effects: the first call in a process that has to know the machine (refuse, kernel_name and the
  /// calls of the run path too) asks Linux for permission to use AMX, where the processor has it:
  /// arch_prctl(ARCH_REQ_XCOMP_PERM), after which Linux wants larger alternate signal stacks.
  [[nodiscard]] FOLIO_EXPORT static Result<Attention> create(const AttentionProblem& problem,
                                                             const AttentionLimits& limits,
                                                             Device device = {},
                                                             std::string_view kernel = {}) noexcept;

  /// The same problem and kernel within other limits: a batch or a context that has outgrown these.
  /// Nothing is selected again, results keep their bits (as far as `reproducible` promises), and a
  /// plan belongs to the Attention that it was made with.
  /// Errors: invalid_argument for an empty Attention or limits that create refuses.
  [[nodiscard]] FOLIO_EXPORT Result<Attention> with_limits(
      const AttentionLimits& limits) const noexcept;
  /// The same problem, kernel and limits under another mask (windowed layers beside full ones).
  /// Plans are of one mask; plan_bytes() and workspace_bytes() are the same, so one workspace
  /// serves all masks in turn.
  /// Errors: invalid_argument for an empty Attention or a mask that create refuses; unsupported
  /// where the kernel has not this kind of mask.
  [[nodiscard]] FOLIO_EXPORT Result<Attention> with_mask(const Mask& mask) const noexcept;

  /// The name of the selected kernel, e.g. "attention_paged_any_x86_64_v4".
  [[nodiscard]] FOLIO_EXPORT std::string_view kernel() const noexcept;
  /// The name of the one that steps go to whose sequences have few rows of a head each and share no
  /// keys; empty: all go to `kernel()`, as where its name was given, or Reproducible::per_sequence
  /// or per_query asked for.
  [[nodiscard]] FOLIO_EXPORT std::string_view few_rows_kernel() const noexcept;
  /// Bytes that suffice for every batch within the limits; 64-byte aligned memory is required.
  [[nodiscard]] int64_t plan_bytes() const noexcept { return plan_bytes_; }
  [[nodiscard]] int64_t workspace_bytes() const noexcept { return workspace_bytes_; }
  [[nodiscard]] const AttentionProblem& problem() const noexcept { return problem_; }
  /// As given, with parallelism resolved.
  [[nodiscard]] const AttentionLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  friend struct AttentionInternals;
  static Result<Attention> sized(const char* function, Attention attention,
                                 const AttentionLimits& limits) noexcept;

  AttentionProblem problem_ = {};  // scale, v_head_size and value resolved
  AttentionLimits limits_ = {};
  Device device_ = {};
  const void* kernel_ = nullptr;            // an entry of the kernel list
  const void* many_rows_kernel_ = nullptr;  // the one for sequences of many rows, or null
  const void* few_rows_kernel_ = nullptr;   // the one for steps of few rows of a head, or null
  int32_t few_rows_ = 0;                    // how many are few
  uint64_t identity_ = 0;                   // of what create, with_limits or with_mask made
  int64_t plan_bytes_ = 0;
  int64_t workspace_bytes_ = 0;
};

/// A view of plan memory: copy freely, share between threads. It belongs to the memory as `plan`
/// left it and to Attentions that equal its own (kernel, limits, geometry and options of the
/// problem): every call that takes it compares, and refuses what does not belong together.
struct AttentionPlan {
  int64_t num_tasks = 0;
  const void* items = nullptr;  ///< the plan memory, which must still be there
  int32_t batch = 0;
  int32_t tokens = 0;
  /// which call of `plan` in this process wrote the memory; of plan_async: the Attention that it
  /// belongs to; 0: none
  uint64_t generation = 0;
};

/// Cuts `batch` into tasks, from lengths, masks and equal beginnings of table rows, and writes them
/// into `plan_memory` (plan_bytes() bytes, 64-byte aligned).
///
/// Errors:  invalid_argument for an empty Attention, null or contradictory arrays, offsets that do
///          not ascend, lengths below 0 or beyond the limits, a batch beyond the limits, intervals
///          or tree missing or unasked for, too few tree words, memory too small or misaligned;
///          nothing usable is left in the memory then
/// Effects: allocates nothing, takes no lock. Borrows the batch's table and per-query arrays until
/// the step's last attend; copies the rest. Plans that the memory held before are refused from then
/// on, also if this call fails after the memory itself was found sound.
[[nodiscard]] FOLIO_EXPORT Result<AttentionPlan> plan(const Attention& attention,
                                                      const Batch& batch,
                                                      MemorySpan plan_memory) noexcept;

/// Keys of a KV head that the plan's tasks fetch: those that sequences share once for each shared
/// task, others once for each sequence, or more often where its rows are divided. 0 where the plan
/// is none of this attention, or lies on a device.
[[nodiscard]] FOLIO_EXPORT int64_t keys_read(const Attention& attention,
                                             const AttentionPlan& plan) noexcept;

/// The name of the kernel that the tasks of a plan are for: `kernel()` or `few_rows_kernel()` of
/// `attention`. Empty for a plan that is not of this attention, or of a device.
/// Thread safety: any thread, while the plan memory is as `plan` left it.
[[nodiscard]] FOLIO_EXPORT std::string_view kernel_of(const Attention& attention,
                                                      const AttentionPlan& plan) noexcept;

/// As `plan`, on the attention's device: the batch's arrays and the plan memory lie there, the work
/// is put on `stream` and nothing waits for it; a captured graph replays any batch within the
/// limits, with `batch.size` as it was. The host knows the batch's size alone: num_tasks and tokens
/// are upper bounds. Lengths that plan would refuse are not refused there: a sequence whose offsets
/// or lengths contradict one another or the limits counts as empty, its rows are not written.
///
/// The plan is of this Attention and its copies: the host cannot read on the device whether another
/// one equals it, so that what another call of create, with_limits or with_mask made refuses it.
///
/// Errors:  as plan, of what the host knows; unsupported on the CPU, which has no streams; device,
///          with the driver's words
/// Effects: as plan. That the memory was planned again is not noticed by the calls that take the
///          plan: they follow on the stream
[[nodiscard]] FOLIO_EXPORT Result<AttentionPlan> plan_async(const Attention& attention,
                                                            const Batch& batch,
                                                            MemorySpan plan_memory,
                                                            Stream stream) noexcept;

}  // namespace folio::inline v1
