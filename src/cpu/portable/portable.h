// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable.h: the plain functions that each build of the portable kernel exports,
/// and what they share.
#pragma once

#include "kernel/kernel.h"

namespace folio::inline v1 {

namespace portable {
KernelRefuse refuse;
KernelGeometryOf geometry;
}  // namespace portable

namespace baseline {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace baseline

namespace x86_64_v3 {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace x86_64_v3

namespace x86_64_v4 {
KernelRun run_portable;
KernelFinish finish_portable;
}  // namespace x86_64_v4

}  // namespace folio::inline v1
