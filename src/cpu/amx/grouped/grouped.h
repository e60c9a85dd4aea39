// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/grouped.h: the plain functions of the AMX kernel for grouped heads.
#pragma once

#include "kernel/kernel.h"

namespace folio::inline v1 {

namespace grouped {
/// Accepts bf16 queries; K and V of bf16, i8, f8_e4m3 or f8_e5m2 with heads of up to 256 dims and
/// one scale per token and head at the most.
KernelRefuse refuse;
KernelGeometryOf geometry;
}  // namespace grouped

namespace amx_bf16 {
KernelRun run_grouped;
KernelFinish finish_grouped;

/// Its pieces: depths of up to 128, and those above.
KernelRun run_grouped_narrow;
KernelRun run_grouped_wide;
KernelFinish finish_grouped_narrow;
KernelFinish finish_grouped_wide;
}  // namespace amx_bf16

}  // namespace folio::inline v1
