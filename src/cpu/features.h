// SPDX-License-Identifier: Apache-2.0
/// src/cpu/features.h: which processor this is, and what it and the operating system offer.
#pragma once

#include <cstdint>

#include "kernel/capability.h"

namespace folio::inline v1 {

enum class Vendor : uint8_t { other, intel, amd };

struct Processor {
  Vendor vendor = Vendor::other;
  uint32_t family = 0;
  uint32_t model = 0;
  Capabilities capabilities = {};
};

/// Found at the first call, which asks the system for permission to use AMX where the processor has
/// it: if that is refused, or the tile state is masked, the machine counts as one without. Thread
/// safe, without a lock: calls that race find the same.
[[nodiscard]] Processor processor() noexcept;

[[nodiscard]] inline Capabilities machine_capabilities() noexcept {
  return processor().capabilities;
}

[[nodiscard]] inline bool machine_has(Capabilities needs) noexcept {
  return machine_capabilities().has_all(needs);
}

}  // namespace folio::inline v1
