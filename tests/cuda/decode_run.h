// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/decode_run.h: a decode kernel, run in the emulator on a case: planned by the plan
/// kernel, given nothing but what it may touch.
#pragma once

#include <algorithm>
#include <set>

#include "cuda/attend_run.h"
#include "cuda/attention_kernel.h"
#include "cuda/decode/decode.h"
#include "kernel/sequence.h"
#include "reference/elements.h"
#include "support/run_case.h"

namespace folio::test {

using DecodeOptions = RunOptions<4, 3>;

struct DecodeResult : RunResult {
  int64_t visible_bytes = 0;  ///< of K and V, once per tile of rows that sees them
};

/// Table entries of pages with a key that some tile of rows sees, and the bytes of those keys.
template <class Config>
int64_t add_visible_entries(emulator::Grid& grid, const AttentionProblem& problem,
                            const Batch& batch) {
  const int32_t group = problem.q_heads / problem.key.num_heads;
  int64_t bytes = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    const Sequence s = sequence_of(batch, b);
    std::set<int64_t> pages;
    for (int32_t row = 0; row < s.new_tokens * group; row += Config::rows) {
      const int32_t last = std::min(row + Config::rows, s.new_tokens * group) - 1;
      Visible seen;
      for (int32_t token = row / group; token <= last / group; ++token)
        seen = hull(seen, visible_of(problem, batch, s, token));
      for (int64_t key = 0; key < s.context; ++key) {
        if ((seen_in_tile(seen, key) & 1) == 0) continue;
        pages.insert(key / problem.key.page_size);
        const reference::Slot slot = reference::slot_of(problem.key, batch, b, key);
        if (slot.page >= 0) bytes += 2 * Config::row_bytes * problem.key.num_heads;
      }
    }
    add_table(grid, batch, b, pages);
  }
  return bytes;
}

/// Runs `Kernel` on the case; outputs are poisoned first. `make_call` turns the call into the
/// kernel's arguments.
template <class Kernel, class MakeCall>
DecodeResult run_decode(AttentionCase& c, const DecodeOptions& o, MakeCall make_call) {
  const bool stores_spans = c.problem().reproducible != Reproducible::per_plan;
  int64_t visible_bytes = 0;
  const auto give_table = [&](emulator::Grid& grid, AttentionProblem problem) {
    problem.key = c.args().key;  // with the pages of the call
    problem.value = c.args().value;
    visible_bytes = add_visible_entries<typename Kernel::Config>(grid, problem, c.batch());
  };
  const RunResult result =
      run_planned<Kernel>(c, {cuda::decode_rows, cuda::decode_span_keys(stores_spans), INT32_MAX},
                          o, give_table, make_call);
  return {result, visible_bytes};
}

template <class Kernel>
DecodeResult run_decode(AttentionCase& c, const DecodeOptions& o = {}) {
  return run_decode<Kernel>(c, o, [](const cuda::AttendCall& call) { return call; });
}

}  // namespace folio::test
