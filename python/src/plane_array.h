// SPDX-License-Identifier: Apache-2.0
/// python/src/plane_array.h: planes as arrays for other libraries.
#pragma once

#include "array.h"
#include "folio/cache/paged_kv_view.h"

namespace folio::python {

/// `view`, which is a plane of `pages`, as an array [pages, slots, heads, dim] that keeps `pages`
/// alive; packed rows, and those of a block format, as bytes. None where there is no plane.
nb::object plane_array(nb::handle pages, const PagedKVView& view);

}  // namespace folio::python
