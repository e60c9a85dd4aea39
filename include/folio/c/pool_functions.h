// SPDX-License-Identifier: Apache-2.0
/// folio/c/pool_functions.h: what a page pool tells functions of the caller's, in the C interface
/// (folio/c/folio.h): contents of pages that want a name, and events. folio_pool_options has both
/// functions.
///
/// A pool calls them by the thread and inside the call that cause it. From there calls with a
/// `const folio_pool*` may be made, others are FOLIO_BUSY, and folio_destroy_pool does nothing.
/// Neither function may unwind (longjmp, an exception of another language, a panic). What they are
/// handed stays until they return.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/// ContentSpan: tokens that stand for an item, an image say, from an offset in the prompt on; in a
/// folio_page_content as seen from the page's first token. Fixed for ever, as the next ones: arrays
/// of it are passed.
typedef struct folio_content_span {
  int32_t offset, length;
  uint8_t hash[32];
} folio_content_span;

/// PageName: 256 bits that stand for a full page and all before it. What has fewer stands in front,
/// the rest is 0.
typedef struct folio_page_name {
  uint8_t bytes[32];
} folio_page_name;

/// PageContent: what a name stands for. A pool sets struct_size to its own.
typedef struct folio_page_content {
  uint32_t struct_size;
  uint32_t reserved;
  const folio_page_name* parent;  ///< of the page before; null: the sequence's first page
  const int32_t* tokens;
  int64_t num_tokens;  ///< page_size
  /// ascending, none overlapping another, each with a token in the page
  const folio_content_span* spans;
  int64_t num_spans;
  const char* salt;  ///< of the sequence, as `adapter`; a parent's name stands for them, too
  size_t salt_bytes;
  uint64_t adapter;
} folio_page_content;

/// CompanionContent: what a group of rule FOLIO_GROUP_... has of a leading page's tokens, or its
/// state behind them. A pool sets struct_size to its own.
typedef struct folio_companion_content {
  uint32_t struct_size;
  uint32_t group;  ///< its number, >= 1
  int32_t rule;    ///< FOLIO_GROUP_FULL ...; what it has not is 0, as in folio_group
  int32_t window, sinks, chunk, checkpoint;
  folio_page_name leading;
} folio_companion_content;

enum { FOLIO_STORED = 0, FOLIO_REMOVED = 1, FOLIO_CLEARED = 2 };  // kind of an event

/// PoolEvent: a content can be found from now on, no more, or none can; of another group than 0, a
/// page of a content has got or lost its companion.
typedef struct folio_pool_event {
  uint64_t number;  ///< 1 is the first of a pool
  uint64_t content, parent;
  uint64_t adapter;             ///< stored: of the sequence
  folio_page_name name;         ///< with has_name, else 0
  folio_page_name parent_name;  ///< with has_parent_name, else 0; of a companion its leading page's
  int32_t position;             ///< stored: of the page in its sequence; else, and in snapshots, -1
  int32_t num_tokens;           ///< page_size; 0 when cleared
  int32_t kind;                 ///< FOLIO_STORED ...
  int32_t is_of_snapshot;       ///< `number` is then of the last event before
  int32_t has_name, has_parent_name;
  uint32_t group;  ///< 0: the leading one
  uint32_t reserved;
} folio_pool_event;

#ifdef __cplusplus
}
#endif
// NOLINTEND
