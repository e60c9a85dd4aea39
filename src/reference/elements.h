// SPDX-License-Identifier: Apache-2.0
/// reference/elements.h: element types by their definitions, in double: the independent twin of
/// folio/core/dtype.h.
///
/// A floating format has `precision` significant bits, exponents from `min_exponent` on and a
/// largest value; everything follows from these by ldexp and one rounding to a multiple of a power
/// of two. No bit pattern is manipulated on the way to a value. Thread safety: all functions are
/// pure. Sources: IEEE 754-2019; OCP 8-bit Floating Point Specification 1.0; OCP Microscaling
/// Formats 1.0.
#pragma once

#include <cstdint>

#include "folio/core/dtype.h"

namespace folio::reference {

/// The value of the pattern `code` (the low bit_width(dtype) bits): of u4 the pattern itself.
double decode(DType dtype, uint32_t code);

/// The pattern nearest to x, ties to even; overflow and NaN as folio/core/dtype.h tabulates them.
uint32_t encode(DType dtype, double x);

/// The smallest value of the type that is >= x, as a pattern; above the largest, the type's
/// overflow rule. For scales: x >= 0.
uint32_t encode_up(DType dtype, double x);

/// decode(encode(x)), without the detour through a pattern.
double round_to(DType dtype, double x);

/// The unit roundoff: the largest relative error of round_to in the normal range.
double unit_roundoff(DType dtype);

/// One element in memory, of a type that is not packed.
double load(const void* at, DType dtype);
void store(void* at, DType dtype, double x);

/// The 32 elements of a block.
void load_block(const void* at, DType dtype, double* out);

/// `count` consecutive elements as doubles, of blocks and packed types from the beginning of one
/// on.
void load_row(const void* at, DType dtype, int64_t count, double* out);

/// Element `index` of a packed row.
void store_packed(void* row, DType dtype, int64_t index, uint32_t code);

}  // namespace folio::reference
