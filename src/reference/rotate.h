// SPDX-License-Identifier: Apache-2.0
/// reference/rotate.h: norms and rotation by table, in double, from their formulas.
///
/// Thread safety: pure functions.
#pragma once

#include <span>
#include <vector>

#include "folio/attention/rotate.h"
#include "folio/cache/batch.h"

namespace folio::reference {

/// y = x / sqrt(mean(x^2) + eps) * weight; with shifts, which may be null,
/// y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + shift
void normalise(std::span<double> row, const float* weights, const float* shifts, double eps);

/// Turns each pair of `row` by its angle of row `position` of the table, as a complex number is
/// turned.
void rotate_row(std::span<double> row, const Rope& rope, int64_t position);

/// The row of the table that token `token` of the step takes.
int64_t position_of(const Batch& batch, const Rope& rope, int64_t token);

/// Turns a query for the keys of KV head `head`: times the channel scales, then H.
void turn_query(const PagedKVView& key, int64_t head, std::span<double> row);

/// What `rotate` computes before it rounds: [tokens, heads, head_size]. The arguments are valid.
std::vector<double> rotated(const Batch& batch, const RotateArgs& args);

}  // namespace folio::reference
