// SPDX-License-Identifier: Apache-2.0
/// folio/c/pool_loads.h: pages that lie elsewhere and come into a page pool, in the C interface
/// (folio/c/folio.h): what memory has of a prompt group by group, room for the rest, and what the
/// pool gives up. Without groups a pool has group 0 alone.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/pool_io.h"

#ifdef __cplusplus
extern "C" {
#endif

/// PageParts: bits of groups, 1 of group 0.
typedef struct folio_page_parts {
  uint32_t struct_size;
  uint32_t present;  ///< have the page; a state: after the last of its tokens
  uint32_t held;     ///< of these, those in the sequence's rows
  uint32_t likely;   ///< of these, what a likely hit of the sequence needs
} folio_page_parts;

/// PromptPage: leading page `position` of a prompt, or what another group has beside it.
typedef struct folio_prompt_page {
  int32_t position;
  uint32_t group;
} folio_prompt_page;

/// EvictionFunction: is asked when a cached page of `group` is about to be taken for new content,
/// and gives the pin of a page with nothing in it, which is taken instead: the pin then holds the
/// evicted page, whose bytes stay until folio_end_io. 0: the page goes. `name` is that of the page,
/// or of the leading page whose companion it is. Called as folio_pool_options::on_event is.
typedef struct folio_eviction_watcher {
  uint32_t struct_size;
  uint32_t reserved;
  folio_io_pin (*function)(void* context, uint32_t group, uint32_t page,
                           const folio_page_name* name);
  void* context;
  /// Null, or is told, instead, of a page that goes with its whole slab to another group: no page
  /// can take its place, and its bytes are there until this returns.
  void (*leaving)(void* context, uint32_t group, uint32_t page, const folio_page_name* name);
} folio_eviction_watcher;

/// The name of what `group` has of the sequence's full page `position`, whether it has it or not;
/// of group 0 as folio_get_page_name.
FOLIO_C_EXPORT folio_code folio_get_companion_name(folio_pool* pool, folio_sequence sequence,
                                                   int32_t position, uint32_t group,
                                                   folio_page_name* name, folio_message* message);
/// names[i]: that of what `group`, not 0, has of the page of leading[i]; [num_names] both. Needs
/// folio_pool_options::name_companion.
FOLIO_C_EXPORT folio_code folio_get_companion_names(folio_pool* pool, uint32_t group,
                                                    const folio_page_name* leading,
                                                    folio_page_name* names, int64_t num_names,
                                                    folio_message* message);
/// Of the sequence's full page `position`. Fills as much of the struct as its struct_size holds.
FOLIO_C_EXPORT folio_code folio_get_page_parts(const folio_pool* pool, folio_sequence sequence,
                                               int32_t position, folio_page_parts* parts,
                                               folio_message* message);
/// As folio_begin_io, to read what `group` has of the sequence's page `position`, be it cached.
FOLIO_C_EXPORT folio_code folio_begin_companion_io(folio_pool* pool, folio_sequence sequence,
                                                   int32_t position, uint32_t group,
                                                   folio_io_pin* pin, folio_message* message);
/// As folio_begin_io, to read what memory has of a prompt that the sequence's tokens begin, in rows
/// or cached, also where no hit ends: pins[i] is that of pages[i], 0 where memory has not the page
/// or there is no pin; *num_found of them there are. `pages` and `pins`: [num_pages].
FOLIO_C_EXPORT folio_code folio_begin_prompt_io(folio_pool* pool, folio_sequence sequence,
                                                const int32_t* prompt, int64_t num_tokens,
                                                const folio_prompt_page* pages, folio_io_pin* pins,
                                                int64_t num_pages, int32_t* num_found,
                                                folio_message* message);
/// Others are likely to go on in another way behind the sequence's first `tokens` tokens, 0 or
/// more: what a hit there needs is kept as `likely`.
FOLIO_C_EXPORT folio_code folio_expect_branch(folio_pool* pool, folio_sequence sequence,
                                              int32_t tokens, folio_message* message);
/// Null: nobody is asked any more. FOLIO_BUSY where another one is.
FOLIO_C_EXPORT folio_code folio_watch_evictions(folio_pool* pool,
                                                const folio_eviction_watcher* watcher,
                                                folio_message* message);

/// What memory has behind the sequence's tokens, which fill whole pages: parts[i]: bits of the
/// groups that have leading page i there; 0 from the first on that group 0 lacks, *num_found of
/// them it has.
FOLIO_C_EXPORT folio_code folio_find_parts(folio_pool* pool, folio_sequence sequence,
                                           const int32_t* prompt, int64_t num_tokens,
                                           uint8_t* parts, int64_t num_parts, int32_t* num_found,
                                           folio_message* message);
/// Room for the prompt's first `length` tokens, a multiple of page_size, as a hit of that length
/// has it. fill[i], of the whole pages behind the sequence's tokens: the groups whose page there is
/// new, to be filled. Until folio_commit_load the sequence has its old length, and folio_commit is
/// FOLIO_BUSY.
FOLIO_C_EXPORT folio_code folio_begin_load(folio_pool* pool, folio_sequence sequence,
                                           const int32_t* prompt, int64_t num_tokens,
                                           int32_t length, uint8_t* fill, int64_t num_fill,
                                           folio_message* message);
/// As folio_begin_load, of the whole prompt, for whom no token is left to compute: it may end
/// within a page, which has an element of `fill`, too.
FOLIO_C_EXPORT folio_code folio_begin_whole_load(folio_pool* pool, folio_sequence sequence,
                                                 const int32_t* prompt, int64_t num_tokens,
                                                 uint8_t* fill, int64_t num_fill,
                                                 folio_message* message);
/// A shorter load; `fill`: what is to be filled beside what was new before and is still needed.
FOLIO_C_EXPORT folio_code folio_shorten_load(folio_pool* pool, folio_sequence sequence,
                                             int32_t length, uint8_t* fill, int64_t num_fill,
                                             folio_message* message);
/// All is filled: `tokens`, those of the load, become the sequence's.
FOLIO_C_EXPORT folio_code folio_commit_load(folio_pool* pool, folio_sequence sequence,
                                            const int32_t* tokens, int64_t num_tokens,
                                            folio_message* message);
/// As folio_commit_load, with what folio_commit_merged does.
FOLIO_C_EXPORT folio_code folio_commit_merged_load(folio_pool* pool, folio_sequence sequence,
                                                   const int32_t* tokens, int64_t num_tokens,
                                                   folio_message* message);
/// 0 without a load.
FOLIO_C_EXPORT folio_code folio_get_load_length(const folio_pool* pool, folio_sequence sequence,
                                                int32_t* length, folio_message* message);

#ifdef __cplusplus
}
#endif
// NOLINTEND
