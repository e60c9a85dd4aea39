// SPDX-License-Identifier: Apache-2.0
/// folio/c/mask.h: masks given as matrices in the C interface (folio/c/folio.h): which query sees
/// which key, where an engine has no table.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
// NOLINTEND
