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
  static const Kernel* few_rows_kernel(const Attention& attention) noexcept {
    return static_cast<const Kernel*>(attention.few_rows_kernel_);
  }
  static int32_t few_rows(const Attention& attention) noexcept { return attention.few_rows_; }
  /// As create does where a profile says so.
  static void set_few_rows(Attention& attention, const Kernel* kernel, int32_t most) noexcept {
    attention.few_rows_kernel_ = kernel;
    attention.few_rows_ = most;
  }
  static uint64_t identity(const Attention& attention) noexcept { return attention.identity_; }
};

/// The selected entry of the kernel list; null of an Attention that was not made by create.
[[nodiscard]] inline const Kernel* kernel_entry(const Attention& attention) noexcept {
  return AttentionInternals::kernel(attention);
}

/// The entry for sequences of many rows; null: the other one serves them all.
[[nodiscard]] inline const Kernel* many_rows_entry(const Attention& attention) noexcept {
  return AttentionInternals::many_rows_kernel(attention);
}

/// The entry for steps whose sequences have few rows of a head each; null: there is none.
[[nodiscard]] inline const Kernel* few_rows_entry(const Attention& attention) noexcept {
  return AttentionInternals::few_rows_kernel(attention);
}

/// What copies of an Attention share with it alone; not 0, unless it is empty.
[[nodiscard]] inline uint64_t identity_of(const Attention& attention) noexcept {
  return AttentionInternals::identity(attention);
}

/// `function` works on the host alone. Errors: unsupported for an Attention of a device.
[[nodiscard]] inline Status check_host(const char* function, const Attention& attention) noexcept {
  if (kernel_entry(attention)->device == nullptr) return {};
  return fail(Errc::unsupported,
              "{}: attention is of a CUDA device, expected plan_async, prepare_async and "
              "attend_async",
              function);
}

/// A number that this process has not given out before, from 1 on: of a plan, whatever memory it
/// lies in, or of an Attention.
[[nodiscard]] uint64_t next_number() noexcept;

}  // namespace folio::inline v1
