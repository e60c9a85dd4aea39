// SPDX-License-Identifier: Apache-2.0
/// src/cuda/decode/config.h: sizes of an instance of the decode kernel, and where its shared memory
/// lies.
///
///   ring      [warps][stages][K, V][chunk of 64 columns][16 keys][64 columns], swizzled as a TMA
///             box of 64 x 16 elements would be (tma::Swizzle::b128). A slab is 16 keys of K and V
///   alive     [warps][stages] which of a slab's keys the task's rows see, a bit each
///   sums      [warps][rows] of the states that the warps fold
///   free      [warps] the stage that nobody fills: where the warp's state lies while it is folded
///   queries   [chunk][rows][64 columns], where they are not kept in registers
///   parked    [threads] folded columns, where registers do not hold them beside the loop
///   rows      [rows] what they see, and what is added to their logits, likewise
///   walks     of the block's task and of the loaders', likewise
///
/// 96 KiB of ring and a little: two blocks lie on a multiprocessor of compute capability 9.0 and
/// 10.0, one on all others.
#pragma once

#include <cstdint>

#include "cuda/attention/fold.h"
#include "folio/core/dtype.h"
#include "folio/core/host_device.h"

namespace folio::cuda {

/// DeviceGeometry::span_keys. Where no bit may depend on the cut a span is one warp's, long enough
/// that folding it costs little; else it is no more than what tasks are cut by.
FOLIO_HOST_DEVICE constexpr int32_t decode_span_keys(bool stores_spans) {
  return stores_spans ? 256 : 64;
}
/// DeviceGeometry::rows
inline constexpr int32_t decode_rows = 16;

/// Of the grid, and of the registers that a thread may have.
template <int HeadSize>
inline constexpr int decode_blocks_per_processor = 2;

template <DType Type, int HeadSize, bool General>
struct DecodeConfig {
  static_assert(HeadSize == 64 || HeadSize == 128 || HeadSize == 256);
  static constexpr DType type = Type;
  static constexpr int head_size = HeadSize;
  /// Every option; else masks without sink tokens, and sink logits.
  static constexpr bool is_general = General;
  static constexpr int rows = decode_rows;
  static constexpr int slab_keys = 16;
  static constexpr int warps = HeadSize == 256 ? 2 : 4;
  static constexpr int threads = 32 * warps;
  /// Whether registers are left for what a block keeps during a task.
  static constexpr bool has_registers = !General && HeadSize <= 128;
  static constexpr int stages = has_registers ? (HeadSize == 64 ? 6 : 3) : HeadSize == 64 ? 4 : 2;
  static constexpr int row_bytes = HeadSize * 2;
  static constexpr int plane_bytes = slab_keys * row_bytes;
  static constexpr int slab_bytes = 2 * plane_bytes;
  /// Slabs that a warp walks before its state is folded: sums stay short.
  static constexpr int slabs_of_round = 256;

  using Place = FoldPlace<rows, HeadSize, threads>;
  using State = FoldState<Place::columns>;

  static constexpr int alive_at = warps * stages * slab_bytes;
  static constexpr int sums_at = alive_at + (warps * stages * 4 + 7) / 8 * 8;
  static constexpr int free_at = sums_at + warps * rows * 8;
  static constexpr int flag_at = free_at + warps * 4;
  static constexpr int barriers_at = (flag_at + 4 + 7) / 8 * 8;
  static constexpr int queries_at = (barriers_at + warps * stages * 8 + 1023) / 1024 * 1024;
  static constexpr int parked_at = queries_at + (has_registers ? 0 : rows * row_bytes);
  static constexpr int rows_at = parked_at + threads * ((Place::columns + 4) * 4);
  static constexpr int walks_at = rows_at + rows * 48;
  static constexpr int shared_bytes =
      has_registers ? barriers_at + warps * stages * 8 : walks_at + (warps + 1) * 32;
  // a state is as large as the stage it lies in
  static_assert(rows * HeadSize * 4 == slab_bytes);
  static_assert(shared_bytes <= 99 << 10, "more than every architecture has");
};

/// Byte of 16-byte unit `unit` of row `r` in a tile of 16 rows of 16-bit elements.
FOLIO_DEVICE uint32_t tile_offset(int r, int unit) {
  return static_cast<uint32_t>((unit >> 3) * (16 * 128) + r * 128 + (((unit ^ r) & 7) << 4));
}

/// The same for every second unit from one on, of a tile at a multiple of 128: one word, from which
/// each address is one instruction.
class TileColumns {
 public:
  FOLIO_DEVICE TileColumns(uint32_t tile, int r, int unit) : at_(tile + tile_offset(r, unit)) {}
  /// Unit + 2 k, unit being 0 or 1.
  [[nodiscard]] FOLIO_DEVICE uint32_t at(int k) const {
    return (at_ ^ static_cast<uint32_t>((2 * k & 7) << 4)) +
           static_cast<uint32_t>((2 * k >> 3) * (16 * 128));
  }

 private:
  uint32_t at_;
};

}  // namespace folio::cuda
