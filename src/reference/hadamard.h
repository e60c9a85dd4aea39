// SPDX-License-Identifier: Apache-2.0
/// reference/hadamard.h: rows turned and turned back as PagedKVView::hadamard says.
///
/// Thread safety: pure functions.
#pragma once

#include <span>
#include <vector>

#include "folio/cache/paged_kv_view.h"

namespace folio::reference {

/// One for each element of a block, +1 or -1.
std::vector<double> signs_of(const Hadamard& hadamard);

/// What is quantised of a row, by the definition: a sum of block products for each element.
std::vector<double> turned(std::span<const double> row, const Hadamard& hadamard);

/// The row that was turned.
std::vector<double> turned_back(std::span<const double> row, const Hadamard& hadamard);

/// `turned` in the steps of float32 that `append` states, each rounded once: signs, 1 /
/// sqrt(block), then pairs at a distance of 1, 2, 4, ...
void turn(std::span<float> row, const Hadamard& hadamard);

}  // namespace folio::reference
