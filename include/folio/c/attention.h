// SPDX-License-Identifier: Apache-2.0
/// folio/c/attention.h: attention in the C interface (folio/c/folio.h).
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Batch: who is in the step. Arrays that are null are not given.
typedef struct folio_batch {
  uint32_t struct_size;
  int32_t size;
  const int32_t* query_offsets;
  const int32_t* context_lengths;
  const uint32_t* table_entries;
  int64_t table_row_stride;
  const int64_t* table_row_starts;
  const int32_t* query_positions;
  const int32_t* key_positions;
  const int32_t* visible_begin;
  const int32_t* visible_end;
  const uint64_t* tree;
  int32_t tree_words;
  int32_t selected_stride;
  const int32_t* selected;
  const int32_t* alibi_positions;
  int64_t alibi_positions_stride;
} folio_batch;

/// AttentionProblem. A zeroed mask shows a query its own key alone: begin with
/// FOLIO_CAUSAL_PROBLEM.
typedef struct folio_problem {
  uint32_t struct_size;
  int32_t q_heads;
  const folio_kv_view* key;
  const folio_kv_view* value;  ///< null with FOLIO_VALUE_IN_KEY
  int32_t v_head_size;
  int32_t q_dtype, out_dtype;
  /// -1: unlimited; causal is {-1, 0}. Default of a struct that ends before mask_left: causal
  int32_t mask_left, mask_right;
  /// Sink tokens are for full layers that are cut, not for a model's own window layers: Mask
  int32_t mask_chunk, mask_sink_tokens;
  int32_t options;
  float scale;  ///< 0: 1 / sqrt(head size)
  float softcap;
  int32_t reproducible;
  int32_t sink_dtype;  ///< of the sink logits and of the bias; 0: f32
  int32_t bias_dtype;
  int32_t reserved;
} folio_problem;

/// Initialises a folio_problem: causal, all else zero.
#define FOLIO_CAUSAL_PROBLEM \
  { .struct_size = sizeof(folio_problem), .mask_left = -1 }

/// AttentionLimits. batch, tokens and context are at least 1: they have no default. parallelism is
/// at most 16384; 0: as many tasks as the default executor runs at once. shared_levels is at most
/// 8; 0: the default, 2; -1: nothing is shared.
typedef struct folio_limits {
  uint32_t struct_size;
  int32_t batch, tokens, context, parallelism;
  int32_t shared_levels;
} folio_limits;

/// Mask, for folio_attention_with_mask: the mask_* of a folio_problem. Zeroed it shows a query its
/// own key alone: begin with FOLIO_CAUSAL_MASK.
typedef struct folio_mask {
  uint32_t struct_size;
  /// -1: unlimited; causal is {-1, 0}. Default of a struct that ends before left: causal
  int32_t left, right;
  /// Sink tokens are for full layers that are cut, not for a model's own window layers: Mask
  int32_t chunk, sink_tokens;
} folio_mask;

/// Initialises a folio_mask: causal, all else zero.
#define FOLIO_CAUSAL_MASK \
  { .struct_size = sizeof(folio_mask), .left = -1 }

typedef struct folio_attention folio_attention;

/// A view of plan memory: copy freely, share between threads. Its words are folio's.
typedef struct folio_plan {
  uint64_t words[4];
} folio_plan;

enum { FOLIO_IN_PLACE = 0, FOLIO_BY_CONTENT = 1 };  // borrowed arrays

/// PlanFingerprint: two words for ever, equal or not. Of this process and this build alone: not to
/// be stored.
typedef struct folio_plan_fingerprint {
  uint64_t low, high;
} folio_plan_fingerprint;

/// AttentionArgs: what changes from layer to layer.
typedef struct folio_args {
  uint32_t struct_size;
  uint32_t reserved;
  const folio_tensor* q;
  const folio_tensor* out;
  const folio_kv_view* key;
  const folio_kv_view* value;
  float* lse;
  const void* sink_logits;  ///< [q_heads], with FOLIO_SINK_PER_QUERY [tokens, q_heads]
  const float* alibi_slopes;
  /// finite values hide nothing, -infinity hides the key as a mask does
  const folio_tensor* bias;
  int64_t sink_stride;  ///< elements from query to query, with FOLIO_SINK_PER_QUERY; 0: q_heads
  int64_t bias_sequence_stride_bytes;  ///< with FOLIO_BIAS_PER_SEQUENCE
} folio_args;

// The first call in a process that has to know the machine (folio_refuse, folio_create_attention,
// folio_get_kernel_name and the calls that read or write a cache: folio_append, folio_rotate,
// folio_copy_*, and those of folio/c/sparse.h) asks Linux for permission to use AMX, where the
// processor has it: arch_prctl(ARCH_REQ_XCOMP_PERM), after which Linux wants larger alternate
// signal stacks.

/// Kernels of this build, best first, whether this machine runs them or not; the names, which live
/// as long as the program, are those that folio_create_attention takes. "" for an index outside
/// [0, folio_get_num_kernels()).
FOLIO_C_EXPORT int32_t folio_get_num_kernels(void);
FOLIO_C_EXPORT const char* folio_get_kernel_name(int32_t index);

/// Null if some kernel serves the problem, else the reason (it lives as long as the program).
/// `device_index` is not looked at for FOLIO_CPU.
FOLIO_C_EXPORT const char* folio_refuse(const folio_problem* problem, int32_t device_kind,
                                        int32_t device_index);
/// `kernel`: a name of the kernel list; null or "": FOLIO_FORCE_KERNEL, then the best that accepts.
FOLIO_C_EXPORT folio_code folio_create_attention(const folio_problem* problem,
                                                 const folio_limits* limits, int32_t device_kind,
                                                 int32_t device_index, const char* kernel,
                                                 folio_attention** attention,
                                                 folio_message* message);
/// Attention::with_limits and with_mask: the problem and the kernel of `attention` within other
/// limits, or under another mask. Nothing is selected again, and a plan belongs to the handle that
/// it was made with. What is made is a handle of its own, null if the call fails; both are
/// destroyed, in any order.
FOLIO_C_EXPORT folio_code folio_attention_with_limits(const folio_attention* attention,
                                                      const folio_limits* limits,
                                                      folio_attention** made,
                                                      folio_message* message);
FOLIO_C_EXPORT folio_code folio_attention_with_mask(const folio_attention* attention,
                                                    const folio_mask* mask, folio_attention** made,
                                                    folio_message* message);
FOLIO_C_EXPORT void folio_destroy_attention(folio_attention* attention);
FOLIO_C_EXPORT const char* folio_get_kernel(const folio_attention* attention);
FOLIO_C_EXPORT int64_t folio_get_plan_bytes(const folio_attention* attention);
FOLIO_C_EXPORT int64_t folio_get_workspace_bytes(const folio_attention* attention);

/// Once per step, into memory aligned to 64 bytes. Borrows the batch's table and per-query arrays
/// until the step's last attend.
FOLIO_C_EXPORT folio_code folio_make_plan(const folio_attention* attention,
                                          const folio_batch* batch, void* plan_memory,
                                          int64_t bytes, folio_plan* plan, folio_message* message);
FOLIO_C_EXPORT int64_t folio_get_num_tasks(const folio_plan* plan);
/// keys_read: of a KV head, shared ones once for each shared task; 0 where either is null, too.
FOLIO_C_EXPORT int64_t folio_get_keys_read(const folio_attention* attention,
                                           const folio_plan* plan);
/// plan_fingerprint: equal ones, and a plan of the one batch serves the other. `arrays`: whether
/// those that a plan borrows count by address and content (FOLIO_IN_PLACE: the plan serves the
/// batch as it is) or by content alone (FOLIO_BY_CONTENT: it serves as long as the arrays of the
/// batch that it was made of are there and hold what they held).
FOLIO_C_EXPORT folio_code folio_get_plan_fingerprint(const folio_attention* attention,
                                                     const folio_batch* batch, int32_t arrays,
                                                     folio_plan_fingerprint* fingerprint,
                                                     folio_message* message);

/// Once per layer.
FOLIO_C_EXPORT folio_code folio_attend(const folio_attention* attention, const folio_plan* plan,
                                       const folio_args* args, void* workspace, int64_t bytes,
                                       const folio_executor* executor, folio_message* message);
/// For callers with threads of their own: prepare once, then each task once, on any thread, in any
/// order, with equal arguments.
FOLIO_C_EXPORT folio_code folio_prepare(const folio_attention* attention, const folio_plan* plan,
                                        const folio_args* args, void* workspace, int64_t bytes,
                                        folio_message* message);
/// Checks what folio_prepare checks, and that the task is in [0, num_tasks).
FOLIO_C_EXPORT folio_code folio_attend_task(const folio_attention* attention,
                                            const folio_plan* plan, const folio_args* args,
                                            void* workspace, int64_t bytes, int64_t task,
                                            folio_message* message);

/// plan_async, prepare_async and attend_async, for an attention of FOLIO_CUDA: the batch's arrays,
/// the memories and what `args` points to lie on its device, the work is put on `stream` (a
/// cudaStream_t, or null for the default stream) and nothing waits for it; what was captured may be
/// replayed with other lengths. The workspace is prepared once for its life. What the host cannot
/// know of a batch it does not check: folio/attention/plan.h and attend.h say what happens then.
FOLIO_C_EXPORT folio_code folio_make_plan_async(const folio_attention* attention,
                                                const folio_batch* batch, void* plan_memory,
                                                int64_t bytes, void* stream, folio_plan* plan,
                                                folio_message* message);
FOLIO_C_EXPORT folio_code folio_prepare_async(const folio_attention* attention, void* workspace,
                                              int64_t bytes, void* stream, folio_message* message);
FOLIO_C_EXPORT folio_code folio_attend_async(const folio_attention* attention,
                                             const folio_plan* plan, const folio_args* args,
                                             void* workspace, int64_t bytes, void* stream,
                                             folio_message* message);

/// One part of a merge; a pair of pointers for ever: arrays of it are passed.
typedef struct folio_partial {
  const folio_tensor* out;
  const float* lse;
} folio_partial;

/// Parts of one merge at the most.
#define FOLIO_MAX_PARTS 64

/// num_parts is 1 to FOLIO_MAX_PARTS; `out` and `lse` may be those of one of the parts.
FOLIO_C_EXPORT folio_code folio_merge(const folio_partial* parts, int64_t num_parts,
                                      const folio_tensor* out, float* lse,
                                      const folio_executor* executor, folio_message* message);

#ifdef __cplusplus
}
#endif
// NOLINTEND
