// SPDX-License-Identifier: Apache-2.0
/// folio/c/folio.h: the C interface: attention, masks given as matrices, writing, copying and the
/// page pool, for C11 and for every language that calls C.
///
/// It mirrors the C++ interface call by call; what a call does, its shapes and its errors are told
/// there (folio/attention/*.h, folio/cache/*.h, folio/pool/page_pool.h). What is C's own:
///
/// * A struct that may grow begins with `struct_size`, which the caller sets to sizeof (or
///   initialises by FOLIO_STRUCT). It grows at the end only and is embedded nowhere; others hold
///   pointers to it. Zero is the default of every field, unless said otherwise; a shorter struct of
///   an older caller is taken with the defaults for what it lacks. A longer struct of a newer
///   caller is taken if all it has beyond is zero, otherwise it is `unsupported`, and a `reserved`
///   other than 0 is `invalid_argument`: nothing is ignored.
/// * Every call that can fail returns a code and, if `message` is not null, leaves a text there:
///   why, or "" on success. Nothing is thrown, and no state is kept per thread. A call that fails
///   writes no output (but for memory that it was handed to work in); what makes a handle leaves
///   null.
/// * Null pointers, and numbers that are out of range wherever that can be seen, are
///   `invalid_argument`. What an array holds behind its pointer is the caller's word.
/// * Handles are opaque. An attention is immutable: any thread may use it. A pool and a mask reader
///   are used by one thread at a time each.
/// * The environment variable FOLIO_FORCE_KERNEL, read once, names the kernel of every
///   folio_create_attention whose caller names none; an unknown name is an error there.
/// * Whoever allocates frees: plan memory, workspace, planes and tables are the caller's; what
///   folio_create_* and folio_attention_with_* return goes to folio_destroy_*, which takes null.
/// * Strides, counts and extents whose products no memory holds (2^56 bytes) are
///   `invalid_argument`.
///
/// Enumerations are plain int32_t with fixed values.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define FOLIO_C_EXPORT __attribute__((visibility("default")))
#else
#define FOLIO_C_EXPORT
#endif

/// folio_limits limits = FOLIO_STRUCT(folio_limits);   (C only; in C++: folio_limits limits{sizeof
///                                                     limits})
#define FOLIO_STRUCT(type) \
  { .struct_size = sizeof(type) }

#ifdef __cplusplus
extern "C" {
#endif

// ---- codes, types, options

typedef int32_t folio_code;
enum {
  FOLIO_OK = 0,
  FOLIO_INVALID_ARGUMENT = 1,
  FOLIO_UNSUPPORTED = 2,
  FOLIO_OUT_OF_PAGES = 3,
  FOLIO_OUT_OF_MEMORY = 4,
  FOLIO_BUSY = 5,
  FOLIO_IO = 6,
  FOLIO_DEVICE = 7,
  FOLIO_INTERNAL = 8
};

enum {  // dtype
  FOLIO_DTYPE_INVALID = 0,
  FOLIO_F32 = 1,
  FOLIO_F16 = 2,
  FOLIO_BF16 = 3,
  FOLIO_F8_E4M3 = 4,
  FOLIO_F8_E5M2 = 5,
  FOLIO_F8_E8M0 = 6,
  FOLIO_I8 = 7,
  FOLIO_Q8_0 = 10,  // from here block formats, of K and V
  FOLIO_Q4_0 = 11,
  FOLIO_Q4_1 = 12,
  FOLIO_Q5_0 = 13,
  FOLIO_Q5_1 = 14,
  FOLIO_IQ4_NL = 15
};

enum { FOLIO_CPU = 0, FOLIO_CUDA = 1 };                                    // device
enum { FOLIO_PER_PLAN = 0, FOLIO_PER_SEQUENCE = 1, FOLIO_PER_QUERY = 2 };  // reproducible

enum {  // options of a problem, joined by |
  FOLIO_VALUE_IN_KEY = 1,
  FOLIO_SINK_LOGITS = 2,
  FOLIO_ALIBI = 4,
  FOLIO_BIAS = 8,
  FOLIO_INTERVALS = 16,
  FOLIO_TREE = 32,
  FOLIO_SELECTION = 64,
  FOLIO_SINK_PER_QUERY = 128,
  FOLIO_BIAS_PER_SEQUENCE = 256,
  FOLIO_ALIBI_POSITIONS = 512,
  FOLIO_BF16_OPERANDS = 1024,
  FOLIO_INT8_OPERANDS = 2048
};

/// The page size of planes without pages: one run of slots per sequence.
#define FOLIO_UNBOUNDED_PAGE_SIZE INT32_MAX

/// Always terminated; longer texts are cut.
typedef struct folio_message {
  char text[512];
} folio_message;

// ---- memory and threads

/// Runs task(arg, i) once for each i in [0, n), on any threads in any order, and returns when all
/// have returned. `concurrency` says how many may run at once. A null pointer to an executor:
/// everything on the calling thread. Neither function may unwind (longjmp, an exception of another
/// language, a panic). A call whose executor leaves out tasks returns FOLIO_INTERNAL, and its
/// output is undefined.
typedef struct folio_executor {
  uint32_t struct_size;
  uint32_t reserved;
  void* context;
  int (*concurrency)(void* context);
  void (*parallel_for)(void* context, int64_t n, void (*task)(void* arg, int64_t i), void* arg);
} folio_executor;

/// The library's own threads, started at first use. `threads` <= 0: as many as the machine offers.
FOLIO_C_EXPORT folio_code folio_get_default_executor(int32_t threads, folio_executor* executor,
                                                     folio_message* message);

/// Threads of folio's own, for callers who have none: they sleep 0.2 ms after a call, and a call
/// waits for no thread that has begun nothing. Beside an OpenMP team the default is faster.
FOLIO_C_EXPORT folio_code folio_get_thread_pool_executor(int32_t threads, folio_executor* executor,
                                                         folio_message* message);

/// [extent[0], extent[1], extent[2]], strides in bytes; the last dimension is contiguous. For bias:
/// [heads or 1, tokens, keys].
typedef struct folio_tensor {
  uint32_t struct_size;
  int32_t dtype;
  void* data;
  int64_t extent[3];
  int64_t stride_bytes[3];
} folio_tensor;

/// ScaleView: a stride of 0 broadcasts.
typedef struct folio_scale_view {
  uint32_t struct_size;
  int32_t dtype;
  void* data;
  int32_t granularity;
  int32_t reserved;
  int64_t page_stride_bytes, slot_stride_bytes, head_stride_bytes, granule_stride_bytes;
  const float* tensor_scale;
} folio_scale_view;

/// PagedKVView: where the bytes of one plane are. `scales` null: none.
typedef struct folio_kv_view {
  uint32_t struct_size;
  int32_t dtype;
  void* data;
  int32_t num_heads, head_size, page_size, reserved;
  int64_t num_pages;
  int64_t page_stride_bytes, slot_stride_bytes, head_stride_bytes;
  const folio_scale_view* scales;
} folio_kv_view;

/// K and V of one layer; `value` null for latent caches. A pair of pointers for ever: arrays of it
/// are passed.
typedef struct folio_kv_planes {
  const folio_kv_view* key;
  const folio_kv_view* value;
} folio_kv_planes;

// ---- attention

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
/// at most 16384; 0: as many tasks as the default executor runs at once.
typedef struct folio_limits {
  uint32_t struct_size;
  int32_t batch, tokens, context, parallelism;
} folio_limits;

/// Mask, for folio_attention_with_mask: the mask_* of a folio_problem. Zeroed it shows a query its
/// own key alone: begin with FOLIO_CAUSAL_MASK.
typedef struct folio_mask {
  uint32_t struct_size;
  /// -1: unlimited; causal is {-1, 0}. Default of a struct that ends before left: causal
  int32_t left, right;
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
// folio_copy_*) asks Linux for permission to use AMX, where the processor has it:
// arch_prctl(ARCH_REQ_XCOMP_PERM), after which Linux wants larger alternate signal stacks.

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

// ---- masks given as matrices: which query sees which key, where an engine has no table

/// MaskReader: reads masks, and keeps its memory between calls.
typedef struct folio_mask_reader folio_mask_reader;

/// MaskMatrix: [streams, 1 or q_heads, queries, keys] of f32, f16 or bf16, strides in bytes; keys
/// are contiguous. -infinity: hidden; 0 or -0: seen; any other number is seen and joins the logit.
typedef struct folio_mask_matrix {
  uint32_t struct_size;
  int32_t dtype;
  const void* data;
  int64_t extent[4];
  int64_t stride_bytes[4];
} folio_mask_matrix;

/// MaskBits: bit j % 8 of byte j / 8 of a row: the query sees key j.
typedef struct folio_mask_bits {
  uint32_t struct_size;
  uint32_t reserved;
  const void* bits;
  int64_t streams, queries, keys;
  int64_t stream_stride_bytes, query_stride_bytes;
} folio_mask_bits;

/// MaskOptions. A null pointer: the defaults.
typedef struct folio_mask_options {
  uint32_t struct_size;
  int32_t q_heads;            ///< of slopes and of masks per head
  const int64_t* first_rows;  ///< [streams] row of the plane of key 0; null: stream * keys
  const float* slopes;        ///< [q_heads], those of ALiBi; null: none
} folio_mask_options;

enum { FOLIO_MASK_RUNS = 0, FOLIO_MASK_CELLS = 1, FOLIO_MASK_BIAS = 2 };  // form

/// MaskedBatch: what was read. `batch` and `bias` go to folio_make_plan and folio_args as they are;
/// both, and all that they point to but a bias in place, are the reader's until it reads again or
/// is destroyed. After a read that fails they are refused wherever they are given.
typedef struct folio_masked_batch {
  uint32_t struct_size;
  int32_t form;
  int32_t page_size;                                  ///< FOLIO_UNBOUNDED_PAGE_SIZE, or 1
  int32_t alibi, alibi_positions, bias_per_sequence;  ///< 0 or 1
  int32_t tokens, context;  ///< limits at the least, where they are not 0; batch->size is another
  const folio_batch* batch;
  const folio_tensor* bias;  ///< of form bias, otherwise null
  int64_t bias_sequence_stride_bytes;
} folio_masked_batch;

FOLIO_C_EXPORT folio_code folio_create_mask_reader(folio_mask_reader** reader,
                                                   folio_message* message);
FOLIO_C_EXPORT void folio_destroy_mask_reader(folio_mask_reader* reader);
/// These two, MaskReader::read, fill as much of `masked` as its struct_size holds; `unsupported` if
/// what it lacks is not 0.
FOLIO_C_EXPORT folio_code folio_read_mask_matrix(folio_mask_reader* reader,
                                                 const folio_mask_matrix* mask,
                                                 const folio_mask_options* options,
                                                 folio_masked_batch* masked,
                                                 folio_message* message);
FOLIO_C_EXPORT folio_code folio_read_mask_bits(folio_mask_reader* reader,
                                               const folio_mask_bits* mask,
                                               const folio_mask_options* options,
                                               folio_masked_batch* masked, folio_message* message);
/// masked_problem: `made` is `problem` as attention over what was read takes it, over the planes
/// `key` and `value`: copies of the problem's with another page size, which folio_args takes too.
/// `value` may be null where the problem's is. Structs may be those of `problem`; they are filled
/// as by folio_read_mask_matrix.
FOLIO_C_EXPORT folio_code folio_masked_problem(const folio_problem* problem,
                                               const folio_masked_batch* masked,
                                               folio_problem* made, folio_kv_view* key,
                                               folio_kv_view* value, folio_message* message);

// ---- writing and copying

/// Rope: rotation by table.
typedef struct folio_rope {
  uint32_t struct_size;
  int32_t dims;
  const float* cos_sin;
  int64_t rows;
  int32_t interleaved;
  int32_t first_dim;
  const int32_t* positions;
} folio_rope;

/// AppendArgs. norm_eps 0: 1e-6.
typedef struct folio_append_args {
  uint32_t struct_size;
  float norm_eps;
  const folio_tensor* k;
  const folio_tensor* v;
  const folio_kv_view* key;
  const folio_kv_view* value;
  const int64_t* slots;
  const folio_rope* rope;
  const float* k_norm;
} folio_append_args;

/// `batch` may be null where slots and, if there is a rope, its positions are given.
FOLIO_C_EXPORT folio_code folio_append(const folio_batch* batch, const folio_append_args* args,
                                       const folio_executor* executor, folio_message* message);

/// RotateArgs: norm, then rotation of q, as append does them to k. norm_eps 0: 1e-6.
typedef struct folio_rotate_args {
  uint32_t struct_size;
  float norm_eps;
  const folio_tensor* q;
  const folio_tensor* out;
  const folio_rope* rope;
  const float* q_norm;
} folio_rotate_args;

FOLIO_C_EXPORT folio_code folio_rotate(const folio_batch* batch, const folio_rotate_args* args,
                                       const folio_executor* executor, folio_message* message);

/// The same three words for ever, as PageCopy and SlotCopy: arrays are passed.
typedef struct folio_page_copy {
  uint32_t from, to;
  int32_t tokens;
} folio_page_copy;
typedef struct folio_slot_copy {
  int64_t from, to;
} folio_slot_copy;

/// Layers of one call at the most.
#define FOLIO_MAX_PLANES 256

FOLIO_C_EXPORT folio_code folio_copy_pages(const folio_kv_planes* from, const folio_kv_planes* to,
                                           int64_t num_planes, const folio_page_copy* copies,
                                           int64_t num_copies, const folio_executor* executor,
                                           folio_message* message);
FOLIO_C_EXPORT folio_code folio_copy_slots(const folio_kv_planes* from, const folio_kv_planes* to,
                                           int64_t num_planes, const folio_slot_copy* copies,
                                           int64_t num_copies, const folio_executor* executor,
                                           folio_message* message);

/// append_async, rotate_async, copy_pages_async and copy_slots_async: on `device_index` of
/// `device_kind` FOLIO_CUDA, where all arrays lie (copies: or in pinned host memory), on `stream`;
/// nothing waits for it. What entries do that the host cannot read: folio/attention/append.h,
/// folio/attention/rotate.h, folio/cache/copy.h.
FOLIO_C_EXPORT folio_code folio_append_async(const folio_batch* batch,
                                             const folio_append_args* args, int32_t device_kind,
                                             int32_t device_index, void* stream,
                                             folio_message* message);
FOLIO_C_EXPORT folio_code folio_rotate_async(const folio_batch* batch,
                                             const folio_rotate_args* args, int32_t device_kind,
                                             int32_t device_index, void* stream,
                                             folio_message* message);
FOLIO_C_EXPORT folio_code folio_copy_pages_async(const folio_kv_planes* from,
                                                 const folio_kv_planes* to, int64_t num_planes,
                                                 const folio_page_copy* copies, int64_t num_copies,
                                                 int32_t device_kind, int32_t device_index,
                                                 void* stream, folio_message* message);
FOLIO_C_EXPORT folio_code folio_copy_slots_async(const folio_kv_planes* from,
                                                 const folio_kv_planes* to, int64_t num_planes,
                                                 const folio_slot_copy* copies, int64_t num_copies,
                                                 int32_t device_kind, int32_t device_index,
                                                 void* stream, folio_message* message);

// ---- the page pool

typedef struct folio_pool folio_pool;
/// never 0; that of a released sequence is an error, not its successor
typedef uint64_t folio_sequence;
typedef uint64_t folio_step;

enum { FOLIO_LRU = 0, FOLIO_S3_FIFO = 1, FOLIO_LFU = 2 };  // eviction

/// PoolOptions. Zero is the default: page_size 16, max_sequences 256, max_pages_per_sequence
/// num_pages, max_namespaces 256, prefix reuse on, eviction of what was released first, allocation
/// by the C++ runtime, a hash_seed drawn from the system's randomness.
typedef struct folio_pool_options {
  uint32_t struct_size;
  uint32_t num_pages;
  int32_t page_size;
  uint32_t max_sequences;
  uint32_t max_pages_per_sequence;
  uint32_t max_namespaces;
  int32_t no_prefix_reuse;
  int32_t eviction;  ///< FOLIO_LRU ...
  void* (*allocate)(void* context, size_t bytes, size_t align);
  void (*deallocate)(void* context, void* memory, size_t bytes);
  void* context;
  uint64_t hash_seed;
} folio_pool_options;

/// Pages are shared only between sequences with equal salt and equal adapter. A null pointer:
/// neither.
typedef struct folio_sequence_options {
  uint32_t struct_size;
  uint32_t reserved;
  const char* salt;
  size_t salt_bytes;
  uint64_t adapter;
} folio_sequence_options;

/// A folio_batch's table. Base and stride never change; a sequence's row begins at
/// folio_get_row_start; folio_get_batch_rows: of all sequences of a batch.
typedef struct folio_table {
  uint32_t struct_size;
  uint32_t reserved;
  const uint32_t* entries;
  int64_t row_stride;
} folio_table;

typedef struct folio_pool_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t lookup_pages, hit_pages, hit_tokens, evicted_pages;
  int64_t used_pages, peak_used_pages, cached_pages, free_pages;
  int64_t sequences, unfinished_steps;
} folio_pool_stats;

FOLIO_C_EXPORT folio_code folio_create_pool(const folio_pool_options* options, folio_pool** pool,
                                            folio_message* message);
FOLIO_C_EXPORT void folio_destroy_pool(folio_pool* pool);
FOLIO_C_EXPORT folio_code folio_peek(const folio_pool* pool, const int32_t* prompt,
                                     int64_t num_tokens, const folio_sequence_options* options,
                                     int32_t* cached_tokens, folio_message* message);
FOLIO_C_EXPORT folio_code folio_admit(folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                                      const folio_sequence_options* options,
                                      folio_sequence* sequence, int32_t* cached_tokens,
                                      folio_message* message);
FOLIO_C_EXPORT folio_code folio_reserve(folio_pool* pool, folio_sequence sequence,
                                        int32_t new_tokens, folio_message* message);
FOLIO_C_EXPORT folio_code folio_commit(folio_pool* pool, folio_sequence sequence,
                                       const int32_t* written, int64_t num_tokens,
                                       folio_message* message);
FOLIO_C_EXPORT folio_code folio_trim(folio_pool* pool, folio_sequence sequence, int32_t length,
                                     folio_message* message);
FOLIO_C_EXPORT folio_code folio_fork(folio_pool* pool, folio_sequence sequence, int32_t length,
                                     folio_sequence* forked, folio_message* message);
FOLIO_C_EXPORT folio_code folio_release(folio_pool* pool, folio_sequence sequence,
                                        folio_message* message);
/// The array stays until the next call.
FOLIO_C_EXPORT folio_code folio_take_copies(folio_pool* pool, const folio_page_copy** copies,
                                            int64_t* num_copies, folio_message* message);
FOLIO_C_EXPORT folio_code folio_begin_step(folio_pool* pool, const folio_sequence* sequences,
                                           int64_t num_sequences, folio_step* step,
                                           folio_message* message);
FOLIO_C_EXPORT folio_code folio_end_step(folio_pool* pool, folio_step step, folio_message* message);
FOLIO_C_EXPORT folio_code folio_get_length(const folio_pool* pool, folio_sequence sequence,
                                           int32_t* length, folio_message* message);
FOLIO_C_EXPORT folio_code folio_get_row_start(const folio_pool* pool, folio_sequence sequence,
                                              int64_t* row_start, folio_message* message);
/// row_starts[i]: where the row of sequences[i] begins: a folio_batch's table_row_starts. A stale
/// sequence is invalid_argument, and nothing is written.
FOLIO_C_EXPORT folio_code folio_get_batch_rows(const folio_pool* pool,
                                               const folio_sequence* sequences,
                                               int64_t num_sequences, int64_t* row_starts,
                                               folio_message* message);
/// These two fill as much of the struct as its struct_size holds.
FOLIO_C_EXPORT folio_code folio_get_table(const folio_pool* pool, folio_table* table,
                                          folio_message* message);
FOLIO_C_EXPORT folio_code folio_get_pool_stats(const folio_pool* pool, folio_pool_stats* stats,
                                               folio_message* message);

// ---- about

/// Version of this interface: major << 16 | minor. Callers of one major version understand one
/// another.
FOLIO_C_EXPORT uint32_t folio_get_version(void);
/// "ok", "invalid_argument", ...
FOLIO_C_EXPORT const char* folio_get_code_name(folio_code code);

#ifdef __cplusplus
}
#endif
// NOLINTEND
