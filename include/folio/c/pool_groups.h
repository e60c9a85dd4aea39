// SPDX-License-Identifier: Apache-2.0
/// folio/c/pool_groups.h: page pools of hybrid models in the C interface (folio/c/folio.h): layers
/// that keep the same form a group, and all groups share one arena of bytes.
///
/// What a pool does with groups stands in folio/pool/groups.h. All other calls of folio/c/pool.h
/// work on all groups; its tables, rows and copies are those of group 0, which leads.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {  // rule of a group: what the next token needs of those before it
  FOLIO_GROUP_FULL = 0,
  FOLIO_GROUP_WINDOW = 1,   ///< the last `window`, itself included, and the first `sinks`
  FOLIO_GROUP_CHUNKED = 2,  ///< those of its own chunk
  FOLIO_GROUP_STATE = 3,    ///< one state, in pages of `checkpoint` tokens
};

/// GroupOptions; what a rule has not is 0.
typedef struct folio_group {
  int32_t rule;  ///< FOLIO_GROUP_FULL ...; group 0 has that
  int32_t window, sinks, chunk, checkpoint;
  int32_t reserved;
  int64_t page_bytes;
} folio_group;

/// GroupFigures.
typedef struct folio_group_figures {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t num_pages;   ///< of its view of the arena; the sentinel of its table
  int64_t page_bytes;  ///< of the view
  int64_t page_size;   ///< tokens
  int64_t used_pages, cached_pages, free_pages, evicted_pages, peak_used_pages;
} folio_group_figures;

/// As folio_create_pool, with groups over an arena that says how many pages there are:
/// options->num_pages is 0.
FOLIO_C_EXPORT folio_code folio_create_group_pool(const folio_pool_options* options,
                                                  const folio_group* groups, int64_t num_groups,
                                                  int64_t arena_bytes, folio_pool** pool,
                                                  folio_message* message);
/// 1 without groups.
FOLIO_C_EXPORT folio_code folio_get_num_groups(const folio_pool* pool, int32_t* num_groups,
                                               folio_message* message);
/// Fills as much of the struct as its struct_size holds.
FOLIO_C_EXPORT folio_code folio_get_group(const folio_pool* pool, uint32_t group,
                                          folio_group_figures* figures, folio_message* message);
/// As folio_create_group_pool was given it; without groups a full one of 0 bytes.
FOLIO_C_EXPORT folio_code folio_get_group_options(const folio_pool* pool, uint32_t group,
                                                  folio_group* options, folio_message* message);
/// These three are folio_get_table, folio_get_batch_rows and folio_take_copies of one group.
FOLIO_C_EXPORT folio_code folio_get_group_table(const folio_pool* pool, uint32_t group,
                                                folio_table* table, folio_message* message);
FOLIO_C_EXPORT folio_code folio_get_group_rows(const folio_pool* pool, uint32_t group,
                                               const folio_sequence* sequences,
                                               int64_t num_sequences, int64_t* row_starts,
                                               folio_message* message);
FOLIO_C_EXPORT folio_code folio_take_group_copies(folio_pool* pool, uint32_t group,
                                                  const folio_page_copy** copies,
                                                  int64_t* num_copies, folio_message* message);

#ifdef __cplusplus
}
#endif
// NOLINTEND
