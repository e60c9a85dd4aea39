// SPDX-License-Identifier: Apache-2.0
/// tests/attention/amx_emulated_kernels.cpp: the AMX kernels on emulated tiles, compiled for
/// AVX512-BF16.
#include "attention/amx_emulated_kernels.h"

#include "cpu/amx/grouped/engine.h"
#include "support/emulated_lanes.h"

namespace folio::test {
namespace {

struct InstructionSet : EmulatedLanes<InstructionSet> {};

}  // namespace

void run_grouped_emulated(const KernelCall& call, const Task& task, void* scratch,
                          std::byte* partials) noexcept {
  // each does what is its own
  amx::run_grouped<InstructionSet, amx::Piece::narrow>(call, task, scratch, partials);
  run_grouped_emulated_wide(call, task, scratch, partials);
}

void finish_grouped_emulated(const KernelCall& call, const Task& task, void* scratch,
                             const std::byte* partials) noexcept {
  amx::finish_grouped<InstructionSet, amx::Piece::narrow>(call, task, scratch, partials);
  finish_grouped_emulated_wide(call, task, scratch, partials);
}

}  // namespace folio::test
