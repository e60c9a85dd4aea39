// SPDX-License-Identifier: Apache-2.0
/// src/cpu/tuning.h: what each engine is compiled for: block sizes, as a type per engine.
///
/// They decide what stays in registers, and how much memory a task takes, so they are constants of
/// the code; what can differ from machine to machine at run time is in profile.h. Caches are taken
/// to be those of a server: 32 to 48 KB, then 1 to 2 MB for a core.
///
/// Rows never influence one another and every chain of sums runs in one order, so no bit depends on
/// a number here, but where it is said. What bits do depend on is no tuning, is the same for all
/// machines, and stands with what it belongs to: 64 keys of a tile, spans of 2,048 keys,
/// polynomials, thresholds of a maximum.
///
/// ISA-safe: constants and always-inline functions.
#pragma once

#include "folio/core/host_device.h"

namespace folio::inline v1 {

namespace portable {

struct Tuning {
  static constexpr int task_rows = 64;  ///< that share one staged key tile
  static constexpr int block_rows = 4;  ///< of a register tile
};

}  // namespace portable

namespace avx512 {

/// `PerWord`: elements of 4 bytes, 1 of f32 or 2 of bf16.
template <int PerWord>
struct Tuning {
  /// As many rows as share one reading of a tile while their queries and outputs stay in the
  /// second-level cache.
  static constexpr int task_rows = 192;
  /// Rows whose scores of a tile are held at once: a multiple of 16 that divides `task_rows`, few
  /// enough that their queries stay in the first-level cache beside the keys.
  static constexpr int block_rows = PerWord == 1 ? 48 : 64;
  /// of a head, up to 8: its scores are computed with keys instead of rows in the lanes
  static constexpr int few_rows = 8;
  /// Bytes between rows of K up to which 32 of them are read side by side: further apart the lines
  /// of a column share too few sets of a first-level cache of 4 KB a way.
  static constexpr int paired_stride_max = 1024;
  /// Bytes of a way of a first-level cache: rows a multiple of it apart begin in one set, which
  /// holds fewer lines than a group of keys has rows.
  static constexpr int way_bytes = 4096;
  /// Of a tile, K and V of all heads, that lies in the second-level cache when its turn comes.
  static constexpr int kept_tile_bytes = 256 << 10;
  /// computed together where not all see the whole tile
  static constexpr int masked_rows = 32;
  /// rows that one load step stages
  static constexpr int staged_rows = 4;

  /// Keys that one call of `scores` takes beside so many vectors of rows: at most 24 sums.
  FOLIO_ALWAYS_INLINE static constexpr int keys_beside(int vectors) {
    return vectors == 1 ? 16 : vectors <= 3 ? 8 : 4;
  }
};

}  // namespace avx512

namespace amx {

struct GroupedTuning {
  /// a chunk of prefill of one KV head, or several heads of decode
  static constexpr int task_rows = 1024;
  /// of a head, up to which K and V are staged tile by tile
  static constexpr int few_rows = 64;
  /// Key tiles staged at once for many rows: half a MB or so, which the second cache holds.
  FOLIO_ALWAYS_INLINE static constexpr int staged_tiles(int depth) {
    return depth > 256 ? 4 : depth > 192 ? 8 : 16;
  }
  /// that wait for one another: where a run of jobs begins and ends nothing overlaps
  static constexpr int jobs_max = 128;
  static constexpr int edges_max = 64;  ///< of them, that do not see the whole tile
  /// Depths whose Q stays in the first cache: larger Q takes it from O, 40 against 54 % of the roof
  /// at 256.
  static constexpr int resident_query_depth = 128;
  /// Groups of four rows staged from one keep_awake to the next: less than some 300 cycles.
  static constexpr int awake_groups = 2;
};

struct LatentTuning {
  static constexpr int task_rows = 128;  ///< padding included
  /// with four, a chunk of V, its stage and the weights do not stay in L1
  static constexpr int pass_tiles = 3;
  /// Columns of a State more than used, so that the rows of a tile do not all fall into the same
  /// sets of the cache.
  static constexpr int pad_columns = 16;
  /// pairs of keys whose weights a step of the softmax makes
  static constexpr int weigh_pairs = 4;
  static constexpr int fetch_streams = 8;  ///< of rows, that take turns
  static constexpr int fetch_bytes = 128;  ///< of a row, at each turn
  /// Most q heads of a latent head with V in place: it takes twice the products for V and no
  /// staging, so it wins while rows are few. Bits depend on it, for the two round differently: it
  /// is a matter of the problem, never of a task or a machine.
  static constexpr int in_place_group_max = 32;
};

}  // namespace amx

}  // namespace folio::inline v1
