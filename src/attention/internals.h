// SPDX-License-Identifier: Apache-2.0
/// src/attention/internals.h: what the library itself sees of the public types.
#pragma once

#include "folio/attention/plan.h"
#include "kernel/kernel.h"

namespace folio::inline v1 {

struct AttentionInternals {
  static const Kernel* kernel(const Attention& attention) noexcept {
    return static_cast<const Kernel*>(attention.kernel_);
  }
  static const Kernel* many_rows_kernel(const Attention& attention) noexcept {
    return static_cast<const Kernel*>(attention.many_rows_kernel_);
  }
};

/// The selected entry of the kernel list; null of an Attention that was not made by create.
[[nodiscard]] inline const Kernel* kernel_entry(const Attention& attention) noexcept {
  return AttentionInternals::kernel(attention);
}

/// The entry for sequences of many rows; null: the other one serves them all.
[[nodiscard]] inline const Kernel* many_rows_entry(const Attention& attention) noexcept {
  return AttentionInternals::many_rows_kernel(attention);
}

/// `function` works on the host alone. Errors: unsupported for an Attention of a device.
[[nodiscard]] inline Status check_host(const char* function, const Attention& attention) noexcept {
  if (kernel_entry(attention)->device == nullptr) return {};
  return fail(Errc::unsupported,
              "{}: attention is of a CUDA device, expected plan_async, prepare_async and "
              "attend_async",
              function);
}

/// The number of the next plan of this process, whatever memory it lies in.
[[nodiscard]] uint64_t next_plan_generation() noexcept;

}  // namespace folio::inline v1
