// SPDX-License-Identifier: Apache-2.0
/// src/cpu/profile.h: how a kind of machine wants to be used, as data: which units are fast, how
/// its memory is fetched ahead.
///
/// Chosen by feature bits and processor identity, never by timing, so that a machine always runs
/// the same code. Kernels read a profile; they hold no machine's constants themselves.
#pragma once

#include <cstdint>

#include "cpu/features.h"

namespace folio::inline v1 {

/// How the rows of coming keys are fetched ahead.
enum class PrefetchPolicy : uint8_t {
  none,   ///< by hardware alone
  paced,  ///< every line once, spread evenly over the work before its use
};

struct MachineProfile {
  const char* name = "generic";
  /// slower than two f32 multiply-adds: kernels on it are not chosen while others accept
  bool bf16_dot_is_slow = false;
  PrefetchPolicy in_place = PrefetchPolicy::none;  ///< of kernels that read rows where they lie
  /// of kernels that stage whole tiles: of the rows of the next head or tile
  PrefetchPolicy staged = PrefetchPolicy::none;
  /// Calls that write at least this much (append, copies) store past the caches: they would not
  /// hold it, and a store that bypasses them needs no read of the line that it replaces.
  int64_t stream_bytes = 32 << 20;
};

[[nodiscard]] const MachineProfile& profile_of(const Processor& processor) noexcept;
[[nodiscard]] inline const MachineProfile& machine_profile() noexcept {
  return profile_of(processor());
}

}  // namespace folio::inline v1
