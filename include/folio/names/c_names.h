// SPDX-License-Identifier: Apache-2.0
/// folio/names/c_names.h: page names as chains of SHA-256 (folio/names/sha256_names.h) in the C
/// interface (folio/c/folio.h). Of a library of its own: CMake's `folio::names`.
///
///   folio_sha256_names* names = NULL;
///   folio_create_sha256_names(NULL, &names, &message);
///   options.name_page = folio_name_page_by_sha256;
///   options.name_companion = folio_name_companion_by_sha256;  // of a pool with groups
///   options.name_context = names;
///
/// A handle is used by one thread at a time; all pools that have it count as its users, and end
/// before it.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/pool_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct folio_sha256_names folio_sha256_names;

/// Sha256NamesOptions. A null pointer: neither.
typedef struct folio_sha256_names_options {
  uint32_t struct_size;
  uint32_t reserved;
  /// the caller's digest of what K/V depend on beside tokens: model, geometry, element type, rank
  uint8_t fingerprint[32];
  const uint8_t* header;  ///< of every page's name, not of roots; copied
  size_t header_bytes;    ///< at most 256
} folio_sha256_names_options;

/// Errors: as for every struct, invalid_argument for the header, out_of_memory; *names is null then
FOLIO_C_EXPORT folio_code folio_create_sha256_names(const folio_sha256_names_options* options,
                                                    folio_sha256_names** names,
                                                    folio_message* message);
/// Takes null.
FOLIO_C_EXPORT void folio_destroy_sha256_names(folio_sha256_names* names);

/// A folio_pool_options::name_page whose name_context is a handle; without a pool, too: a page
/// without a parent begins the chain of its salt and adapter. Errors: invalid_argument for null,
/// null memory of some size, no tokens, or spans that are empty, out of order, overlapping, without
/// a token in the page, or more than the tokens; unsupported for a longer struct that is not zero
/// beyond this one. *name is not written then
FOLIO_C_EXPORT folio_code folio_name_page_by_sha256(void* names, const folio_page_content* page,
                                                    folio_page_name* name);
/// A folio_pool_options::name_companion whose name_context is a handle; without a pool, too. Of the
/// rule counts what belongs to it. Errors: invalid_argument for null, a group that is not 1 .. 255,
/// or a rule that is none; unsupported as above. *name is not written then
FOLIO_C_EXPORT folio_code folio_name_companion_by_sha256(void* names,
                                                         const folio_companion_content* companion,
                                                         folio_page_name* name);

#ifdef __cplusplus
}
#endif
// NOLINTEND
