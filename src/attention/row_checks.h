// SPDX-License-Identifier: Apache-2.0
/// src/attention/row_checks.h: what append, rotate and the copies ask of planes beside what
/// check_view does: places that can be written, scales that can be used.
#pragma once

#include "folio/cache/paged_kv_view.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Each element has a place of its own, and scales can be read or computed.
/// Errors: invalid_argument, "<function>: <plane>...", also those of check_view; unsupported for
/// scales of too large a head
Status check_writable(const char* function, const char* plane, const PagedKVView& view) noexcept;

/// The scales of a plane that is read: a tensor_scale that is positive and finite, a head that
/// fits. Errors as above.
Status check_scales(const char* function, const char* plane, const PagedKVView& view) noexcept;

/// Unsupported if rows of `head_size` do not fit the kernels' scratch memory. `reason`: what they
/// would have to fit for.
Status check_head_size(const char* function, const char* plane, int32_t head_size,
                       const char* reason) noexcept;

}  // namespace folio::inline v1
