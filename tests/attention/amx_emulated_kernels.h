// SPDX-License-Identifier: Apache-2.0
/// tests/attention/amx_emulated_kernels.h: the AMX kernels on emulated tiles: their own source, for
/// any machine with AVX512-BF16.
#pragma once

#include "kernel/kernel.h"

namespace folio::test {

KernelRun run_grouped_emulated;
KernelFinish finish_grouped_emulated;

/// Those for depths above 128, compiled apart.
KernelRun run_grouped_emulated_wide;
KernelFinish finish_grouped_emulated_wide;

}  // namespace folio::test
