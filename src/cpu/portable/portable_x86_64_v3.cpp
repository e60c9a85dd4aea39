// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable_x86_64_v3.cpp: the portable kernel for x86-64-v3.
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"
#include "cpu/vec/avx2_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx2Lanes {
  static constexpr Mutant mutant = Mutant::none;
};

using Runner = skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>;

}  // namespace

void x86_64_v3::run_portable(const KernelCall& call, const Task& task, void* scratch,
                             std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void x86_64_v3::finish_portable(const KernelCall& call, const Task& task, void* scratch,
                                const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace folio::inline v1
