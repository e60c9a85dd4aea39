// SPDX-License-Identifier: Apache-2.0
/// reference/append.h: what folio::append must have written: the same arguments, element by
/// element, in double.
#pragma once

#include "folio/attention/append.h"
#include "folio/cache/batch.h"

namespace folio::reference {

/// Writes the tokens of `args` into its planes. The arguments are valid. K that is normalised or
/// rotated is so in double and rounded to float once, before it is stored or quantised:
/// `folio::append` may be a unit of the last place of float away from that.
void append(const Batch& batch, const AppendArgs& args);

}  // namespace folio::reference
