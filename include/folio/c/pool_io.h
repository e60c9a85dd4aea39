// SPDX-License-Identifier: Apache-2.0
/// folio/c/pool_io.h: pages of a page pool that transfers hold, in the C interface
/// (folio/c/folio.h): folio_pool_options::max_io_pins of them at once.
#pragma once

// NOLINTBEGIN: this header is C, with C's names

#include "folio/c/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/// IoPin: a page that a transfer reads or writes; never 0.
typedef uint64_t folio_io_pin;

/// Holds page `entry` of the sequence's row in `group` until folio_end_io, whatever becomes of the
/// sequence. FOLIO_BUSY with max_io_pins of them.
FOLIO_C_EXPORT folio_code folio_begin_io(folio_pool* pool, folio_sequence sequence, int32_t entry,
                                         uint32_t group, folio_io_pin* pin, folio_message* message);
/// The transfer is over, or touches the page no more.
FOLIO_C_EXPORT folio_code folio_end_io(folio_pool* pool, folio_io_pin pin, folio_message* message);
FOLIO_C_EXPORT folio_code folio_get_io_page(const folio_pool* pool, folio_io_pin pin,
                                            uint32_t* page, folio_message* message);

#ifdef __cplusplus
}
#endif
// NOLINTEND
