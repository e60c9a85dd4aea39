// SPDX-License-Identifier: Apache-2.0
/// folio/c/sparse.h: sparse attention in the C interface (folio/c/folio.h): which keys matter to a
/// query, as the lists that folio_batch::selected takes.
///
/// Shapes are those of the C++ structs that are named (folio/sparse/*.h), in elements; strides of
/// tensors and matrices are in bytes, those of lists in entries. Every array is the caller's, as is
/// the workspace, which is aligned to 64 bytes. Calls may run at once on any threads as long as
/// they share neither lists nor a workspace; they allocate nothing. On CPUs: a batch with a tree
/// and other devices are `unsupported`.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/cache.h"

#ifdef __cplusplus
extern "C" {
#endif

/// [extent[0], extent[1]], strides in bytes; the last dimension is contiguous.
typedef struct folio_matrix {
  uint32_t struct_size;
  int32_t dtype;
  void* data;
  int64_t extent[2];
  int64_t stride_bytes[2];
} folio_matrix;

// ---- the keys that an indexer chooses: folio/sparse/index.h, folio/sparse/select.h

enum {  // options of a folio_index_problem, joined by |
  FOLIO_INDEX_NO_WEIGHTS = 1,
  FOLIO_INDEX_NO_RELU = 2,
  FOLIO_INDEX_INTERVALS = 4,
  FOLIO_INDEX_BF16_OPERANDS = 8,
  FOLIO_INDEX_Q_IS_TURNED = 16
};

enum { FOLIO_INDEX_LISTS_PER_QUERY = 0, FOLIO_INDEX_LISTS_PER_HEAD = 1 };  // lists

/// IndexProblem. A zeroed mask shows a query its own key alone: begin with FOLIO_CAUSAL_INDEX.
typedef struct folio_index_problem {
  uint32_t struct_size;
  int32_t q_heads;
  const folio_kv_view* key;
  int32_t q_dtype;
  int32_t weight_dtype;  ///< 0: f32
  int32_t options;
  int32_t lists;
  int32_t block_keys;  ///< 0: 1
  /// -1: unlimited; causal is {-1, 0}. Default of a struct that ends before mask_left: causal
  int32_t mask_left, mask_right;
  int32_t mask_chunk, mask_sink_tokens;
  float scale;  ///< 0: 1 / sqrt(head size)
} folio_index_problem;

/// Initialises a folio_index_problem: causal, all else zero.
#define FOLIO_CAUSAL_INDEX \
  { .struct_size = sizeof(folio_index_problem), .mask_left = -1 }

/// IndexLimits. batch, tokens and context are at least 1: they have no default. top is at most
/// 4096; 0: 2048. parallelism is at most 16384; 0: as many tasks as the default executor runs at
/// once.
typedef struct folio_index_limits {
  uint32_t struct_size;
  int32_t batch, tokens, context, top, parallelism;
} folio_index_limits;

/// Index: the kernel of one problem, and limits. Immutable: any thread may use it.
typedef struct folio_index folio_index;

/// ScoreArgs: what changes from layer to layer.
typedef struct folio_score_args {
  uint32_t struct_size;
  uint32_t reserved;
  const folio_tensor* q;
  const folio_matrix* weights;  ///< null with FOLIO_INDEX_NO_WEIGHTS
  const folio_kv_view* key;
} folio_score_args;

enum { FOLIO_LIST_SLOTS = 0, FOLIO_LIST_KEYS = 1 };  // entries

/// SelectArgs. page_size 0: slots are those of score->key, by the batch's table.
typedef struct folio_select_args {
  uint32_t struct_size;
  int32_t k;
  const folio_score_args* score;
  int32_t* lists;  ///< [tokens, k], rows `stride` entries apart
  int64_t stride;
  int32_t entries;
  int32_t page_size;
  int64_t num_pages;
  const uint32_t* table_entries;
  int64_t table_row_stride;
  const int64_t* table_row_starts;
} folio_select_args;

/// Null if some kernel serves the problem, else the reason (it lives as long as the program).
/// `device_index` is not looked at for FOLIO_CPU.
FOLIO_C_EXPORT const char* folio_refuse_index(const folio_index_problem* problem,
                                              int32_t device_kind, int32_t device_index);
/// `kernel`: a name that folio_get_index_kernel gave; null or "": FOLIO_FORCE_INDEX_KERNEL, then
/// the best that accepts. Errors: invalid_argument for a broken problem, limits or name;
/// `unsupported` with the reason.
FOLIO_C_EXPORT folio_code folio_create_index(const folio_index_problem* problem,
                                             const folio_index_limits* limits, int32_t device_kind,
                                             int32_t device_index, const char* kernel,
                                             folio_index** index, folio_message* message);
/// Index::with_limits: a handle of its own, null if the call fails; both are destroyed, in any
/// order.
FOLIO_C_EXPORT folio_code folio_index_with_limits(const folio_index* index,
                                                  const folio_index_limits* limits,
                                                  folio_index** made, folio_message* message);
FOLIO_C_EXPORT void folio_destroy_index(folio_index* index);
/// "" of a null handle; otherwise it lives as long as the program.
FOLIO_C_EXPORT const char* folio_get_index_kernel(const folio_index* index);
/// What each of the next two calls needs, whatever the batch; 0 of a null handle.
FOLIO_C_EXPORT int64_t folio_get_index_workspace_bytes(const folio_index* index);

/// score_index: scores[t][j], f32, of key first_key + j of t's sequence, -infinity where t does not
/// see it. FOLIO_INTERNAL leaves the scores undefined.
FOLIO_C_EXPORT folio_code folio_score_index(const folio_index* index, const folio_batch* batch,
                                            const folio_score_args* args, int32_t first_key,
                                            const folio_matrix* scores, void* workspace,
                                            int64_t bytes, const folio_executor* executor,
                                            folio_message* message);
/// select_keys: the k best keys of each query in ascending order, -1 behind them: as
/// folio_score_index, folio_select_top and folio_remap would list them, without the scores in
/// memory. FOLIO_INTERNAL leaves the lists undefined.
FOLIO_C_EXPORT folio_code folio_select_keys(const folio_index* index, const folio_batch* batch,
                                            const folio_select_args* args, void* workspace,
                                            int64_t bytes, const folio_executor* executor,
                                            folio_message* message);

/// TopArgs.
typedef struct folio_top_args {
  uint32_t struct_size;
  int32_t k;                   ///< 1 to 4096
  const folio_matrix* scores;  ///< [tokens, keys] of f32
  const int32_t* lengths;      ///< [tokens]; null: all
  int32_t* indices;            ///< [tokens, k], rows `stride` entries apart
  int64_t stride;
} folio_top_args;

/// select_top_bytes; 0 for a k or a parallelism that there cannot be.
FOLIO_C_EXPORT int64_t folio_get_select_top_bytes(int32_t k, int32_t parallelism);
/// select_top: the k greatest scores of each row by their indices, of equal ones the lower.
FOLIO_C_EXPORT folio_code folio_select_top(const folio_top_args* args, void* workspace,
                                           int64_t bytes, const folio_executor* executor,
                                           folio_message* message);

/// RemapArgs.
typedef struct folio_remap_args {
  uint32_t struct_size;
  int32_t count;           ///< entries of a list
  const int32_t* indices;  ///< [tokens, count], rows `stride` entries apart
  int64_t stride;
  int32_t* slots;  ///< [tokens, count], rows `slots_stride` entries apart; may be `indices`
  int64_t slots_stride;
  int64_t num_pages;
  int32_t page_size;
  int32_t reserved;
} folio_remap_args;

/// remap: keys of each query's sequence to slots, by the batch's table; -1 and keys of unassigned
/// pages become -1. An index outside [-1, context) is `invalid_argument`.
FOLIO_C_EXPORT folio_code folio_remap(const folio_batch* batch, const folio_remap_args* args,
                                      const folio_executor* executor, folio_message* message);

// ---- the pages that summaries choose: folio/sparse/pages.h

/// FilledPage; the same two words for ever: arrays are passed.
typedef struct folio_filled_page {
  uint32_t page;
  int32_t slots;
} folio_filled_page;

/// summarise: makes the summaries of `pages`, each listed once, from K as it lies there.
/// FOLIO_INTERNAL leaves those undefined.
FOLIO_C_EXPORT folio_code folio_summarise(const folio_kv_view* key,
                                          const folio_page_summaries* summaries,
                                          const folio_filled_page* pages, int64_t num_pages,
                                          const folio_executor* executor, folio_message* message);

enum { FOLIO_PAGE_LISTS_PER_QUERY = 0, FOLIO_PAGE_LISTS_PER_KV_HEAD = 1 };  // lists
enum { FOLIO_PAGE_SCORE_GREATEST = 0, FOLIO_PAGE_SCORE_SUM = 1 };           // score

/// PageArgs. A zeroed mask shows a query its own key alone: begin with FOLIO_CAUSAL_PAGES.
typedef struct folio_page_args {
  uint32_t struct_size;
  int32_t page_size;  ///< of K and V
  const folio_tensor* q;
  const folio_page_summaries* summaries;
  /// -1: unlimited; causal is {-1, 0}. Default of a struct that ends before mask_left: causal
  int32_t mask_left, mask_right;
  int32_t mask_chunk, mask_sink_tokens;
  int32_t intervals;  ///< 1: visible_begin and visible_end of the batch replace the mask
  float scale;        ///< 0: 1 / sqrt(head size)
  int32_t lists;
  int32_t score;
  int32_t k_pages;                  ///< pages of a list, 1 to 4096
  int32_t first_pages, last_pages;  ///< always among them; 0: the default, 1; -1: none
  int32_t reserved;
  /// [tokens, k_pages * page_size], per_kv_head [tokens, KV heads, ..]: rows `stride` entries apart
  int32_t* selected;
  int64_t stride;
  float* missed;  ///< [tokens, q_heads], with bounds; null: not wanted
} folio_page_args;

/// Initialises a folio_page_args: causal, all else zero.
#define FOLIO_CAUSAL_PAGES \
  { .struct_size = sizeof(folio_page_args), .mask_left = -1 }

/// select_pages_bytes, of contexts of up to `context` keys; 0 for what there cannot be. Of `args`
/// it takes extents of q, the summaries' head size, page_size and k_pages.
FOLIO_C_EXPORT int64_t folio_get_select_pages_bytes(const folio_page_args* args, int32_t context,
                                                    int32_t parallelism);
/// select_pages: the keys of the best pages of each query, by their slots in ascending order of
/// keys, -1 behind them. FOLIO_INTERNAL leaves the lists undefined.
FOLIO_C_EXPORT folio_code folio_select_pages(const folio_batch* batch, const folio_page_args* args,
                                             void* workspace, int64_t bytes,
                                             const folio_executor* executor,
                                             folio_message* message);

#ifdef __cplusplus
}
#endif
// NOLINTEND
