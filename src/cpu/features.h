// SPDX-License-Identifier: Apache-2.0
/// src/cpu/features.h: which processor this is, and the highest instruction set that it and the
/// operating system offer.
#pragma once

#include "kernel/kernel.h"

namespace folio::inline v1 {

enum class Vendor : uint8_t { other, intel, amd };

struct Processor {
  Vendor vendor = Vendor::other;
  uint32_t family = 0;
  uint32_t model = 0;
  Isa isa = Isa::x86_64;
};

/// Asked of the machine once; thread safe, takes no lock. Asks the system for permission to use AMX
/// where the processor has it: if that is refused, or the tile state is masked, the machine counts
/// as one without.
[[nodiscard]] Processor processor() noexcept;

[[nodiscard]] inline Isa machine_isa() noexcept { return processor().isa; }

/// "x86-64", "x86-64-v3", "x86-64-v4", "AVX512-BF16", "AMX-BF16".
[[nodiscard]] const char* name(Isa isa) noexcept;

}  // namespace folio::inline v1
