// SPDX-License-Identifier: Apache-2.0
/// reference/append.h: what folio::append must have written: the same arguments, element by element, in double.
#pragma once

#include "folio/attention/append.h"
#include "folio/cache/batch.h"

namespace folio::reference {

/// Writes the tokens of `args` into its planes. The arguments are valid; rope and k_norm are not looked at.
void append(const Batch& batch, const AppendArgs& args);

}  // namespace folio::reference
