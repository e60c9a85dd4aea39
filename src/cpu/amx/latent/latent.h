// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/latent.h: the plain functions of the AMX kernel for latent (MLA) heads.
#pragma once

#include "kernel/kernel.h"

namespace folio::inline v1 {

namespace latent {
/// Accepts value_in_key with bf16 queries and rows, up to 96 dims of which 64 are V, or 288 to 576
/// of which up to 512 are V.
KernelRefuse refuse;
KernelGeometryOf geometry;
}  // namespace latent

namespace amx_bf16 {
KernelRun run_latent;
KernelFinish finish_latent;
}  // namespace amx_bf16

}  // namespace folio::inline v1
