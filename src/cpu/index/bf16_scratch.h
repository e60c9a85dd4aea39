// SPDX-License-Identifier: Apache-2.0
/// src/cpu/index/bf16_scratch.h: how the scratch memory of the index engine of bf16 products is
/// laid out.
///
///     q        [heads of K][queries][group][depth]           bf16, turned, not scaled
///     weights  [heads of K][queries][group]                  f32
///     keys     [4 groups of 16 keys][depth / 2][16 keys][2]  bf16, AMX's B tiles
///     scales   [64]                                          of the keys, times the problem's
///     products [16 rows][64 keys]                            f32, before they are weighted
///
/// with depth = head_size rounded up to 32. ISA-safe: always-inline functions and plain structs
/// only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/index/scratch.h"
#include "folio/core/element.h"

namespace folio::inline v1::indexer {

/// As many bytes of q as `task_rows` floats take.
inline constexpr int32_t bf16_task_rows = 2 * task_rows;
inline constexpr int32_t product_rows = 16;  ///< of q, of one product of tiles

struct Bf16Scratch {
  int32_t depth = 0;
  bf16* q = nullptr;
  float* weights = nullptr;
  std::byte* keys = nullptr;
  float* scales = nullptr;
  float* products = nullptr;
  int64_t bytes = 0;
};

/// From null memory: the sizes alone.
FOLIO_ALWAYS_INLINE Bf16Scratch bf16_scratch_at(void* memory, const IndexProblem& problem) {
  // the last product reads rows behind those that there are
  const int64_t rows =
      int64_t{queries_of(problem, bf16_task_rows)} * problem.q_heads + product_rows;
  Bf16Scratch s;
  s.depth = static_cast<int32_t>(skeleton::round_up(problem.key.head_size, 32));
  skeleton::Parts parts(memory);
  s.q = parts.take<bf16>(rows * s.depth);
  s.weights = parts.take<float>(rows);
  s.keys = parts.take<std::byte>(int64_t{tile_keys} * s.depth * 2);
  s.scales = parts.take<float>(tile_keys);
  s.products = parts.take<float>(int64_t{product_rows} * tile_keys);
  s.bytes = parts.bytes();
  return s;
}

}  // namespace folio::inline v1::indexer
