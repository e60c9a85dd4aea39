// SPDX-License-Identifier: Apache-2.0
/// folio/c/pool.h: the page pool in the C interface (folio/c/folio.h).
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/cache.h"
#include "folio/c/pool_functions.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct folio_pool folio_pool;
/// never 0; that of a released sequence is an error, not its successor
typedef uint64_t folio_sequence;
typedef uint64_t folio_step;

enum { FOLIO_LRU = 0, FOLIO_S3_FIFO = 1, FOLIO_LFU = 2, FOLIO_COST = 3 };  // eviction

/// PoolOptions. Zero is the default: page_size 16, max_sequences 256, max_pages_per_sequence
/// num_pages, max_namespaces 256, prefix reuse on, eviction of what was released first, allocation
/// by the C++ runtime, a hash_seed drawn from the system's randomness, no retention, no watermark,
/// no look-ahead, no events, hits in whole pages, no items of another kind, no readers, no
/// histograms, no transfers, no names.
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
  int64_t max_retention_ms;
  uint32_t watermark_pages;
  int32_t lookahead_tokens;
  uint32_t event_capacity;     ///< of the ring that folio_read_events reads; 0: no events
  int32_t min_partial_tokens;  ///< hits may end inside a page from so many tokens on; 0: never
  uint32_t max_spans;          ///< items that a prompt may have
  int32_t readers;             ///< other threads read (folio/c/pool_events.h)
  int32_t histograms;          ///< folio_get_pool_histograms
  uint32_t max_io_pins;        ///< pages that transfers hold at once (folio/c/pool_io.h)
  /// Gives a full page its name (folio/c/pool_functions.h): FOLIO_OK and *name, or another code.
  /// Called when folio_get_page_name asks and, in a pool with events, when a content is stored.
  folio_code (*name_page)(void* context, const folio_page_content* page, folio_page_name* name);
  void* name_context;
  /// Is handed each event as it happens; `tokens`: [num_tokens] of the page of a stored event, null
  /// and 0 otherwise.
  void (*on_event)(void* context, const folio_pool_event* event, const int32_t* tokens,
                   int64_t num_tokens);
  void* event_context;
  /// Names what another group of the pool has of a page's tokens; needs name_page, whose context it
  /// is given. Null: such pages have no names (folio/c/pool_loads.h).
  folio_code (*name_companion)(void* context, const folio_companion_content* companion,
                               folio_page_name* name);
} folio_pool_options;

/// RetentionRange: the level of the pages of tokens begin .. end - 1, 0 .. 100 (35: as without a
/// range, 100: pinned), for so long, counted from the release; 0 ms: max_retention_ms.
typedef struct folio_retention_range {
  int32_t begin, end;
  int32_t level;
  int32_t reserved;
  int64_t milliseconds;
} folio_retention_range;

/// Pages are shared only between sequences with equal salt and equal adapter. A null pointer:
/// neither.
typedef struct folio_sequence_options {
  uint32_t struct_size;
  uint32_t reserved;
  const char* salt;
  size_t salt_bytes;
  uint64_t adapter;
  const folio_retention_range* retention;  ///< [num_retention], at most 8
  int64_t num_retention;
  int64_t decode_milliseconds;   ///< of the tokens behind the prompt, with has_decode_retention
  int32_t decode_level;          ///< 0 .. 100
  int32_t has_decode_retention;  ///< 0: the ranges say it
  /// [num_spans], at most max_spans, ascending: belongs to what is compared
  const folio_content_span* spans;
  int64_t num_spans;
} folio_sequence_options;

/// Room for new_tokens tokens behind the length of a sequence.
typedef struct folio_reserve_request {
  folio_sequence sequence;
  int32_t new_tokens;
  int32_t reserved;
} folio_reserve_request;

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
  int64_t pinned_pages;
  int64_t hit_tokens_cached, hit_tokens_used, hit_tokens_partial;
} folio_pool_stats;

/// PoolExplanation: what a reserve needs, and who has the pages; each is counted once.
typedef struct folio_pool_explanation {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t needed, held_back;
  int64_t free, cached, pinned;
  int64_t of_sequences, of_steps, of_copies;
  int64_t short_group;  ///< with groups: the first that would lack pages; -1: none
} folio_pool_explanation;

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
/// The same for several sequences, none twice: all of it or nothing.
FOLIO_C_EXPORT folio_code folio_reserve_batch(folio_pool* pool,
                                              const folio_reserve_request* requests,
                                              int64_t num_requests, folio_message* message);
/// What folio_reserve would need. Fills as much of the struct as its struct_size holds.
FOLIO_C_EXPORT folio_code folio_explain(const folio_pool* pool, folio_sequence sequence,
                                        int32_t new_tokens, folio_pool_explanation* explanation,
                                        folio_message* message);
FOLIO_C_EXPORT folio_code folio_commit(folio_pool* pool, folio_sequence sequence,
                                       const int32_t* written, int64_t num_tokens,
                                       folio_message* message);
/// As folio_commit; a findable page of equal content takes the place of the sequence's own, unless
/// an unfinished step holds the sequence.
FOLIO_C_EXPORT folio_code folio_commit_merged(folio_pool* pool, folio_sequence sequence,
                                              const int32_t* written, int64_t num_tokens,
                                              folio_message* message);
FOLIO_C_EXPORT folio_code folio_trim(folio_pool* pool, folio_sequence sequence, int32_t length,
                                     folio_message* message);
FOLIO_C_EXPORT folio_code folio_fork(folio_pool* pool, folio_sequence sequence, int32_t length,
                                     folio_sequence* forked, folio_message* message);
/// PagePool::fork of several children: children[num_children] are made, or none is.
FOLIO_C_EXPORT folio_code folio_fork_many(folio_pool* pool, folio_sequence sequence, int32_t length,
                                          folio_sequence* children, int64_t num_children,
                                          folio_message* message);
/// Of a tree of drafts, the path to tree[leaf] becomes tree[0]'s; all others are released.
FOLIO_C_EXPORT folio_code folio_keep_path(folio_pool* pool, const folio_sequence* tree,
                                          int64_t num_sequences, int64_t leaf,
                                          folio_message* message);
/// Gives up all pages and keeps the sequence, which has no tokens until folio_resume.
FOLIO_C_EXPORT folio_code folio_preempt(folio_pool* pool, folio_sequence sequence,
                                        folio_message* message);
FOLIO_C_EXPORT folio_code folio_resume(folio_pool* pool, folio_sequence sequence,
                                       const int32_t* tokens, int64_t num_tokens,
                                       int32_t* cached_tokens, folio_message* message);
FOLIO_C_EXPORT folio_code folio_release(folio_pool* pool, folio_sequence sequence,
                                        folio_message* message);
/// How long the cached prefix of the prompt is kept, instead of what was said before; `tokens`
/// (may be null): how many were found.
FOLIO_C_EXPORT folio_code folio_retain(folio_pool* pool, const int32_t* prompt, int64_t num_tokens,
                                       const folio_sequence_options* options, int32_t* tokens,
                                       folio_message* message);
/// What time it is, once a step; it does not go back.
FOLIO_C_EXPORT folio_code folio_advance_time(folio_pool* pool, int64_t now_ms,
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

#ifdef __cplusplus
}
#endif
// NOLINTEND
