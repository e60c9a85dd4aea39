// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/layout.h: the sizes and the scratch memory of the AMX kernel for latent (MLA)
/// heads.
///
/// A row is one q head of one query token. Rows lie 16 to a row tile, a row being a lane of every
/// vector of scores, and the rows of each head begin with a row tile. Row tiles are worked on in
/// pairs, keys in groups of 16 and passes of up to three 64-key tiles.
///
///     queries [row tile][depth / 32][16 dim pairs][16 rows][2]   bf16, B tiles of 1 KB
///     stages  [tile][key][depth]   bf16, rows that cannot be multiplied where they lie
///     scores  [64 keys][row tile of the pair][key][row]   f32
///
/// Weights and V have two forms, by the number of q heads to a latent head (uses_staged_values):
///
///     in place  V's rows are B tiles where they lie: a row of a tile is 16 pairs of neighbouring
///               dims of one key
///               weights [pair][16 keys][row tile][row][16 keys][2]
///                       bf16, A tiles of (weight, 0); 2 bytes before: (0, weight)
///               output  [row][v_depth / 32][16 even dims, 16 odd dims]   f32
///     staged    rows of keys k and k + 16 interleaved by in-lane unpacks, 32 columns at a time
///               values  [32 keys][2][16 keys][16 dims][k, k + 16]   bf16, B tiles
///               weights [pair][32 keys][row tile][row][16 keys][k, k + 16]   bf16, A tiles
///               output  [row][v_depth / 32][dims of both tiles]   f32
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/skeleton/state.h"
#include "cpu/tuning.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/problem.h"

namespace folio::inline v1::amx {

inline constexpr int64_t operand_tile_bytes = 1024;
inline constexpr int tile_rows = 16;  // of a task, in a tile

/// Sizes of latent heads of up to Depth dims, of which up to VDepth are V. Multiples of 32.
template <int Depth, int VDepth>
struct LatentSizes {
  static constexpr int depth = Depth;
  static constexpr int v_depth = VDepth;
  static constexpr int rows = LatentTuning::task_rows;
  static constexpr int pair_rows = 2 * tile_rows;
  static constexpr int pairs_max = rows / pair_rows;
  static constexpr int pass_tiles = LatentTuning::pass_tiles;
  static constexpr int pass_keys = pass_tiles * tile_keys;
  static constexpr int pass_groups = pass_keys / 16;
  static constexpr int k_steps = depth / 32;
  static constexpr int chunks = v_depth / 32;                        // of 32 columns of V
  static constexpr int width = v_depth + LatentTuning::pad_columns;  // columns of a State
  static constexpr int64_t query_tile_bytes = k_steps * operand_tile_bytes;
  // in place; staged weights take half
  static constexpr int64_t group_weight_bytes = 2 * operand_tile_bytes;
  static constexpr int64_t pair_weight_bytes = pass_groups * group_weight_bytes;
  static constexpr int score_tile = tile_keys * tile_rows;  // floats

  static_assert(depth % 32 == 0 && v_depth % 32 == 0 && v_depth <= depth);

  struct Scratch {
    FOLIO_ALWAYS_INLINE explicit Scratch(void* memory) {
      skeleton::Parts parts(memory);
      queries = parts.take<std::byte>(rows / tile_rows * query_tile_bytes);
      stages = parts.take<std::byte>(int64_t{pass_keys} * depth * 2);
      for (float*& tile : scores) tile = parts.take<float>(2 * score_tile);
      zeros = parts.take<std::byte>(64);
      weights = parts.take<std::byte>(pairs_max * pair_weight_bytes);
      values = parts.take<std::byte>(int64_t{pass_keys} * 32 * 2);
      packed = parts.take<uint32_t>(tile_rows * tile_rows);
      factors = parts.take<float>(pairs_max * pass_tiles * pair_rows);
      bytes = parts.bytes();
    }
    std::byte* queries;
    std::byte* stages;
    float* scores[2];  // softmax reads one tile while the next is multiplied
    // 64, just before the weights: the first of them are read from 2 bytes earlier on
    std::byte* zeros;
    std::byte* weights;
    std::byte* values;  // a chunk of columns of V
    uint32_t* packed;   // weights of 32 keys before they are transposed: [key][row][key, key + 16]
    // [pair][tile][row] what the output is multiplied by before the tile's values join it
    float* factors;
    int64_t bytes;
  };
};

using LargeLatent = LatentSizes<576, 512>;
using SmallLatent = LatentSizes<96, 64>;

FOLIO_ALWAYS_INLINE constexpr bool is_small_latent(int head_size, int v_head_size) {
  return head_size >= 8 && head_size <= SmallLatent::depth && v_head_size >= 8 &&
         v_head_size <= SmallLatent::v_depth;
}
/// Half the depth at the least: what is missing is padded with zeros and multiplied like the rest.
FOLIO_ALWAYS_INLINE constexpr bool is_large_latent(int head_size, int v_head_size) {
  return head_size >= LargeLatent::depth / 2 && head_size <= LargeLatent::depth &&
         v_head_size >= 8 && v_head_size <= LargeLatent::v_depth;
}

/// A matter of the problem, not of the task: the two round differently.
FOLIO_ALWAYS_INLINE constexpr bool uses_staged_values(const AttentionProblem& problem) {
  return problem.q_heads / problem.key.num_heads > LatentTuning::in_place_group_max;
}

/// What the skeleton asks an engine for its memory; the engine itself exists for instruction sets
/// only.
template <class S>
struct LatentMemory {
  using Sizes = S;
  static constexpr int tiles_max = Sizes::pass_tiles, ahead_max = Sizes::pass_tiles;
  static int state_rows(const AttentionProblem&) { return Sizes::rows; }
  static int width(const AttentionProblem&) { return Sizes::width; }
  static int64_t scratch_bytes(const AttentionProblem&) {
    return typename Sizes::Scratch(nullptr).bytes;
  }
};

}  // namespace folio::inline v1::amx
