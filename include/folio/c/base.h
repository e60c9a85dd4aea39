// SPDX-License-Identifier: Apache-2.0
/// folio/c/base.h: codes, types, options; memory and threads: what all chapters of folio/c/folio.h
/// share.
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
  FOLIO_F4_E2M1 = 8,  // packed formats, of K and V, with scales beside them
  FOLIO_I4 = 9,
  FOLIO_Q8_0 = 10,  // from here block formats, of K and V
  FOLIO_Q4_0 = 11,
  FOLIO_Q4_1 = 12,
  FOLIO_Q5_0 = 13,
  FOLIO_Q5_1 = 14,
  FOLIO_IQ4_NL = 15,
  FOLIO_U4 = 16,  // from here packed formats again
  FOLIO_I4_HALVES = 17,
  FOLIO_U4_HALVES = 18
};

enum {  // zeros, of the scales of FOLIO_U4 and FOLIO_U4_HALVES
  FOLIO_ZEROS_NONE = 0,
  FOLIO_ZEROS_PATTERNS = 1,
  FOLIO_ZEROS_MINIMUM = 2,
  FOLIO_ZEROS_IN_SCALE = 3
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
  FOLIO_INT8_OPERANDS = 2048,
  FOLIO_Q_IS_TURNED = 4096,
  FOLIO_SELECTION_PER_HEAD = 8192
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
  int32_t zeros;
  int64_t page_stride_bytes, slot_stride_bytes, head_stride_bytes, granule_stride_bytes;
  const float* tensor_scale;
  int64_t zero_offset_bytes;  ///< with FOLIO_ZEROS_PATTERNS or FOLIO_ZEROS_MINIMUM
} folio_scale_view;

/// PagedKVView: where the bytes of one plane are. `scales` null: none. hadamard_block 0: no
/// rotation. A problem says has_channel_scales, and has no channel_scales.
typedef struct folio_kv_view {
  uint32_t struct_size;
  int32_t dtype;
  void* data;
  int32_t num_heads, head_size, page_size, hadamard_block;
  int64_t num_pages;
  int64_t page_stride_bytes, slot_stride_bytes, head_stride_bytes;
  const folio_scale_view* scales;
  uint32_t hadamard_sign_seed;
  int32_t has_channel_scales;
  const float* channel_scales;
} folio_kv_view;

/// K and V of one layer; `value` null for latent caches. A pair of pointers for ever: arrays of it
/// are passed.
typedef struct folio_kv_planes {
  const folio_kv_view* key;
  const folio_kv_view* value;
} folio_kv_planes;

#ifdef __cplusplus
}
#endif
// NOLINTEND
