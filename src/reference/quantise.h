// SPDX-License-Identifier: Apache-2.0
/// reference/quantise.h: what a quantised cache stores for a granule of inputs, and what it
/// therefore means.
///
/// The rule is design contract 13. Quotients by the scale are float32 by definition (one rounding),
/// so they are computed as such; everything else is in double. Thread safety: pure functions.
#pragma once

#include <span>

#include "folio/core/dtype.h"

namespace folio::reference {

/// The largest stored magnitude that scales aim at: 127, 448, 57344; 1 for types that are not
/// quantised further.
double largest_stored(DType dtype);

/// amax over the finite inputs / largest_stored / tensor_scale, rounded toward +infinity to
/// `scale_dtype`; 1 for amax 0.
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
