// SPDX-License-Identifier: Apache-2.0
/// folio/c/cache.h: writing into caches and copying in the C interface (folio/c/folio.h).
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

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

enum { FOLIO_SUMMARY_BOUNDS = 0, FOLIO_SUMMARY_MEAN = 1 };  // kind

/// PageSummaries: `rows` is a plane of the same page ids as K, with the page size 2 (bounds) or 1
/// (mean), of f32, bf16 or f16, without scales. Copies take a page of it whole: for
/// folio_copy_pages `tokens` is that page size.
typedef struct folio_page_summaries {
  uint32_t struct_size;
  int32_t kind;
  const folio_kv_view* rows;
} folio_page_summaries;

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
  const float* k_norm_shift;  // with k_norm: a LayerNorm
  /// of the pages of `key`, brought up to date with what is written; null: there are none
  const folio_page_summaries* summaries;
} folio_append_args;

/// `batch` may be null where slots and, if there is a rope, its positions are given.
FOLIO_C_EXPORT folio_code folio_append(const folio_batch* batch, const folio_append_args* args,
                                       const folio_executor* executor, folio_message* message);

/// RotateArgs: norm, then rotation of q, as append does them to k; for `key`, if not null, q is
/// then turned. norm_eps 0: 1e-6.
typedef struct folio_rotate_args {
  uint32_t struct_size;
  float norm_eps;
  const folio_tensor* q;
  const folio_tensor* out;
  const folio_rope* rope;
  const float* q_norm;
  const folio_kv_view* key;
  const float* q_norm_shift;  // with q_norm: a LayerNorm
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

#ifdef __cplusplus
}
#endif
// NOLINTEND
