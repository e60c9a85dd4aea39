// SPDX-License-Identifier: Apache-2.0
/// run/timing.h: what bench/bench.py measures, through llama.h.
#pragma once
#include <vector>

#include "session.h"

namespace folio::llama_run {

/// Seconds for a prompt of `tokens` in an empty cache, which holds it afterwards as sequence 0.
double time_prompt(Session& session, int tokens);

/// Seconds of each of `steps` decode steps of one token at position `depth` and later. The tokens
/// leave the cache again.
std::vector<double> time_steps(Session& session, int depth, int steps);

/// Makes sequence 0 hold `depth` tokens: a prompt of `block` tokens, computed once and put into the
/// cache again and again at later positions, as sequences that then become one. A cache of one
/// stream for depth / block sequences. What steps cost depends on the depth alone, not on the
/// values; the whole prompt would take llama.cpp's plain attention many minutes.
void deepen(Session& session, int depth, int block);

}  // namespace folio::llama_run
