// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/layout.h: the sizes of the AMX kernel for grouped heads, and its scratch
/// memory.
///
/// Head sizes are padded with zeros to the next pair of depths that is compiled. ISA-safe:
/// always-inline functions and plain structs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/amx/grouped/staged_tile.h"
#include "cpu/skeleton/state.h"
#include "cpu/tuning.h"
#include "folio/attention/kv_buffer/page_cursor.h"
#include "folio/attention/problem.h"

namespace folio::inline v1::amx {

/// Depth of K and of V: what a kernel is compiled for.
template <int Depth, int VDepth>
struct GroupedSizes {
  static constexpr int depth = Depth;
  static constexpr int v_depth = VDepth;
};

inline constexpr int grouped_rows = GroupedTuning::task_rows;
inline constexpr int row_tile = 16;  // rows of an A operand
inline constexpr int grouped_depth_max = 512;

/// Calls visit(GroupedSizes<...>) for the smallest sizes that hold the problem's; false: there are
/// none.
template <class Visit>
FOLIO_ALWAYS_INLINE constexpr bool visit_grouped_sizes(int head_size, int v_head_size,
                                                       Visit visit) {
  if (head_size <= 64 && v_head_size <= 64) return visit(GroupedSizes<64, 64>()), true;
  if (head_size <= 96 && v_head_size <= 96) return visit(GroupedSizes<96, 96>()), true;
  if (head_size <= 128 && v_head_size <= 128) return visit(GroupedSizes<128, 128>()), true;
  if (head_size <= 192 && v_head_size <= 128) return visit(GroupedSizes<192, 128>()), true;
  if (head_size <= 256 && v_head_size <= 256) return visit(GroupedSizes<256, 256>()), true;
  if (head_size <= 512 && v_head_size <= 512) return visit(GroupedSizes<512, 512>()), true;
  return false;
}

/// The kernel is compiled in two pieces, side by side.
enum class Piece : uint8_t { narrow, wide };
template <class Sizes>
inline constexpr Piece piece_of = Sizes::depth <= 128 ? Piece::narrow : Piece::wide;

/// A task's memory beside the skeleton's.
template <class Sizes>
struct GroupedScratch {
  static constexpr int tiles = GroupedTuning::staged_tiles(Sizes::depth);
  static constexpr int edges_max = GroupedTuning::edges_max;

  FOLIO_ALWAYS_INLINE explicit GroupedScratch(void* memory) {
    skeleton::Parts parts(memory);
    queries = parts.take<std::byte>(int64_t{grouped_rows} * Sizes::depth * 2);
    keys = parts.take<std::byte>(tiles * key_bytes);
    values = parts.take<std::byte>(tiles * value_bytes);
    key_scales = parts.take<float>(tiles * tile_keys);
    value_scales = parts.take<float>(tiles * tile_keys);
    edges = parts.take<Edge>(edges_max);
    compute = parts.take<ComputeScratch>(1);
    bytes = parts.bytes();
  }
  static constexpr int64_t key_bytes = int64_t{tile_keys} * Sizes::depth * 2;
  static constexpr int64_t value_bytes = int64_t{tile_keys} * Sizes::v_depth * 2;

  std::byte* queries;   // [row tile][depth / 32][16 rows][32 dims]
  std::byte* keys;      // [tiles] of stage_keys.h
  std::byte* values;    // [tiles] of stage_values.h
  float* key_scales;    // [tiles][64]
  float* value_scales;  // [tiles][64]
  Edge* edges;          // [edges_max]
  ComputeScratch* compute;
  int64_t bytes;
};

/// What the skeleton needs to know of the engine to size a task's memory.
template <class Sizes>
struct GroupedMemory {
  static constexpr int tiles_max = GroupedScratch<Sizes>::tiles, ahead_max = 1;
  static int state_rows(const AttentionProblem&) { return grouped_rows; }
  static int width(const AttentionProblem&) { return Sizes::v_depth; }
  static int64_t scratch_bytes(const AttentionProblem&) {
    return GroupedScratch<Sizes>(nullptr).bytes;
  }
};

}  // namespace folio::inline v1::amx
