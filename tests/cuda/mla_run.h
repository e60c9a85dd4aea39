// SPDX-License-Identifier: Apache-2.0
/// tests/cuda/mla_run.h: an MLA decode kernel, run in the emulator on a case: planned by the plan
/// kernel, given nothing but what it may touch.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <set>

#include "cuda/attend_run.h"
#include "cuda/mla/instances.h"
#include "cuda/mla/kernels.h"
#include "reference/attention.h"
#include "reference/visibility.h"
#include "support/run_case.h"

namespace folio::test {

using MlaOptions = RunOptions<3, 2>;

struct MlaResult : RunResult {
  int64_t visible_rows = 0;  ///< latent rows that a tile of query rows sees, of each tile
};

/// Whether a query row sees a key in some of its heads [head, head_end).
inline bool sees(const AttentionCase& c, int32_t b, int64_t row, int64_t key, int32_t head,
                 int32_t head_end) {
  if (!reference::is_visible(c.problem(), c.batch(), b, row, key)) return false;
  if (!c.problem().bias) return true;
  const ConstTensor<3>& bias = c.args().bias;
  for (; head < head_end; ++head) {
    const auto* at = static_cast<const std::byte*>(bias.data) +
                     (bias.extent[0] == 1 ? 0 : head) * bias.stride_bytes[0] +
                     row * bias.stride_bytes[1] + key * 4;
    float value;
    std::memcpy(&value, at, sizeof value);
    if (!(std::isinf(value) && value < 0)) return true;
  }
  return false;
}

/// Gives the table entries of pages with a key that some query sees, and counts latent rows that
/// tiles of `rows` query rows see.
inline int64_t add_visible_entries(emulator::Grid& grid, const AttentionCase& c, int32_t rows) {
  const Batch& batch = c.batch();
  const int32_t heads = c.problem().q_heads;
  int64_t seen_rows = 0;
  for (int32_t b = 0; b < batch.size; ++b) {
    std::set<int64_t> pages;
    const int32_t first = batch.query_offsets[b];
    const int32_t end = (batch.query_offsets[b + 1] - first) * heads;
    for (int64_t key = 0; key < batch.context_lengths[b]; ++key)
      for (int32_t tile = 0; tile < end; tile += rows) {
        bool is_seen = false;
        for (int32_t row = tile; row < std::min(end, tile + rows) && !is_seen; ++row)
          is_seen = sees(c, b, first + row / heads, key, row % heads, row % heads + 1);
        if (!is_seen) continue;
        pages.insert(key / c.args().key.page_size);
        if (reference::slot_of(c.args().key, batch, b, key).page >= 0) ++seen_rows;
      }
    add_table(grid, batch, b, pages);
  }
  return seen_rows;
}

/// Runs `Kernel` on the case; outputs are poisoned first.
template <class Kernel>
MlaResult run_mla(AttentionCase& c, const MlaOptions& o = {}) {
  c.set_precision({c.options().key_dtype, DType::f32, DType::f32});
  int64_t visible_rows = 0;
  const auto give_table = [&](emulator::Grid& grid, const AttentionProblem&) {
    visible_rows = add_visible_entries(grid, c, Kernel::rows);
  };
  const RunResult result = run_planned<Kernel>(
      c, {Kernel::rows, cuda::mla::span_keys_of(c.problem().reproducible), INT32_MAX}, o,
      give_table, [](const cuda::AttendCall& call) { return call; });
  return {result, visible_rows};
}

}  // namespace folio::test
