// SPDX-License-Identifier: Apache-2.0
/// src/cpu/amx/grouped/grouped_amx_bf16_narrow.cpp: the kernel for grouped heads on AMX tiles in
/// hardware, depths of up to 128.
#include "cpu/amx/grouped/engine.h"
#include "cpu/amx/grouped/grouped.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes {
  using Tile = amx::HardwareTile<InstructionSet>;
};

}  // namespace

void amx_bf16::run_grouped_narrow(const KernelCall& call, const Task& task, void* scratch,
                                  std::byte* partials) noexcept {
  amx::run_grouped<InstructionSet, amx::Piece::narrow>(call, task, scratch, partials);
}

void amx_bf16::finish_grouped_narrow(const KernelCall& call, const Task& task, void* scratch,
                                     const std::byte* partials) noexcept {
  amx::finish_grouped<InstructionSet, amx::Piece::narrow>(call, task, scratch, partials);
}

}  // namespace folio::inline v1
