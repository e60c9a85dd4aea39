// SPDX-License-Identifier: Apache-2.0
/// src/cache/check_reach.h: how far apart the elements of planes and tensors may lie.
///
/// Offsets are sums of index times stride. Each product within `memory_bytes_max` makes all sums
/// fit an int64_t, so that whoever walks a checked plane or tensor multiplies without looking.
#pragma once

#include "folio/cache/batch.h"
#include "folio/cache/paged_kv_view.h"
#include "folio/core/any_tensor.h"
#include "folio/core/status.h"

namespace folio::inline v1 {

/// `num_pages` stands for the view's own where that is not known yet. Extents and granularity are
/// at least 1.
/// Errors: invalid_argument, "<function>: <plane>.<field>...", for a stride whose first and last
/// place lie more than 2^56 bytes apart, or rows of more bytes than that.
[[nodiscard]] Status check_reach(const char* function, const char* plane, const PagedKVView& view,
                                 int64_t num_pages) noexcept;

/// The same for a tensor, and for the number of its elements: with a stride of 0 that may be more
/// than memory holds. Extents are at least 0.
[[nodiscard]] Status check_reach(const char* function, const char* name,
                                 const ConstTensor<3>& tensor) noexcept;

/// Where the rows of a batch's table begin: not before its entries, and not beyond memory. `size`
/// is at least 0. Errors: invalid_argument, "<function>: batch.table...". Where they are given one
/// by one they are read; `check_row_stride` reads nothing and takes such on trust.
[[nodiscard]] Status check_rows(const char* function, const Batch& batch) noexcept;
[[nodiscard]] Status check_row_stride(const char* function, const Batch& batch) noexcept;

}  // namespace folio::inline v1
