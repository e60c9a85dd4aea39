// SPDX-License-Identifier: Apache-2.0
/// src/attention/check_rows.h: what append, rotate and the copies ask of planes beside the checks
/// in cache/: scales that can be used, rows that fit.
#pragma once

#include "folio/cache/paged_kv_view.h"
#include "folio/core/execution.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// Where arrays lie that a call names: those of the CPU are read and checked, others are not.
using Memory = Device::Kind;

/// A plane that rows are written to as values: check_view, check_places and check_writable_scales.
Status check_writable(const char* function, const char* plane, const PagedKVView& view,
                      Memory memory) noexcept;

/// The scales of a plane, where it has some, can be used to read its values: a tensor_scale that is
/// positive and finite, a head that fits.
/// Errors: invalid_argument, "<function>: <plane>..."; unsupported for too large a head
Status check_readable_scales(const char* function, const char* plane, const PagedKVView& view,
                             Memory memory) noexcept;

/// They can be computed too, where they are not calibrated: of a quantised dtype, one per page.
/// Errors as above.
Status check_writable_scales(const char* function, const char* plane, const PagedKVView& view,
                             Memory memory) noexcept;

/// How the rows of a plane are turned is what there can be: its rotation, and its channel scales,
/// which are positive and finite. Nothing else of the plane is looked at.
/// Errors: invalid_argument, also for a turn on another device than the CPU; unsupported for too
/// large a head
Status check_turn(const char* function, const char* plane, const PagedKVView& view,
                  Memory memory) noexcept;

/// Unsupported if rows of `head_size` do not fit the kernels' scratch memory. `reason`: what they
/// would have to fit for.
Status check_head_size(const char* function, const char* plane, int32_t head_size,
                       const char* reason) noexcept;

}  // namespace folio::inline v1
