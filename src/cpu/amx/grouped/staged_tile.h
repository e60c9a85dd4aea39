// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/staged_tile.h: what compute.h works on: rows, staged tiles, their edges, and
/// its memory.
///
/// Plain structs, for baseline code too.
#pragma once

#include <cstdint>

#include "cpu/skeleton/task_view.h"

namespace folio::inline v1::amx {

/// The rows of a call and their state, as in skeleton::State: maximum in log2 units.
struct RowTile {
  const uint16_t* queries = nullptr;  // bf16 [Rows / 16][depth / 32][16][32], 64-byte aligned
  // [Rows][v_depth], 64-byte aligned, columns as value_column orders them
  float* output = nullptr;
  float* maximum = nullptr;      // [Rows]
  float* denominator = nullptr;  // [Rows]
};

/// What rows see of a tile, and what joins their scores.
struct Edge {
  uint64_t seen[32] = {};
  skeleton::LogitTerms terms[32];
  bool has_terms = false;
};

/// A tile of 64 keys. 64-byte aligned.
struct StagedTile {
  const uint16_t* keys = nullptr;
  const uint16_t* values = nullptr;
  const float* key_scales = nullptr;    // [64]; null: ones
  const float* value_scales = nullptr;  // [64]; null: ones
  const Edge* edge = nullptr;           // null: every row sees every key, nothing joins the scores
};

/// A row tile attends over a staged tile.
struct TileJob {
  RowTile rows;
  StagedTile tile;
  bool is_first = false;  // of its rows: their output holds anything, and is cleared
};

/// Memory of a call, 64-byte aligned, reusable by any other call of the thread.
struct alignas(64) ComputeScratch {
  /// [16][64], where a head has few rows.
  FOLIO_ALWAYS_INLINE float* scores_of_few(int first_row) { return scores[0] + first_row * 64; }

  float scores[2][32 * 64];   // of two jobs, weights too (see WeightLayout); of few rows: of all
  uint16_t weights[16 * 64];  // beside the scores
  float again[16 * 64];       // scores of rows that are weighed again
  float sums[32 * 16];
  float score_scales[64];
  float weight_scales[64];
  float references[16];
  uint64_t all[32];  // ones
};

}  // namespace folio::inline v1::amx
