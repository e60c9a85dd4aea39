// SPDX-License-Identifier: Apache-2.0
/// reference/quantise.h: what a quantised cache stores for a granule of inputs, and what it
/// therefore means.
///
/// The rule is design contract 13. Quotients by the scale are float32 by definition (one rounding),
/// so they are computed as such; everything else is in double. Thread safety: pure functions.
#pragma once

#include <span>

#include "folio/cache/paged_kv_view.h"
#include "folio/core/dtype.h"

namespace folio::reference {

/// The largest stored magnitude that scales aim at: 127, 448, 57344, 7, 6; 1 for types that are not
/// quantised further.
double largest_stored(DType dtype);

/// Where a token lies in a plane; page < 0: unassigned.
struct Slot {
  int64_t page = -1;
  int64_t slot = 0;
};

/// What elements of a granule are read by: (stored - zero) * scale + minimum.
struct Reading {
  double scale = 1.0;  ///< times the tensor's
  double zero = 0.0;
  double minimum = 0.0;
};
/// Of element `dim` of one head of one token.
Reading reading_of(const PagedKVView& view, Slot place, int64_t head, int32_t dim);

/// Stores elements [dim, dim + x.size()) of one head of one token, a granule, and what it is read
/// by, unless that is calibrated.
void store_granule(const PagedKVView& view, Slot place, int64_t head, int32_t dim,
                   std::span<const float> x);

/// amax over the finite inputs / largest_stored / tensor_scale, rounded toward +infinity to
/// `scale_dtype`; 1 for amax 0. Of i4 amax / 8 instead, unless `scale_dtype` is f8_e8m0, with the
/// sign by which an input of that magnitude, a negative one if there is, becomes -8.
double scale_of(std::span<const float> granule, DType stored_dtype, DType scale_dtype,
                double tensor_scale = 1.0);

/// The stored value (not multiplied by any scale) of x under scale * tensor_scale.
double quantised(float x, DType stored_dtype, double scale, double tensor_scale = 1.0);

/// What a reader of the cache sees for a row of one head: quantised with one computed scale per
/// `granularity` elements, times that scale. `scale_dtype` invalid: no scales, the row is rounded
/// only. out has x's size.
void stored_row(std::span<const float> x, DType stored_dtype, DType scale_dtype, int granularity,
                double tensor_scale, double* out);

}  // namespace folio::reference
