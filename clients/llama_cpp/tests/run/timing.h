// SPDX-License-Identifier: Apache-2.0
/// run/timing.h: what bench/bench.py measures, through llama.h.
#pragma once
#include <vector>

#include "session.h"

namespace folio::llama_run {

/// Seconds for a prompt of `tokens` in an empty cache, which holds it afterwards as sequence 0.
double time_prompt(Session& session, int tokens);

/// Seconds of each of `steps` decode steps of one token at `position` and later. The tokens leave
/// the cache again.
std::vector<double> time_steps(Session& session, int position, int steps);

/// Makes sequence 0 hold `depth` tokens at positions below `block`: a prompt of `block` tokens,
/// computed once and put into the cache again and again, as sequences that then become one. A step
/// at position `block` sees all of them. For a cache of one stream and depth / block sequences.
/// What a step costs depends on how many tokens it sees, not on their positions or values; the
/// prompt itself would take llama.cpp's plain attention many minutes.
void deepen(Session& session, int depth, int block);

}  // namespace folio::llama_run
