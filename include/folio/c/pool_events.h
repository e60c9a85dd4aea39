// SPDX-License-Identifier: Apache-2.0
/// folio/c/pool_events.h: what changes in the index of a page pool, and what other threads may read
/// of it, in the C interface (folio/c/folio.h).
///
/// Calls on a `const folio_pool*` of this header may be made by any number of threads beside the
/// scheduler's if the pool has `readers`, and no call of the scheduler waits for them; but for
/// folio_snapshot, which is the scheduler's, and as long as nobody destroys the pool.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/// PoolHistogram: values by their number of bits, and their sum.
typedef struct folio_histogram {
  int64_t counts[40];
  int64_t sum;
} folio_histogram;

/// PoolHistograms, in pages taken.
typedef struct folio_pool_histograms {
  uint32_t struct_size;
  uint32_t reserved;
  folio_histogram lifetime, idle, reuse;
} folio_pool_histograms;

/// Copies events `next`, `next` + 1, ... to events[capacity], and says with which to go on. With
/// *lost = 1 nothing is copied: the ring no longer has them, and only folio_snapshot tells what
/// they said. Errors: invalid_argument without event_capacity
FOLIO_C_EXPORT folio_code folio_read_events(const folio_pool* pool, uint64_t next,
                                            folio_pool_event* events, int64_t capacity,
                                            int64_t* num_events, uint64_t* next_event,
                                            int32_t* lost, folio_message* message);
/// A stored event for each content that can be found, parents not always first, then one for each
/// companion, and the number of the last event before: at most one for each page of each group.
/// Errors: invalid_argument for a capacity that is too small (nothing is copied), or without
/// event_capacity and on_event
FOLIO_C_EXPORT folio_code folio_snapshot(const folio_pool* pool, folio_pool_event* events,
                                         int64_t capacity, int64_t* num_events,
                                         uint64_t* last_event, folio_message* message);
/// The name of the sequence's page `position`, which is full, by options->name_page, once for a
/// content; pages before it that have none get theirs. Errors: invalid_argument unless 0 <=
/// position < length / page_size, or without name_page; the code that name_page returned, if it is
/// one of folio's, else FOLIO_INTERNAL, and the page stays without a name
FOLIO_C_EXPORT folio_code folio_get_page_name(folio_pool* pool, folio_sequence sequence,
                                              int32_t position, folio_page_name* name,
                                              folio_message* message);
/// Makes all cached pages free, pinned ones too. Errors: busy while pages are used
FOLIO_C_EXPORT folio_code folio_clear_pool(folio_pool* pool, folio_message* message);

/// These two are folio_peek, in whole pages, and folio_get_pool_stats, of a moment between two
/// calls, for other threads. With groups, folio_read_peek tells of leading pages alone, an upper
/// bound of what all groups can serve. Errors: invalid_argument without `readers`
FOLIO_C_EXPORT folio_code folio_read_peek(const folio_pool* pool, const int32_t* prompt,
                                          int64_t num_tokens, const folio_sequence_options* options,
                                          int32_t* cached_tokens, folio_message* message);
FOLIO_C_EXPORT folio_code folio_read_pool_stats(const folio_pool* pool, folio_pool_stats* stats,
                                                folio_message* message);
/// Counts since the pool was made. Errors: invalid_argument without `histograms`
FOLIO_C_EXPORT folio_code folio_get_pool_histograms(const folio_pool* pool,
                                                    folio_pool_histograms* histograms,
                                                    folio_message* message);

#ifdef __cplusplus
}
#endif
// NOLINTEND
