// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/layout.h: how the AVX-512 engine lays out a task's rows and its scratch memory;
/// known without its instructions.
///
///     q        [heads][blocks of rows][steps][rows of the block]  words of 4 bytes: one f32, or a
///              pair of bf16 dims; of few rows those of a power of two
///     scores   [64 keys][rows of a block]    f32
///     weights  [64 keys or 32 pairs of keys][rows of a block]    words; f32 weights take the place
///                                                                of the scores
///     keys, values   two stages of rows that are not read where they lie, padded to whole vectors
///
/// Rows of each KV head are padded to 16, the lanes of a vector; few rows to those that their tiles
/// compute, so that states and queries of many heads lie side by side. ISA-safe: always-inline
/// functions and plain structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/skeleton/state.h"
#include "cpu/tuning.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/problem.h"

namespace folio::inline v1::avx512 {

inline constexpr int lanes = 16;
inline constexpr int stages = 2;
inline constexpr int heads_max = 32;  // whose scores are held at once

/// 1, 2, 4 or 8: rows that tiles of few rows compute.
FOLIO_ALWAYS_INLINE int few_padded(int rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : 8; }

/// Heads of so few rows, padded, whose scores are held at once: scores of `rows_max`.
FOLIO_ALWAYS_INLINE int heads_at_once(int rows, int rows_max) {
  return rows_max / rows < heads_max ? rows_max / rows : heads_max;
}

/// The rows of a tile as the products read them.
struct TileGroups {
  static constexpr int group_rows = 16, num_groups = tile_keys / group_rows;
  TileRows group[num_groups] = {};
};

struct Scratch {
  uint32_t* q = nullptr;
  float* scores = nullptr;
  uint32_t* weights = nullptr;
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  float* key_scales = nullptr;    // [heads at once][64]
  float* value_scales = nullptr;  // [heads at once][64]
  float* highest = nullptr;       // [rows of a block]: the highest score of each
  float* denominators = nullptr;  // [rows of a block]: while it is not known whether they count
  int64_t bytes = 0;
};

/// What follows from the problem alone. Words of 4 bytes hold `PerWord` elements: 1 of f32, 2 of
/// bf16.
template <int PerWord>
struct Layout {
  static constexpr int tiles_max = 1, ahead_max = 1;
  static constexpr int few_rows = Tuning<PerWord>::few_rows;
  static_assert(few_rows <= 8);
  // no call of `scores` reads into a group behind the last seen key
  static_assert(TileGroups::group_rows % Tuning<PerWord>::keys_beside(1) == 0 &&
                TileGroups::group_rows % Tuning<PerWord>::keys_beside(2) == 0 &&
                TileGroups::group_rows % Tuning<PerWord>::keys_beside(4) == 0);
  static constexpr int element_bytes = 4 / PerWord;
  static constexpr int row_block = Tuning<PerWord>::block_rows;
  static_assert(row_block % lanes == 0 && Tuning<PerWord>::task_rows % row_block == 0);
  static constexpr int vector_columns = lanes * PerWord;  // columns of V that are loaded together

  /// Of so many rows of a head, those that its states and queries take.
  FOLIO_ALWAYS_INLINE static int padded_rows(int rows) {
    return rows <= few_rows ? few_padded(rows) : static_cast<int>(skeleton::round_up(rows, lanes));
  }

  FOLIO_ALWAYS_INLINE static int padded(int columns) {
    return static_cast<int>(skeleton::round_up(columns, vector_columns));
  }
  FOLIO_ALWAYS_INLINE static int state_rows(const AttentionProblem&) {
    return Tuning<PerWord>::task_rows;
  }
  FOLIO_ALWAYS_INLINE static int width(const AttentionProblem& problem) {
    return padded(problem.v_head_size);
  }
  FOLIO_ALWAYS_INLINE static int steps(const AttentionProblem& problem) {
    return problem.key.head_size / PerWord;
  }

  /// From null memory: the sizes alone.
  FOLIO_ALWAYS_INLINE static Scratch scratch_at(void* memory, const AttentionProblem& problem) {
    Scratch s;
    skeleton::Parts parts(memory);
    s.q = parts.take<uint32_t>(int64_t{state_rows(problem)} * steps(problem));
    s.scores = parts.take<float>(int64_t{tile_keys} * row_block);
    s.weights = PerWord == 1 ? reinterpret_cast<uint32_t*>(s.scores)
                             : parts.take<uint32_t>(int64_t{tile_keys} / 2 * row_block);
    s.keys = parts.take<std::byte>(int64_t{stages} * tile_keys * padded(problem.key.head_size) *
                                   element_bytes);
    s.values = parts.take<std::byte>(
        problem.value_in_key ? 0 : int64_t{stages} * tile_keys * width(problem) * element_bytes);
    s.key_scales = parts.take<float>(int64_t{tile_keys} * heads_max);
    s.value_scales = parts.take<float>(int64_t{tile_keys} * heads_max);
    s.highest = parts.take<float>(row_block);
    s.denominators = parts.take<float>(row_block);
    s.bytes = parts.bytes();
    return s;
  }
  FOLIO_ALWAYS_INLINE static int64_t scratch_bytes(const AttentionProblem& problem) {
    return scratch_at(nullptr, problem).bytes;
  }
};

}  // namespace folio::inline v1::avx512
