// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_latent_entries.h: the AMX kernel for latent heads on emulated tiles, for any
/// machine with AVX512-BF16.
#pragma once

#include "kernel/kernel.h"

namespace folio::test {

KernelRun run_latent_emulated;
KernelFinish finish_latent_emulated;

}  // namespace folio::test
