// SPDX-License-Identifier: Apache-2.0
/// src/cpu/features.h: the highest instruction set that processor and operating system offer.
#pragma once

#include "cpu/kernel.h"

namespace folio {
inline namespace v1 {

/// Asked once; thread safe.
[[nodiscard]] Isa machine_isa() noexcept;

/// "x86-64", "x86-64-v3", "x86-64-v4".
[[nodiscard]] const char* name(Isa isa) noexcept;

}  // namespace v1
}  // namespace folio
