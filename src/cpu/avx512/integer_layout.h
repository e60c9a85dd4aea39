// SPDX-License-Identifier: Apache-2.0
/// src/cpu/avx512/integer_layout.h: how the engine of integer products lays out a task's rows and
/// its scratch memory; known without its instructions.
///
///     q         [heads][blocks of rows][chunks of 64 columns][4][rows of the block][64]  i8: for
///               each i of 4 the words 4 p + i of a chunk, each 4 times over (integer_products.h)
///     scores    [heads at once][rows][64 keys]    f32
///     weights   [heads at once][rows][64 keys]    u8, once for each sign of V's scales
///     keys, values    two stages of rows that are not read where they lie
///
/// Rows of each KV head are padded to 8, those of a block. ISA-safe: always-inline functions and
/// plain structs only.
#pragma once

#include "cpu/avx512/layout.h"

namespace folio::inline v1::avx512 {

struct IntegerScratch {
  int8_t* q = nullptr;
  float* steps = nullptr;          // [state rows]: what 1 stands for in a row of q
  int32_t* corrections = nullptr;  // [state rows]: -128 times the sum of a row of q
  float* scores = nullptr;
  uint8_t* weights[2] = {};
  float* units[2] = {};  // [heads at once][rows]: what 1 stands for in a row of weights
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  float* key_scales = nullptr;    // [heads at once][64]
  float* value_scales = nullptr;  // [heads at once][64]
  float* row = nullptr;           // one row of q on its way into `q`
  int8_t* bytes_of_row = nullptr;
  int64_t bytes = 0;
};

struct IntegerLayout {
  static constexpr int tiles_max = 1, ahead_max = 1;
  static constexpr int block_rows = 8;
  static constexpr int task_rows = 128;
  static constexpr int rows_at_once = 64;  // of heads that are computed at once
  static constexpr int chunk = 64;         // columns that are loaded together
  static constexpr int head_size_max = 256;

  FOLIO_ALWAYS_INLINE static int state_rows(const AttentionProblem&) { return task_rows; }
  FOLIO_ALWAYS_INLINE static int width(const AttentionProblem& problem) {
    return problem.v_head_size;
  }

  /// From null memory: the sizes alone.
  FOLIO_ALWAYS_INLINE static IntegerScratch scratch_at(void* memory,
                                                       const AttentionProblem& problem) {
    IntegerScratch s;
    skeleton::Parts parts(memory);
    s.q = parts.take<int8_t>(int64_t{task_rows} * problem.key.head_size * 4);
    s.steps = parts.take<float>(task_rows);
    s.corrections = parts.take<int32_t>(task_rows);
    s.scores = parts.take<float>(int64_t{rows_at_once} * tile_keys);
    for (int i = 0; i < 2; ++i) {
      s.weights[i] = parts.take<uint8_t>(int64_t{rows_at_once} * tile_keys);
      s.units[i] = parts.take<float>(rows_at_once);
    }
    s.keys = parts.take<std::byte>(int64_t{stages} * tile_keys * problem.key.head_size);
    s.values = parts.take<std::byte>(int64_t{stages} * tile_keys * width(problem));
    s.key_scales = parts.take<float>(int64_t{heads_max} * tile_keys);
    s.value_scales = parts.take<float>(int64_t{heads_max} * tile_keys);
    s.row = parts.take<float>(problem.key.head_size);
    s.bytes_of_row = parts.take<int8_t>(problem.key.head_size);
    s.bytes = parts.bytes();
    return s;
  }
  FOLIO_ALWAYS_INLINE static int64_t scratch_bytes(const AttentionProblem& problem) {
    return scratch_at(nullptr, problem).bytes;
  }
};

}  // namespace folio::inline v1::avx512
