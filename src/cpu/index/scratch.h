// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/scratch.h: how the scratch memory of the portable index engine is laid out.
///
///     q        [queries * q_heads][head]        queries, turned and scaled, f32
///     weights  [queries][q_heads]
///     rows     [tile_keys][head]                key rows, f32, as they are stored
///     keys     [strips][head_size][strip keys]  the same transposed: a lane is a key
///
/// with head rounded up to 16 floats. A strip is as many keys as a register tile takes: it stays in
/// the first-level cache while all heads of all queries pass. ISA-safe: always-inline functions and
/// plain structs only.
#pragma once

#include <cstdint>

#include "cpu/skeleton/state.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/sparse/index.h"

namespace folio::inline v1::indexer {

/// Rows of q that share one staged key tile: as many as stay in the second-level cache beside it.
inline constexpr int32_t task_rows = 512;
inline constexpr int32_t queries_max = 16;

FOLIO_ALWAYS_INLINE int32_t queries_of(const IndexProblem& problem, int32_t rows = task_rows) {
  const int32_t queries = rows / problem.q_heads;
  return queries < 1 ? 1 : queries > queries_max ? queries_max : queries;
}

struct Scratch {
  int32_t head = 0;
  float* q = nullptr;
  float* weights = nullptr;
  float* rows = nullptr;
  float* keys = nullptr;
  int64_t bytes = 0;
};

/// From null memory: the sizes alone.
FOLIO_ALWAYS_INLINE Scratch scratch_at(void* memory, const IndexProblem& problem) {
  const int64_t queries = queries_of(problem);
  Scratch s;
  s.head = static_cast<int32_t>(skeleton::round_up(problem.key.head_size, 16));
  skeleton::Parts parts(memory);
  s.q = parts.take<float>(queries * problem.q_heads * s.head);
  s.weights = parts.take<float>(queries * problem.q_heads);
  s.rows = parts.take<float>(int64_t{tile_keys} * s.head);
  s.keys = parts.take<float>(int64_t{tile_keys} * s.head);
  s.bytes = parts.bytes();
  return s;
}

}  // namespace folio::inline v1::indexer
