// SPDX-License-Identifier: Apache-2.0
/// src/cpu/profile.h: how a kind of machine wants to be used, as data: which arithmetic is fast,
/// how its memory is fetched ahead, what is worth a task.
///
/// Chosen by feature bits and processor identity, never by timing, so that a machine always runs
/// the same code. Kernels read a profile when a task or a call begins; they hold no machine's
/// numbers themselves. What a kernel is compiled for is in tuning.h. No bit of a result depends on
/// a profile but through the choice of the kernel.
#pragma once

#include <cstdint>

#include "cpu/features.h"

namespace folio::inline v1 {

/// How the rows of coming keys are fetched ahead.
enum class PrefetchPolicy : uint8_t {
  none,   ///< by hardware alone
  paced,  ///< every line once, spread evenly over the work before its use
};

/// Of kernels that read rows where they lie, where few rows are computed (docs/kernels/avx512.md).
struct InPlaceProfile {
  PrefetchPolicy policy = PrefetchPolicy::none;
  bool fetches_near = false;   ///< into the first cache; else into the second
  bool beside_values = false;  ///< V's lines while values are added up; else beside the scores, too
  /// token-major pages: all heads together, beside whole rows of the next tile in the order of
  /// memory; else head by head, beside those of the next head
  bool whole_tiles = false;
  bool dense_values = false;  ///< rows of V that share few sets of the first cache, copied for many
  bool again = false;         ///< where they go head by head: each line once more a head before
  /// Steps with no more rows of a head go to such a kernel even where another multiplies tiles; of
  /// pages of each order. 0: none do.
  int32_t rows_token_major = 0;
  int32_t rows_head_major = 0;
};

/// Of the lines that come next, how many each step of a head asks for, in per cent. What is left is
/// asked for at the end of the head, when nothing else is.
struct PacePercent {
  int32_t stage_keys = 0;
  int32_t scores = 0;
  int32_t stage_values = 0;
  int32_t values = 0;
};

/// Of the AMX kernel for grouped heads, where `staged` is paced (docs/kernels/amx.md).
struct AmxGroupedProfile {
  PacePercent pace_16_bit = {};  ///< keys of 16 bits
  PacePercent pace_8_bit = {};   ///< of 8 bits: half the lines for the same products
  int32_t lines_at_end = 0;      ///< asked for together of what is left
};

/// Of all attention kernels: rows of q and of the output are scattered, and fetched so many rows
/// before their turn.
struct RowsProfile {
  int32_t queries_ahead = 0;
  int32_t outputs_ahead = 0;
};

/// Of append, rotate, merge and the copies (docs/kernels/append.md).
struct AppendProfile {
  int32_t tokens_ahead = 0;  ///< tokens whose source is fetched while one is written
  /// into the first cache; else into the second: a line on its way into the first holds one of its
  /// few buffers, which stores past the caches need as well
  bool fetches_near = false;
  /// Calls that write at least this much store past the caches: they would not hold it, and a store
  /// that bypasses them needs no read of the line that it replaces.
  int64_t stream_bytes = 0;
  int64_t task_bytes = 0;        ///< enough for a task to outweigh handing it to another thread
  int32_t tasks_per_thread = 0;  ///< at most, so that uneven threads even out
  int64_t call_bytes = 0;        ///< enough for a run of a copy to outweigh a call
};

struct MachineProfile {
  const char* name = "";
  /// slower than two f32 multiply-adds: kernels on it are not chosen while others accept
  bool bf16_dot_is_slow = false;
  InPlaceProfile in_place = {};
  /// of kernels that stage whole tiles: of the rows of the next head or tile
  PrefetchPolicy staged = PrefetchPolicy::none;
  AmxGroupedProfile amx_grouped = {};
  RowsProfile rows = {};
  AppendProfile append = {};
};

[[nodiscard]] const MachineProfile& profile_of(const Processor& processor) noexcept;

/// Of this machine. Thread safe, without a lock. No inline function: nothing of it is compiled for
/// the instruction set of a kernel that reads it.
[[nodiscard]] const MachineProfile& machine_profile() noexcept;

}  // namespace folio::inline v1
