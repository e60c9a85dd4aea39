// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable_x86_64_v4.cpp: the portable kernel for x86-64-v4.
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes {};

using Runner = skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>;

}  // namespace

void x86_64_v4::run_portable(const KernelCall& call, const Task& task, void* scratch,
                             std::byte* partials) noexcept {
  Runner::run(call, task, scratch, partials);
}

void x86_64_v4::finish_portable(const KernelCall& call, const Task& task, void* scratch,
                                const std::byte* partials) noexcept {
  Runner::finish(call, task, scratch, partials);
}

}  // namespace folio::inline v1
