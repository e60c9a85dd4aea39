// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/latent/latent_amx_bf16.cpp: the kernel for latent heads on AMX tiles in hardware.
#include <immintrin.h>

#include "cpu/amx/latent/engine.h"
#include "cpu/amx/latent/latent.h"
#include "cpu/amx/tile/tile.h"
#include "cpu/convert/byte_rows.h"
#include "cpu/skeleton/task_runner.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes, ByteRows<InstructionSet> {
  using Tile = amx::HardwareTile<InstructionSet>;
};

}  // namespace

namespace amx_bf16 {

void run_latent(const KernelCall& call, const Task& task, void* scratch,
                std::byte* partials) noexcept {
  amx::run_latent<InstructionSet>(call, task, scratch, partials);
}

void finish_latent(const KernelCall& call, const Task& task, void* scratch,
                   const std::byte* partials) noexcept {
  amx::finish_latent<InstructionSet>(call, task, scratch, partials);
}

}  // namespace amx_bf16
}  // namespace folio::inline v1
