// SPDX-License-Identifier: Apache-2.0
/// tests/support/random_options.h: any problem of the supported set, over any cache, by chance.
///
/// What a covering design leaves out: all options at once, shapes between those of models, lengths
/// about the edges of tiles, pages and spans. Small enough for the reference: some ten million
/// products at the most.
#pragma once

#include "support/attention_case.h"
#include "support/random.h"

namespace folio::test {

CaseOptions random_options(Rng& rng);

}  // namespace folio::test
