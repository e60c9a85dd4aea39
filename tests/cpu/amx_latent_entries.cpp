// SPDX-License-Identifier: Apache-2.0
/// tests/cpu/amx_latent_entries.cpp: the AMX kernel for latent heads on emulated tiles, compiled
/// for AVX512-BF16.
#include "cpu/amx_latent_entries.h"

#include "cpu/amx/latent/engine.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {};

}  // namespace

void run_latent_emulated(const KernelCall& call, const Task& task, void* scratch,
                         std::byte* partials) noexcept {
  amx::run_latent<InstructionSet>(call, task, scratch, partials);
}

void finish_latent_emulated(const KernelCall& call, const Task& task, void* scratch,
                            const std::byte* partials) noexcept {
  amx::finish_latent<InstructionSet>(call, task, scratch, partials);
}

}  // namespace folio::test
