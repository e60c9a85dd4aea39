// SPDX-License-Identifier: Apache-2.0
/// src/cuda/mla/config.h: sizes of an MLA decode kernel, and where its parts lie in shared memory.
///
/// Eight warps do 32 keys at a time, a *tile*, through a ring of `Stages` in shared memory:
///
///   scores   warp w does 16 keys (w % 2) over one of each four 16-dim steps of a row (w / 2):
///            four partial sums per score, in float32
///   softmax  warp w owns rows [4w, 4w + 4): adds the partial sums, keeps maximum and sum
///   values   warp w does columns [w, w + 1) * v_head_size / 8 of all rows
///
///   ring      [stage][key][row_bytes]    16-byte units of 128 bytes are XORed with the key
///   scores    [part][row][scores_row] f32
///   weights   [row][weights_row bytes] 16-bit, then what each row's sums are rescaled by, f32
///   sums      [row] MaxSum of a finished part
///   tiles     [warp][stage] KeyTile
///   kept      the folded result of rows that registers do not hold beside a part's
#pragma once

#include <cstdint>

#include "cuda/plan/device_plan.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::cuda::mla {

/// One tile of keys in the ring. Every warp keeps its own copy.
struct alignas(16) KeyTile {
  int32_t first = 0;     ///< key, a multiple of 32
  uint32_t present = 0;  ///< bits of the keys that some row sees and whose page is assigned
  uint32_t ends_part = 0;
  uint32_t ends_task = 0;
};

/// What shared memory of a block a device has: compute capabilities 9.0 and 10.0, 8.0, 12.0.
inline constexpr int shared_bytes_90 = 227 << 10;
inline constexpr int shared_bytes_80 = 163 << 10;
inline constexpr int shared_bytes_120 = 99 << 10;

/// `General`: intervals, trees, softcap, ALiBi and biases, too.
template <DType Type, int HeadSize, int VHeadSize, int Rows, int Stages, int SharedLimit,
          bool General>
struct Config {
  static constexpr DType type = Type;
  static constexpr int head_size = HeadSize, v_head_size = VHeadSize, stages = Stages;
  static constexpr bool is_general = General;

  static constexpr int warps = 8, threads = 32 * warps;
  static constexpr int rows = Rows, row_tiles = Rows / 16, rows_per_warp = 4;
  static constexpr int tile_keys = 32, slabs = tile_keys / 16, parts = warps / slabs;

  static constexpr int row_bytes = HeadSize * 2;
  static constexpr int lines = row_bytes / 128;  ///< of a row; each part does a step in each
  static constexpr int columns = VHeadSize / warps, column_tiles = columns / 8;
  static_assert(Rows == 16 || Rows == 32);
  static_assert(HeadSize % 64 == 0 && VHeadSize % (16 * warps) == 0 && VHeadSize <= HeadSize);

  // rows of scores and weights lie 8 banks, or 5 units of 16 bytes, from one another
  static constexpr int scores_row = tile_keys + 8, weights_row = tile_keys * 2 + 16;
  static constexpr int stage_bytes = tile_keys * row_bytes;
  static constexpr int scores_at = Stages * stage_bytes;
  static constexpr int weights_at = scores_at + parts * rows * scores_row * 4;
  static constexpr int factors_at = weights_at + rows * weights_row;
  static constexpr int sums_at = factors_at + rows * 4;
  static constexpr int tiles_at = sums_at + rows * 8;
  /// Of a lane's rows l / 4 + 8i those from here on do not fit registers beside the part's.
  static constexpr int lane_rows = 2 * row_tiles, first_kept = Rows == 16 ? 2 : 0;
  static constexpr int kept_row_bytes = threads * (2 * column_tiles + 2) * 4;
  static constexpr int kept_at = tiles_at + warps * Stages * 16;
  static constexpr int kept_bytes = (lane_rows - first_kept) * kept_row_bytes;
  static constexpr int flag_at = kept_at + kept_bytes;
  static constexpr int shared_bytes = flag_at + 16;
  static_assert(Stages >= 2 && shared_bytes <= SharedLimit);
};

/// DeviceGeometry::span_keys. Where no bit may depend on the cut each span begins from an empty
/// state, and is long enough that folding and storing it cost little; else it is what tasks are cut
/// by.
FOLIO_HOST_DEVICE constexpr int32_t span_keys_of(Reproducible reproducible) {
  return reproducible == Reproducible::per_plan ? 64 : 512;
}
/// Keys of a part, which begins from an empty state: a span, or so many that sums stay short. Parts
/// begin at absolute multiples, or with a task.
FOLIO_HOST_DEVICE constexpr int32_t part_keys_of(Reproducible reproducible) {
  return reproducible == Reproducible::per_plan ? 8192 : span_keys_of(reproducible);
}

}  // namespace folio::cuda::mla
