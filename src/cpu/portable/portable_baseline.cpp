// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable_baseline.cpp: the portable kernel for any machine of the architecture.
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"
#include "cpu/vec/baseline_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : BaselineLanes {
  static constexpr Mutant mutant = Mutant::none;
};

using Runner = skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>;

}  // namespace

void baseline::run_portable(const KernelCall& call, const Task& task, void* scratch,
                            std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void baseline::finish_portable(const KernelCall& call, const Task& task, void* scratch,
                               const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace folio::inline v1
