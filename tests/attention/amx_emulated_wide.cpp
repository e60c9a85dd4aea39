// SPDX-License-Identifier: Apache-2.0
/// tests/attention/amx_emulated_wide.cpp: the AMX kernels on emulated tiles for depths above
/// 128, compiled for AVX512-BF16.
#include "attention/amx_emulated_kernels.h"

#include "cpu/amx/grouped/engine.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {};

}  // namespace

void run_grouped_emulated_wide(const KernelCall& call, const Task& task, void* scratch,
                               std::byte* partials) noexcept {
  amx::run_grouped<InstructionSet, amx::Piece::wide>(call, task, scratch, partials);
}

void finish_grouped_emulated_wide(const KernelCall& call, const Task& task, void* scratch,
                                  const std::byte* partials) noexcept {
  amx::finish_grouped<InstructionSet, amx::Piece::wide>(call, task, scratch, partials);
}

}  // namespace folio::test
