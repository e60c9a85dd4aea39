// SPDX-License-Identifier: Apache-2.0
/// src/cpu/portable/portable_x86_64_v4.cpp: the portable kernel for x86-64-v4.
#include "cpu/portable/engine.h"
#include "cpu/portable/portable.h"
#include "cpu/vec/avx512_lanes.h"

namespace folio::inline v1 {
namespace {

struct InstructionSet : Avx512Lanes {};

}  // namespace

namespace x86_64_v4 {

void run_portable(const KernelCall& call, const Task& task, void* scratch,
                  std::byte* partials) noexcept {
  skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>::run(call, task, scratch,
                                                                      partials);
}

void finish_portable(const KernelCall& call, const Task& task, void* scratch,
                     const std::byte* partials) noexcept {
  skeleton::TaskRunner<portable::PortableEngine<InstructionSet>>::finish(call, task, scratch,
                                                                         partials);
}

}  // namespace x86_64_v4
}  // namespace folio::inline v1
