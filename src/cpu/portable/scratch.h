// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/scratch.h: how the scratch memory of the portable kernel is laid out.
///
///     q       [row_tile][head]            queries, scaled, f32
///     rows    [16][head]                  key rows on their way into `keys`
///     keys    [head][tile_keys]           keys transposed: a lane is a key
///     values  [tile_keys][v_head]         values, f32
///     scores  [row_tile][tile_keys]       logits, then probabilities
///
/// with head and v_head rounded up to 16 floats. ISA-safe: always-inline functions and plain
/// structs only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/skeleton/state.h"
#include "cpu/tuning.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/problem.h"

namespace folio::inline v1::portable {

inline constexpr int row_tile = Tuning::task_rows;

struct Scratch {
  int32_t head = 0, v_head = 0;  // rounded up: row strides in floats
  float* q = nullptr;
  float* rows = nullptr;
  float* keys = nullptr;
  float* values = nullptr;
  float* scores = nullptr;
  float* rescale = nullptr;  // [row_tile]
  int64_t bytes = 0;
};

/// From null memory: the sizes alone.
FOLIO_ALWAYS_INLINE Scratch scratch_at(void* memory, const AttentionProblem& problem) {
  Scratch s;
  s.head = static_cast<int32_t>(skeleton::round_up(problem.key.head_size, 16));
  s.v_head = static_cast<int32_t>(skeleton::round_up(problem.v_head_size, 16));
  skeleton::Parts parts(memory);
  s.q = parts.take<float>(int64_t{row_tile} * s.head);
  s.rows = parts.take<float>(int64_t{16} * s.head);
  s.keys = parts.take<float>(int64_t{s.head} * tile_keys);
  s.values = parts.take<float>(int64_t{tile_keys} * s.v_head);
  s.scores = parts.take<float>(int64_t{row_tile} * tile_keys);
  s.rescale = parts.take<float>(row_tile);
  s.bytes = parts.bytes();
  return s;
}

}  // namespace folio::inline v1::portable
