// SPDX-License-Identifier: Apache-2.0
/// src/cuda/prefill/config.h: sizes of an instance of the prefill kernel, and where its parts lie
/// in shared memory.
///
///     ring    [stages][K, V][keys][head_size]     16-byte units of a row swizzled by the row
///     q       [bands][head_size / 16][threads]    where q does not live in registers: A fragments
///     slots   [stages + 1][keys] KeyAddress       of tiles that are on their way
///     alive   [stages + 1][keys / 32] u32         and which of their keys are alive
///     sights  [rows] SeenKeys, [warps] WarpSight  what rows see
///     record  TaskRecord                          what else belongs to the task
#pragma once

#include <cstdint>

#include "cuda/primitives/device.h"
#include "folio/core/dtype.h"

namespace folio::cuda::prefill {

/// Keys of a span where tasks may divide a row's keys, and where they may not.
inline constexpr int32_t span_keys = 1024;
inline constexpr int32_t whole_span = 1 << 30;

/// Room for a TaskRecord.
inline constexpr int record_bytes = 80;

/// Blocks of 99 KiB run on every architecture from sm_80 on.
inline constexpr int shared_limit = 99 << 10;

template <int HeadSize, DType Type, bool IsGeneral>
struct Config {
  static_assert(HeadSize == 64 || HeadSize == 128 || HeadSize == 256);
  static_assert(Type == DType::bf16 || Type == DType::f16);

  static constexpr int head_size = HeadSize;
  static constexpr DType type = Type;
  /// With softcap, ALiBi, bias, intervals, trees or sink tokens; else masks and sink logits alone.
  static constexpr bool is_general = IsGeneral;

  /// Bands of 16 rows of a warp: what is loaded of K and V once serves each of them. General
  /// instances need their registers for terms, and are bound by those.
  static constexpr int bands = HeadSize == 256 || IsGeneral ? 1 : 2;
  static constexpr int rows = HeadSize == 256 ? 64 : 128;
  static constexpr int warps = rows / (16 * bands);
  static constexpr int threads = 32 * warps;
  static constexpr bool q_in_shared = HeadSize == 256 || (HeadSize == 128 && !IsGeneral);
  static constexpr int keys = q_in_shared ? 32 : 64;  ///< of a tile
  static constexpr int stages = 2;                    ///< one is computed while the other is filled
  static constexpr int slots = stages + 1;
  /// Of up to 255 registers a thread.
  static constexpr int blocks_per_processor = 256 / threads;

  static constexpr int row_bytes = 2 * HeadSize;
  static constexpr int plane_bytes = keys * row_bytes;
  static constexpr int stage_bytes = 2 * plane_bytes;

  static constexpr int q_at = stages * stage_bytes;
  static constexpr int slots_at = q_at + (q_in_shared ? bands * HeadSize / 16 * threads * 16 : 0);
  static constexpr int alive_at = slots_at + slots * keys * 16;
  static constexpr int sights_at = (alive_at + slots * (keys / 32) * 4 + 15) / 16 * 16;
  static constexpr int warps_at = sights_at + rows * 16;
  static constexpr int record_at = warps_at + warps * 16;
  static constexpr int flag_at = record_at + record_bytes;
  static constexpr int shared_bytes = flag_at + 16;
  static_assert(shared_bytes <= shared_limit);
};

/// From the start of a plane of a tile to 16-byte unit `unit` of row `row`: eight rows of one unit
/// lie in different banks.
template <class Config>
FOLIO_DEVICE constexpr uint32_t unit_offset(int row, int unit) {
  return static_cast<uint32_t>(row * Config::row_bytes + (unit >> 3) * 128 +
                               (((unit ^ row) & 7) << 4));
}

}  // namespace folio::cuda::prefill
