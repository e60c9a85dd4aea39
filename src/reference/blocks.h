// SPDX-License-Identifier: Apache-2.0
/// reference/blocks.h: floats as the blocks of folio/core/dtype.h, by the rules of
/// folio/attention/append.h; reading them: elements.h.
///
/// The rules are in float32 by definition: every operation is done in double and rounded once.
/// Thread safety: pure functions.
#pragma once

#include <span>

#include "folio/core/dtype.h"

namespace folio::reference {

/// Whole blocks of `x`, one after the other.
void store_blocks(void* at, DType dtype, std::span<const float> x);

/// How far what is read back may be from a finite element of a block whose elements lie in
/// [low, high], while d is a normal number of f16 and fits: the promise of append.h, less rounding
/// of the last place.
double block_error(DType dtype, double low, double high);

}  // namespace folio::reference
