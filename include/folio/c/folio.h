// SPDX-License-Identifier: Apache-2.0
/// folio/c/folio.h: the C interface: attention, sparse attention, masks given as matrices, writing,
/// copying and the page pool, for C11 and for every language that calls C.
///
/// It mirrors the C++ interface call by call; what a call does, its shapes and its errors are told
/// there (folio/attention/*.h, folio/sparse/*.h, folio/cache/*.h, folio/pool/page_pool.h). This
/// header includes its chapters: base, attention, sparse, mask, cache and pool. What is C's own:
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
/// * Handles are opaque. An attention and an index are immutable: any thread may use them. A pool
///   and a mask reader are used by one thread at a time each.
/// * The environment variable FOLIO_FORCE_KERNEL, read once, names the kernel of every
///   folio_create_attention whose caller names none, FOLIO_FORCE_INDEX_KERNEL that of every
///   folio_create_index; an unknown name is an error there.
/// * Whoever allocates frees: plan memory, workspace, planes and tables are the caller's; what
///   folio_create_*, folio_attention_with_* and folio_index_with_limits return goes to
///   folio_destroy_*, which takes null.
/// * Strides, counts and extents whose products no memory holds (2^56 bytes) are
///   `invalid_argument`.
///
/// Enumerations are plain int32_t with fixed values.
#pragma once

#include "folio/c/attention.h"
#include "folio/c/base.h"
#include "folio/c/cache.h"
#include "folio/c/mask.h"
#include "folio/c/pool.h"
#include "folio/c/pool_events.h"
#include "folio/c/pool_functions.h"
#include "folio/c/pool_groups.h"
#include "folio/c/pool_io.h"
#include "folio/c/pool_loads.h"
#include "folio/c/sparse.h"

// NOLINTBEGIN: this header is C, with C's names

#ifdef __cplusplus
extern "C" {
#endif

/// Version of this interface: major << 16 | minor. Callers of one major version understand one
/// another.
FOLIO_C_EXPORT uint32_t folio_get_version(void);
/// "ok", "invalid_argument", ...
FOLIO_C_EXPORT const char* folio_get_code_name(folio_code code);

#ifdef __cplusplus
}
#endif
// NOLINTEND
