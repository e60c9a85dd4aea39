// SPDX-License-Identifier: Apache-2.0
/// folio/attention/attend.h: attention over one layer's planes, by an executor or task by task.
///
/// The run path allocates nothing, throws nothing and takes no lock; `attend_task` alone may have
/// to wait (see there). A plan serves any number of threads at once, a workspace one call at a
/// time.
///
/// What a query does not see does not move its result while it is finite (behind a bias of -inf:
/// while its q . k is). A slot that no query of the sequence sees in any head, whatever hides it,
/// is dead: it may hold NaN and infinity, too. Where others of the sequence see it, NaN and
/// infinity
///
///   in K or its scales   reach no o and no lse behind mask, interval, tree or list; behind a bias
///                        of -inf they may, for it is added to what they make of the logit
///   in V or its scales   (value_in_key: in K) may make o NaN, in heads of that KV head, for they
///                        are multiplied by a weight of 0; lse is right
///
/// Of sequences that share a page, each counts by itself.
#pragma once

#include <cstdint>

#include "folio/attention/plan.h"
#include "folio/core/any_tensor.h"

namespace folio::inline v1 {

/// What changes from layer to layer, or from call to call.
///
/// What selects a kernel must equal the problem's: dtypes, heads, head sizes, page size, whether
/// there are scales, their dtype and granularity. Strides of planes and scales are the call's own
/// (a dense cache that grows, layers laid out differently), as far as the selected kernel takes
/// them: multiples of what it aligns its loads to, no scales that vary along a head where it has
/// none.
struct AttentionArgs {
  ConstTensor<3> q = {};  ///< [tokens, q_heads, key.head_size]
  AnyTensor<3> out = {};  ///< [tokens, q_heads, v_head_size]
  PagedKVView key = {};
  PagedKVView value = {};  ///< ignored with value_in_key
  PagedKVView key_tail = {};
  /// [tokens, q_heads], natural log of the whole denominator; null: not wanted
  float* lse = nullptr;
  /// with problem.sink_logits: [q_heads] of problem.sink_dtype, with problem.sink_per_query
  /// [tokens, q_heads]
  const void* sink_logits = nullptr;
  /// with problem.sink_per_query: elements from the sink logits of a query to those of the next;
  /// 0: q_heads
  int64_t sink_stride = 0;
  const float* alibi_slopes = nullptr;  ///< [q_heads], with problem.alibi
  /// [q_heads or 1, tokens, >= context] of problem.bias_dtype, key index from the row's start. With
  /// problem.bias_per_sequence [q_heads or 1, >= new tokens of any sequence, >= context]: that of
  /// sequence 0, whose row t belongs to its new token t. A finite bias hides nothing, the largest
  /// and the smallest float included. -inf hides a key whose q . k is finite from that query and
  /// head, exactly as a mask does: a query left without keys gets o = 0, lse = -inf (or its sink
  /// logit), and the slot of a key that is hidden from every query of its sequence in every head is
  /// dead, its K and V may hold anything. NaN and +inf spoil the query.
  ConstTensor<3> bias = {};
  /// with problem.bias_per_sequence: from the bias of a sequence to that of the next; 0: all
  /// sequences share one
  int64_t bias_sequence_stride_bytes = 0;
};

/// The border check of attend alone: compares of numbers, no table walk; with problem.selection it
/// reads every slot of the lists. `function` begins the message; null: "check".
/// Errors: invalid_argument, naming the argument, what was expected and what came: also for a plan
///         of another Attention, a plan whose memory was planned again, and one that `plan` did not
///         make (as far as readable memory can tell).
[[nodiscard]] FOLIO_EXPORT Status check(const Attention& attention, const AttentionPlan& plan,
                                        const AttentionArgs& args,
                                        const char* function = "check") noexcept;

/// Writes o (and lse) of every query of the plan; a query that sees no key gets o = 0, lse = -inf
/// (or its sink logit).
///
/// Errors:  as check; invalid_argument for a workspace too small or misaligned (64 bytes) or an
///          executor without functions. Nothing is written then; internal if the executor throws or
///          leaves out tasks: the output is undefined then.
/// Effects: at most limits.parallelism tasks run at once. Visible keys of unassigned pages count as
/// invisible.
[[nodiscard]] FOLIO_EXPORT Status attend(const Attention& attention, const AttentionPlan& plan,
                                         const AttentionArgs& args, MemorySpan workspace,
                                         const Executor& executor) noexcept;

/// As `attend`, on the attention's device, with a plan made there by `plan_async` on the same
/// stream or one that waited for it: the work is put on `stream`, nothing waits for it, and it can
/// be captured. All arrays lie on the device, the workspace was prepared by `prepare_async`.
///
/// q, out, lse and bias have room for every token of the batch: the host does not know how many
/// there are, it checks that q has at most limits.tokens rows and that the others agree. Tokens
/// behind q's last row are left out.
///
/// Errors:  as attend, of what the host knows; invalid_argument where q or out are not aligned to
///          16 bytes; unsupported on the CPU, which has no streams; device, with the driver's
///          words.
///          Nothing is written then
[[nodiscard]] FOLIO_EXPORT Status attend_async(const Attention& attention,
                                               const AttentionPlan& plan, const AttentionArgs& args,
                                               MemorySpan workspace, Stream stream) noexcept;

/// Makes a device's workspace ready, once for its life: calls of attend_async leave it so. (After
/// an error of the device, once more.)
/// Errors: as attend_async, of the workspace.
[[nodiscard]] FOLIO_EXPORT Status prepare_async(const Attention& attention, MemorySpan workspace,
                                                Stream stream) noexcept;

/// For engines that already stand inside their own threads: `prepare` checks as attend does and
/// makes the workspace ready; then each task in [0, plan.num_tasks) is run exactly once with the
/// same arguments, on any thread, in any order. The last task of divided keys folds them.
///
/// Errors:  of prepare, as attend, under its own name; of attend_task, with nothing written:
///          invalid_argument for an Attention, plan or workspace that do not belong together, a
///          workspace that was not prepared for this plan, a task outside [0, plan.num_tasks).
///          `args` are those that prepare has checked
/// Effects: a workspace has scratch memory for limits.parallelism callers. While no more are inside
///          attend_task at once, each finds a place within a few atomic exchanges; a caller beyond
///          them spins, yielding its processor, until one of the others has finished its task
[[nodiscard]] FOLIO_EXPORT Status prepare(const Attention& attention, const AttentionPlan& plan,
                                          const AttentionArgs& args, MemorySpan workspace) noexcept;
[[nodiscard]] FOLIO_EXPORT Status attend_task(const Attention& attention, const AttentionPlan& plan,
                                              const AttentionArgs& args, MemorySpan workspace,
                                              int64_t task) noexcept;

}  // namespace folio::inline v1
